"""Decisions are kept with the workspace as it was, within their bounds, whatever happens to the workspace later."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conch.actions import Registry
from conch.config import ForkSettings, Masker
from conch.errors import ToolError
from conch.minds import Prompt, RecentOutcome, Situation
from conch.snapshots import GoalThen, RecordedDecision, SnapshotKeeper, SnapshotShelf
from conch.tools import BUILTIN_TOOLS
from conch_schemas import Action, FileCheck, Goal, PromptMessage

Keeper = Callable[..., SnapshotKeeper]


def asked(cycle: int, said: str = "What now?") -> Prompt:
    """The prompt of a decision."""
    recent = RecentOutcome(cycle - 1, Action(kind="DO_NOTHING", valid=True, text="rest"), "none", "")
    situation = Situation("echo", cycle, {"curiosity": 0.5}, {"curiosity": 1.0}, "curiosity", recent=(recent,))
    registry = Registry(tool.spec for tool in BUILTIN_TOOLS)
    return Prompt("decide", "You are echo.", (PromptMessage(role="user", content=said),), situation, registry=registry)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "workspace"
    (place / "notes").mkdir(parents=True)
    (place / "notes" / "a.md").write_text("first\n")
    (place / "run.sh").write_text("#!/bin/sh\n")
    (place / "run.sh").chmod(0o755)
    (place / "link").symlink_to("notes/a.md")
    return place


@pytest.fixture
def keeper(tmp_path: Path, workspace: Path) -> Keeper:
    """Makes a keeper of the workspace, with these settings."""

    def make(masker: Masker = Masker(), **given: float) -> SnapshotKeeper:  # noqa: B008
        return SnapshotKeeper(tmp_path / "kept", workspace, ForkSettings.model_validate(given), masker)

    return make


@pytest.fixture
def shelf(tmp_path: Path) -> SnapshotShelf:
    return SnapshotShelf(tmp_path / "kept")


def content(place: Path) -> dict[str, tuple[int, str]]:
    """Mode and content of everything below a directory."""
    found = {}
    for path in sorted(place.rglob("*")):
        mode = path.lstat().st_mode
        said = os.readlink(path) if path.is_symlink() else "" if path.is_dir() else path.read_text()
        found[str(path.relative_to(place))] = (stat.S_IFMT(mode) | (0 if path.is_symlink() else mode & 0o777), said)
    return found


async def test_a_copy_is_the_workspace_as_it_was(keeper: Keeper, shelf: SnapshotShelf, workspace: Path) -> None:
    """Files, modes, links and directories come back as they were at the decision; the copy is removed at the end."""
    before = content(workspace)
    await keeper().keep(asked(3), (), None)
    (workspace / "notes" / "a.md").write_text("second\n")
    (workspace / "run.sh").unlink()

    found = shelf.find(3)
    assert found is not None
    with shelf.copy(found.tree) as place:
        assert content(place) == before
    assert not place.exists()
    assert list(shelf.folder.glob("copy-*")) == []


async def test_a_decision_comes_back_whole(keeper: Keeper, shelf: SnapshotShelf) -> None:
    """Prompt, situation, tools, goals and the waiting message are those that the mind was asked with."""
    goal = GoalThen(goal=Goal(id="g", statement="a file", check=FileCheck(path="b")), best=0.5, measure=0.25)

    await keeper().keep(asked(3), (goal,), ("m1", "hello"))

    found = shelf.find(3)
    assert found is not None
    assert found.prompt() == asked(3)
    assert found.goals == (goal,)
    assert found.message == ("m1", "hello")
    assert shelf.find(4) is None


async def test_what_did_not_change_is_kept_once(keeper: Keeper, shelf: SnapshotShelf, workspace: Path) -> None:
    """Many decisions on one workspace share one tree; a change adds a tree, and the changed file alone."""
    one = keeper()
    for cycle in range(5):
        await one.keep(asked(cycle), (), None)
    trees, objects = len(list(shelf.trees.iterdir())), len(list(shelf.objects.glob("*/*")))

    (workspace / "notes" / "a.md").write_text("second\n")
    await one.keep(asked(5), (), None)

    assert (trees, objects) == (1, 2)
    assert (len(list(shelf.trees.iterdir())), len(list(shelf.objects.glob("*/*")))) == (2, 3)


async def test_a_started_keeper_goes_on(keeper: Keeper, shelf: SnapshotShelf, tmp_path: Path) -> None:
    """After a restart what is there counts, half-written files and the copy of a killed process are removed, and a
    decision that is asked for again replaces the first."""
    await keeper().keep(asked(1), (), None)
    (tmp_path / "kept" / "trees" / ".new-1-x").write_text("half")
    (tmp_path / "kept" / "copy-4194999-x" / "workspace").mkdir(parents=True)

    again = keeper()
    await again.keep(asked(1, "And now?"), (), None)

    found = shelf.find(1)
    assert found is not None
    assert found.messages[0].content == "And now?"
    assert list(shelf.cycles()) == [1]
    assert list(shelf.trees.glob(".new-*")) == []
    assert list(shelf.folder.glob("copy-*")) == []


async def test_the_oldest_decisions_go_first(keeper: Keeper, shelf: SnapshotShelf, workspace: Path) -> None:
    """Beyond `forks.keep` the oldest go with what only they refer to; the newest can still be copied."""
    one = keeper(keep=8)
    for cycle in range(40):
        (workspace / "notes" / "a.md").write_text(f"version {cycle}\n")
        await one.keep(asked(cycle), (), None)

    cycles = list(shelf.cycles())
    assert 8 <= len(cycles) <= 9
    assert cycles[-1] == 39
    assert len(list(shelf.trees.iterdir())) == len(cycles)
    assert len(list(shelf.objects.glob("*/*"))) == len(cycles) + 1
    for cycle in cycles:
        found = shelf.find(cycle)
        assert found is not None
        with shelf.copy(found.tree) as place:
            assert (place / "notes" / "a.md").read_text() == f"version {cycle}\n"


async def test_the_bytes_are_bounded(keeper: Keeper, shelf: SnapshotShelf, workspace: Path) -> None:
    """Beyond `forks.mib` the oldest decisions go; a workspace of more than a quarter of it is not kept, and that is
    said."""
    one = keeper(mib=1)
    for cycle in range(12):
        (workspace / "data").write_bytes(os.urandom(200_000))
        await one.keep(asked(cycle), (), None)

    assert sum(file.stat().st_size for file in shelf.folder.rglob("*") if file.is_file()) <= 2**20
    (workspace / "data").write_bytes(os.urandom(300_000))
    await one.keep(asked(12), (), None)
    found = shelf.find(12)
    assert found is not None
    assert (found.tree, found.why_not) == ("", "the workspace has more than 0.25 MiB")


async def test_contents_that_come_back_count_once(keeper: Keeper, shelf: SnapshotShelf, workspace: Path) -> None:
    """A file that changes between two contents takes the bytes of both, once: no decision goes for it."""
    one, contents = keeper(mib=1), (os.urandom(200_000), os.urandom(200_000))
    for cycle in range(12):
        (workspace / "data").write_bytes(contents[cycle % 2])
        await one.keep(asked(cycle), (), None)

    assert list(shelf.cycles()) == list(range(12))


async def test_damage_is_told(keeper: Keeper, shelf: SnapshotShelf) -> None:
    """A content that is missing or was changed is one sentence, and no copy is left."""
    await keeper().keep(asked(1), (), None)
    found = shelf.find(1)
    assert found is not None
    [one, other] = sorted(shelf.objects.glob("*/*"))
    one.write_bytes(b"other\n" if one.stat().st_size == 6 else b"#!/bin/SH\n")

    with pytest.raises(ToolError, match="is damaged"), shelf.copy(found.tree):
        pass
    one.unlink()
    with pytest.raises(ToolError, match="no longer kept"), shelf.copy(found.tree):
        pass
    assert other.exists()
    assert list(shelf.folder.glob("copy-*")) == []


async def test_no_secret_is_kept_with_a_decision(keeper: Keeper, shelf: SnapshotShelf) -> None:
    """Secrets are masked in the prompt and the state, as in every event."""
    await keeper(Masker(["sesame-open-1234"])).keep(asked(1, "the key is sesame-open-1234"), (), None)

    found = shelf.find(1)
    assert found is not None
    assert found.messages[0].content == "the key is [secret hidden by Conch]"


async def test_a_full_disk_does_not_stop_the_agent(tmp_path: Path, workspace: Path) -> None:
    """Where nothing can be written the decision is not kept, and nothing is raised."""
    (tmp_path / "kept").write_text("no directory")

    await SnapshotKeeper(tmp_path / "kept", workspace, ForkSettings()).keep(asked(1), (), None)

    assert SnapshotShelf(tmp_path / "kept").find(1) is None


async def test_a_text_that_cannot_be_written_does_not_stop_the_agent(keeper: Keeper, shelf: SnapshotShelf) -> None:
    """A lone surrogate in the state is no JSON: that decision is not kept, the next one is."""
    one = keeper()
    bad = asked(1)

    await one.keep(replace(bad, situation=replace(bad.situation, thought="\ud800")), (), None)
    await one.keep(asked(2), (), None)

    assert list(shelf.cycles()) == [2]


async def test_copies_of_dead_processes_are_removed(keeper: Keeper, shelf: SnapshotShelf) -> None:
    """A copy that a killed process left goes with the next copy; a living process's stays."""
    await keeper().keep(asked(1), (), None)
    dead, living = shelf.folder / "copy-4194999-x", shelf.folder / f"copy-{os.getppid()}-x"
    for place in (dead, living):
        place.mkdir()
    found = shelf.find(1)
    assert found is not None

    with shelf.copy(found.tree):
        pass

    assert not dead.exists()
    assert living.exists()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(
    text=st.text(max_size=200),
    names=st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1), max_size=4),
    cycle=st.integers(0, 2**40),
)
def test_any_state_comes_back(text: str, names: dict[str, float], cycle: int) -> None:
    """What is written of a situation is read as the same, whatever words are in it."""
    situation = Situation("echo", cycle, names, names, text or "need", message=text, thought=text, tools=(text,))
    said = text.encode(errors="replace").decode()
    prompt = Prompt("decide", said, (), situation, registry=Registry())

    made = RecordedDecision.of(prompt, (), None)

    assert RecordedDecision.model_validate_json(made.model_dump_json()).prompt() == prompt
