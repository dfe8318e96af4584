"""The documentation: it builds, and its reference knows what the code knows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conch_schemas import EVENTS

ROOT = Path(__file__).parents[2]
MOST_README = 12 * 1024
"""Bytes of a README that is read to its end."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", str(ROOT / "docs" / "mkdocs.yml")]
    done = subprocess.run(
        [*command, "-d", str(directory)],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


def test_it_builds_without_a_warning_and_with_every_link_inside_it_whole(site: Path) -> None:
    """A link or an anchor that leads nowhere is a warning, and warnings end the build."""
    assert (site / "index.html").is_file()


def test_the_reference_names_every_event_and_command(site: Path) -> None:
    """The pages are generated from the code, not written beside it."""
    events = (site / "reference" / "events.html").read_text()
    commands = (site / "reference" / "commands.html").read_text()

    assert [kind.TYPE for kind in EVENTS if f'id="{kind.TYPE.replace(".", "")}"' not in events] == []
    assert "conch reward backfill" in commands


def test_the_readme_is_short_and_every_file_that_it_links_is_there() -> None:
    """It is what a new user needs; all else is in the documentation."""
    text = (ROOT / "README.md").read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]

    assert len(text.encode()) <= MOST_README
    assert [link for link in links if not (ROOT / link).exists()] == []
