"""A new workspace is worth working in; a person's own is left alone."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from conch.config import ToolSettings
from conch.tools import Sandbox, run_check
from conch.workspace import WorkspaceTemplate, default_goals, fill
from conch.workspace.goals import CREATURES, TERMS
from conch_schemas import FileCheck


def git(directory: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=directory, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("home") / "workspace"
    fill(directory)
    return directory


def test_a_repository_with_a_history_is_made(filled: Path) -> None:
    """Three commits, one file left uncommitted, and whoever commits next has a name."""
    assert git(filled, "rev-list", "--count", "HEAD") == "3"
    assert git(filled, "status", "--porcelain") == "?? data/october.csv"
    assert git(filled, "config", "--local", "user.name") == "echo"


def test_filling_twice_changes_nothing(filled: Path) -> None:
    """What the agent has done since is its own."""
    before = git(filled, "rev-parse", "HEAD")

    fill(filled)

    assert git(filled, "rev-parse", "HEAD") == before


def test_a_directory_of_the_persons_own_is_taken_as_it_is(tmp_path: Path) -> None:
    """One file is enough to make it somebody's."""
    (tmp_path / "mine").write_text("mine")

    fill(tmp_path)

    assert [entry.name for entry in tmp_path.iterdir()] == ["mine"]


def test_without_git_the_files_are_there_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No half-made repository is left."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))

    fill(tmp_path / "workspace")

    assert (tmp_path / "workspace" / "README.md").is_file()
    assert not (tmp_path / "workspace" / ".git").exists()


def test_the_persons_git_configuration_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks, signing and names of the person's own stay out of it."""
    configuration = tmp_path / "gitconfig"
    configuration.write_text("[commit]\n\tgpgsign = true\n[core]\n\thooksPath = /nowhere\n[user]\n\tname = Person\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))

    fill(tmp_path / "workspace")

    monkeypatch.delenv("GIT_DIR")
    assert git(tmp_path / "workspace", "log", "-1", "--format=%an") == "echo"


def test_filling_is_quick(tmp_path: Path) -> None:
    """A cold start has two seconds for everything."""
    began = time.perf_counter()
    fill(tmp_path / "workspace")

    assert time.perf_counter() - began < 1.0


async def test_no_goal_is_reached_or_out_of_reach_at_first(filled: Path) -> None:
    """Every check can be run and says that there is something to do."""
    settings = ToolSettings(sandbox="off")
    sandbox = Sandbox(settings)

    found = {goal.id: await run_check(goal.check, filled, sandbox, 10.0) for goal in default_goals()}

    assert {result.error for result in found.values()} == {None}
    assert not any(result.achieved for result in found.values())


async def test_every_goal_can_be_reached(tmp_path: Path) -> None:
    """By hand: a commit, a summary, a glossary."""
    fill(tmp_path)
    notes = "\n".join(file.read_text() for file in sorted((tmp_path / "notes").iterdir()))
    for name in ("SUMMARY.md", "glossary.md"):
        (tmp_path / name).write_text(notes)
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "-m", "Everything")
    sandbox = Sandbox(ToolSettings(sandbox="off"))

    found = {goal.id: (await run_check(goal.check, tmp_path, sandbox, 10.0)).achieved for goal in default_goals()}

    assert found == dict.fromkeys(found, True)


def test_the_goals_ask_for_what_the_notes_hold(filled: Path) -> None:
    """Each word of the glossary is set in bold in a note; each heading of the summary heads one."""
    notes = "\n".join(file.read_text() for file in (filled / "notes").iterdir())

    assert {term for term in TERMS if f"**{term}**" not in notes} == set()
    assert notes.count("**") == 2 * len(TERMS)
    assert {name for name in CREATURES if f"# {name}" not in notes} == set()


def test_goals_have_ids_of_their_own() -> None:
    """And their files lie in the workspace."""
    goals = default_goals()

    assert len({goal.id for goal in goals}) == len(goals)
    assert all(not goal.check.path.startswith("/") for goal in goals if isinstance(goal.check, FileCheck))


def test_the_programs_tests_run_and_three_of_ten_fail(filled: Path) -> None:
    """Seven of ten pass, for want of one repair and two features."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "unittest"], cwd=filled, capture_output=True, text=True, check=False
    )

    assert "Ran 10 tests" in done.stderr
    assert "FAILED (failures=1, errors=2)" in done.stderr


@pytest.fixture(scope="module")
def copies() -> WorkspaceTemplate:
    return WorkspaceTemplate.make()


def test_a_copy_is_what_filling_makes(filled: Path, copies: WorkspaceTemplate, tmp_path: Path) -> None:
    """The same files, a history that can be gone on with, one file left uncommitted."""
    copies.into(tmp_path / "echo-1")

    there = [
        {file.relative_to(one) for file in one.rglob("*") if ".git" not in file.parts}
        for one in _both(filled, tmp_path)
    ]
    assert there[0] == there[1]
    for one in _both(filled, tmp_path):
        assert git(one, "rev-list", "--count", "HEAD") == "3"
        assert git(one, "status", "--porcelain") == "?? data/october.csv"
    git(tmp_path / "echo-1", "add", "--all")
    git(tmp_path / "echo-1", "commit", "--quiet", "-m", "mine")
    assert git(tmp_path / "echo-1", "fsck") == ""


def _both(filled: Path, directory: Path) -> tuple[Path, Path]:
    return filled, directory / "echo-1"


def test_a_copy_is_whole_or_not_there(copies: WorkspaceTemplate, tmp_path: Path) -> None:
    """What a process that died has left beside it does no harm; what somebody put there is left alone."""
    (tmp_path / ".echo-1.fresh" / "notes").mkdir(parents=True)
    (tmp_path / "echo-2").mkdir()
    (tmp_path / "echo-2" / "mine").write_text("mine")
    (tmp_path / "echo-3").mkdir()

    for name in ("echo-1", "echo-2", "echo-3"):
        copies.into(tmp_path / name)

    assert [entry.name for entry in (tmp_path / "echo-2").iterdir()] == ["mine"]
    assert (tmp_path / "echo-1" / "notes" / "kelp.md").exists()
    assert (tmp_path / "echo-3" / "notes" / "kelp.md").exists()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["echo-1", "echo-2", "echo-3"]
