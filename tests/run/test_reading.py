"""The embedded mind in a directory that is a person's own."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.run.conftest import House

REPOSITORY = (
    "git -c init.defaultBranch=main init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm a"
)


def digests(directory: Path) -> dict[str, str]:
    """Relative path -> digest of each file, but for git's own."""
    return {
        str(file.relative_to(directory)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(directory.rglob("*"))
        if file.is_file() and ".git" not in file.parts
    }


def test_a_persons_repository_is_only_read(house: House) -> None:
    """Forty cycles leave no file changed and nothing to commit; the run says so at its start."""
    for name, text in {"plan.md": "# Plan\n", "src/one.py": "print(1)\n", "data.csv": "a,b\n1,2\n"}.items():
        file = house.workspace / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    subprocess.run(REPOSITORY, shell=True, cwd=house.workspace, check=True)
    before = digests(house.workspace)

    ended = house.run("--cycles", "40", CONCH_MIND__KIND="reflex")

    told = subprocess.run(
        ["git", "status", "--porcelain"], cwd=house.workspace, check=True, capture_output=True, text=True
    )
    assert (told.stdout, digests(house.workspace)) == ("", before)
    assert f"{house.workspace} is yours: the embedded mind only reads there (mind.reflex.writes: true" in ended.said
    assert len({row["action"]["tool"] for row in ended.rows}) > 2


def test_a_setting_lets_the_embedded_mind_write_in_a_persons_directory(house: House) -> None:
    """Then nothing is said, and files change."""
    before = digests(house.workspace)

    ended = house.run("--cycles", "40", CONCH_MIND__KIND="reflex", CONCH_MIND__REFLEX__WRITES="true")

    assert "only reads there" not in ended.said
    assert digests(house.workspace) != before
