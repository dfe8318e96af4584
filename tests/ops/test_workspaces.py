"""The workspaces, the figures and the fixed policies of the learning benchmark."""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from conch.config import ToolSettings
from conch.cycle.grounding.files import list_files
from conch.minds import Prompt, Situation
from conch.minds.embedded.templates import TEMPLATES, fill_slots
from conch.minds.reflex import ReflexMind
from conch.tools import BUILTIN_TOOLS, Notes, Sandbox, Toolbox, ToolContext, Workspace, run_check
from conch.workspace import lay_out, script_of
from conch.workspace.material import MOST_BYTES, MOST_FILES
from conch_schemas import CommandCheck, FileCheck, Goal

SETTINGS = ToolSettings(sandbox="off")


class BenchWorkspace(Protocol):
    """A workspace of the learning benchmark."""

    def furnish(self, home: Path) -> None:
        """Make it in a home, with its record and goals."""

    name: str
    goals: Sequence[Goal]


@pytest.fixture(params=["tidepool", "backlog", "pantry", "orchard"])
def workspace(request: pytest.FixtureRequest, benches: Path) -> BenchWorkspace:
    return importlib.import_module("learning").WORKSPACES[request.param]


async def test_goals_and_material_can_be_worked_on(workspace: BenchWorkspace, tmp_path: Path) -> None:
    """None is reached at first, every check runs, and each piece is small: two rounds of each kind or more."""
    workspace.furnish(tmp_path)
    directory = tmp_path / "workspace"
    script = script_of(tmp_path, tmp_path, directory)
    assert script is not None
    pieces = [script.piece(1, number) for number in range(15)]
    for piece in pieces:
        lay_out(Workspace(directory, 2**20), piece)
        assert len(piece.paths) <= MOST_FILES
        assert sum(len(text) for _, text in piece.files) <= MOST_BYTES

    goals = [*workspace.goals, *(piece.goal for piece in pieces)]
    results = [await run_check(goal.check, directory, Sandbox(SETTINGS), 10.0) for goal in goals]

    assert len({goal.id for goal in goals}) == len(goals)
    assert [(goal.id, result) for goal, result in zip(goals, results, strict=True) if result.error] == []
    assert [goal.id for goal, result in zip(goals, results, strict=True) if result.achieved] == []


async def test_each_kind_of_material_is_reached_by_templates(workspace: BenchWorkspace, tmp_path: Path) -> None:
    """By those that a goal gives values for, and then a commit: none knows the workspace."""
    workspace.furnish(tmp_path)
    directory = tmp_path / "workspace"
    script = script_of(tmp_path, tmp_path, directory)
    assert script is not None
    with Notes(tmp_path / "notes.db") as notes:
        context = ToolContext(directory, Sandbox(SETTINGS), notes, SETTINGS, None)
        for number in range(10):
            goal = script.piece(1, number).goal
            lay_out(Workspace(directory, 2**20), script.piece(1, number))
            for name in 2 * [*(one.name for one in TEMPLATES if "goal" in one.name), "stage everything", "commit"]:
                await _act(name, goal, context)
            assert (await run_check(goal.check, directory, Sandbox(SETTINGS), 10.0)).achieved, goal


async def _act(name: str, goal: Goal, context: ToolContext) -> None:
    situation = Situation(
        agent="echo", cycle=1, needs={}, pressing={}, need="rest", goals=(goal,), files=list_files(context.workspace)
    )
    template = next(one for one in TEMPLATES if one.name == name)
    slots = fill_slots(situation, random.Random(0))
    call = template.plain(slots) if template.plain is not None else template.of_goal(slots.goals[0])
    if call is not None:
        await Toolbox(BUILTIN_TOOLS).run(call.action(), context)


def test_the_record_names_its_script(workspace: BenchWorkspace, tmp_path: Path) -> None:
    """As one that Conch writes does."""
    workspace.furnish(tmp_path)
    module = "workspaces" if workspace.name == "orchard" else "conch.workspace"

    assert json.loads((tmp_path / "filled.json").read_text())["script"].startswith(f"{module}.{workspace.name}:")


async def test_a_fixed_policy_makes_the_first_call_of_its_list(benches: Path, tmp_path: Path) -> None:
    """Of those that can be filled; what was done before gives way; a commit waits for what is staged."""
    policies = importlib.import_module("policies")
    policies.write_policy("goals", tmp_path / "reflex.npz")
    mind = ReflexMind(tmp_path / "reflex.npz", seed=1)
    goals = (
        Goal(id="a", statement="all.md has what is in a.md.", check=FileCheck(path="all.md", contains=("tide",))),
        Goal(id="b", statement="b.csv is committed.", check=CommandCheck(command="true")),
    )
    situation: dict[str, Any] = {"agent": "echo", "needs": {"rest": 0.5}, "pressing": {}, "need": "rest"}
    said = []
    for cycle in range(1, 4):
        shown = Situation(
            **situation, cycle=cycle, goals=goals, files=("a.md", "b.csv"), tools=("filesystem", "git", "shell")
        )
        said.append((await mind.complete(Prompt("decide", "", (), shown))).text)

    assert "for text in tide" in said[0]
    assert not any("commit" in reply.partition("message")[0].partition("operation")[2][:12] for reply in said)
    assert len(set(said)) == 3


async def test_resting_is_a_policy_too(benches: Path, tmp_path: Path) -> None:
    """It does nothing else, however often."""
    importlib.import_module("policies").write_policy("rest", tmp_path / "reflex.npz")
    mind = ReflexMind(tmp_path / "reflex.npz", seed=1)
    for cycle in range(1, 30):
        shown = Situation(agent="echo", cycle=cycle, needs={}, pressing={}, need="rest", tools=("git", "shell"))
        assert (await mind.complete(Prompt("decide", "", (), shown))).text.startswith("DO_NOTHING")


def test_acts_for_a_goal_count_open_and_dropped_goals_at_their_age(benches: Path) -> None:
    """From the arrival to being reached; a goal that is not reached in the window counts at its age then."""
    learning = importlib.import_module("learning")
    span = learning.GoalSpan
    spans = [span(0, 3, reached=True), span(2, 12), span(5, None), span(9, 30, reached=True), span(20, 25)]

    assert learning.acts_for_a_goal(spans, 0, 10) == [3, 8, 5, 1]
    assert learning.acts_for_a_goal(spans, 10, 40) == [10, 35, 21, 5]
    assert learning.acts_for_a_goal([], 0, 10) == []


def test_goals_are_followed_from_the_events(benches: Path) -> None:
    """Those that were open when a life began, reached, dropped, and open at its end."""
    learning = importlib.import_module("learning")
    live, blind = importlib.import_module("embedded").live, learning.VARIANT_MINDS["blind choice"]
    life = live(learning.WORKSPACES["pantry"], 4, 1, blind)
    spans, shown = learning.goal_spans(life.events), learning.figures(life, 2)

    assert [span.came for span in spans][:3] == [0, 0, 0]
    assert len(life.totals) == 4
    assert 0 <= shown.idle + shown.rested <= 1
