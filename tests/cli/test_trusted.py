"""What Conch reads and runs may not lie where its agent writes: one sentence, and nothing was begun."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from conch.config import Settings
from conch.config.load import load
from conch.errors import UsageError
from conch.home import Home
from conch.trusted import refuse_writable, without_writable_programs

KEY = "A" * 43 + "="
Refused = Callable[..., None]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a workspace, a library of links into it, and files beside them."""
    for name in ("work/deep", "home", "beside"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("work/file", "work/deep/file", "beside/file"):
        (tmp_path / name).write_text("")
    (tmp_path / "beside" / "link").symlink_to(tmp_path / "work" / "file")
    (tmp_path / "beside" / "into").symlink_to(tmp_path / "work" / "deep")
    (tmp_path / "work" / "out").symlink_to(tmp_path / "beside" / "file")
    return tmp_path


def refuse(place: Path, settings: Mapping[str, Any], *rules: str, config: Path | None = None) -> None:
    """What a run with this workspace does before it begins."""
    home = Home(place / "home")
    refuse_writable(home, load(None, home, {"workspace": str(place / "work"), **settings}), config, rules)


@pytest.mark.parametrize("file", ["work/file", "work/deep/file", "beside/link", "beside/into/file", "work/out"])
@pytest.mark.parametrize(
    "setting",
    [
        "mind.script",
        "values.file",
        "bus.server",
        "bus.nkey",
        "bus.credentials",
        "bus.tls.ca",
        "bus.tls.key",
        "edge.tls.certificate",
        "rewards.judges.tone.rubric",
        "store.url",
        "the rules file",
        "the tools file",
        "the configuration file",
    ],
)
def test_a_file_that_the_agent_may_change_is_refused(place: Path, setting: str, file: str) -> None:
    """It itself, or a link on the way to it, lies in the workspace; the sentence names the setting and the file."""
    named = place / file
    value: Any = f"sqlite:///{named}" if setting == "store.url" else str(named)
    settings: dict[str, Any] = {}
    for key in reversed(setting.split(".")) if " " not in setting else ():
        value = {key: value}
        settings = value
    if setting == "values.file":
        settings["values"]["key"] = KEY
    if setting == "bus.tls.key":
        settings["bus"]["tls"]["certificate"] = str(place / "beside" / "file")
    if setting == "the tools file":
        settings = {"tools": {"files": [str(named)]}}
    rules = [str(named)] if setting == "the rules file" else []
    config = named if setting == "the configuration file" else None

    with pytest.raises(UsageError, match=rf"{setting} {named} lies in the workspace {place / 'work'}.*elsewhere"):
        refuse(place, settings, *rules, config=config)


def test_files_beside_the_workspace_are_fine(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where their path leads up from the workspace, or the workspace lies beneath their directory."""
    file = str(place / "beside" / "file")
    monkeypatch.chdir(place / "work")

    refuse(place, {"mind": {"script": file}, "bus": {"nkey": "../beside/file"}}, "../beside/file", file)
    refuse(place, {"workspace": str(place / "beside" / "work")}, file)


@pytest.mark.parametrize("place_in_home", ["", "ui", "agents/echo", "bus", "workspaces", "link"])
def test_of_the_home_only_its_own_workspace_is_one(place: Path, place_in_home: str) -> None:
    """The home itself, and whatever else lies in it, also by a link, is refused; the directories of its agents are
    not."""
    home = Home(place / "home")
    (place / "home" / "ui").mkdir()
    (place / "home" / "link").symlink_to("ui")

    refuse_writable(home, Settings(), None, ())
    refuse_writable(home, Settings(workspace=str(home.workspace / "echo-1")), None, ())
    with pytest.raises(UsageError, match=re.escape(str(home.path))):
        refuse_writable(home, Settings(workspace=str(home.path / place_in_home)), None, ())


def test_a_home_whose_workspace_is_a_link_into_it_is_refused(place: Path) -> None:
    """What counts is where the link leads."""
    (place / "home" / "ui").mkdir()
    (place / "home" / "workspace").symlink_to("ui")

    with pytest.raises(UsageError, match="lies in the home"):
        refuse_writable(Home(place / "home"), Settings(), None, ())


@pytest.mark.parametrize("name", ["prefix", "base_prefix", "executable", "pycache_prefix"])
def test_a_python_that_the_agent_may_change_is_refused(place: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual environment in the workspace, also one that is only linked to from there; with what to do."""
    (place / "work" / ".venv").mkdir()
    for found in (place / "work" / ".venv", place / "beside" / "into" / "python"):
        monkeypatch.setattr(sys, name, str(found))

        with pytest.raises(UsageError, match=f"{found} .*install conch in a directory of its own"):
            refuse(place, {})


def test_a_workspace_among_pythons_packages_is_refused(place: Path) -> None:
    """Nor in conch's own code, nor one that holds it."""
    package = Path(sys.modules["conch"].__path__[0])

    for workspace in (package, package / "tools", package.parent, Path(pytest.__file__).parent):
        with pytest.raises(UsageError, match=re.escape(str(workspace))):
            refuse(place, {"workspace": str(workspace)})


def test_a_pythonpath_into_the_workspace_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also an empty or relative entry there; elsewhere they are fine, and an empty variable names nothing."""
    for path, current in [(str(place / "work"), place), (f"{place}/beside:", place / "work"), (".", place / "work")]:
        monkeypatch.chdir(current)
        monkeypatch.setenv("PYTHONPATH", path)

        with pytest.raises(UsageError, match=f"Python looks for modules in {place / 'work'}"):
            refuse(place, {})

    monkeypatch.setenv("PYTHONPATH", "")
    refuse(place, {})
    monkeypatch.setenv("PYTHONPATH", ".")
    monkeypatch.chdir(place / "beside")
    refuse(place, {})


def test_programs_are_not_looked_for_where_the_agent_writes(place: Path) -> None:
    """Directories of PATH there, and relative ones, are left out."""
    home = Home(place / "home")
    settings = Settings(workspace=str(place / "work"))

    found = without_writable_programs(home, settings, f"/usr/bin:{place}/work/bin:bin::{place}/beside/into:/bin")

    assert found == "/usr/bin:/bin"
