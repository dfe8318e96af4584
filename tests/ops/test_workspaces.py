"""The workspaces and the fixed policies of the learning benchmark."""

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
from conch.minds.reflex import ReflexMind
from conch.minds.embedded.templates import TEMPLATES, fill_slots
from conch.tools import BUILTIN_TOOLS, Notes, Sandbox, Toolbox, ToolContext, Workspace, run_check
from conch.workspace import lay_out, script_of
from conch.workspace.material import MOST_BYTES, MOST_FILES
from conch_schemas import CommandCheck, FileCheck, Goal

SETTINGS = ToolSettings(sandbox="off")


class HeldOutWorkspace(Protocol):
    """A workspace of the learning benchmark."""

    def furnish(self, home: Path) -> None:
        """Make it in a home, with its record and goals."""

    name: str
    goals: Sequence[Goal]


@pytest.fixture(params=["backlog", "pantry"])
def held_out(request: pytest.FixtureRequest, benches: Path) -> HeldOutWorkspace:
    return getattr(importlib.import_module(f"workspaces.{request.param}"), request.param.upper())


async def test_goals_and_material_can_be_worked_on(held_out: HeldOutWorkspace, tmp_path: Path) -> None:
    """None is reached at first, every check runs, and each piece is small: three rounds of each kind."""
    held_out.furnish(tmp_path)
    directory = tmp_path / "workspace"
    script = script_of(tmp_path, tmp_path, directory)
    assert script is not None
    pieces = [script.piece(1, number) for number in range(15)]
    for piece in pieces:
        lay_out(Workspace(directory, 2**20), piece)
        assert len(piece.paths) <= MOST_FILES
        assert sum(len(text) for _, text in piece.files) <= MOST_BYTES

    goals = [*held_out.goals, *(piece.goal for piece in pieces)]
    results = [await run_check(goal.check, directory, Sandbox(SETTINGS), 10.0) for goal in goals]

    assert len({goal.id for goal in goals}) == len(goals)
    assert [(goal.id, result) for goal, result in zip(goals, results, strict=True) if result.error] == []
    assert [goal.id for goal, result in zip(goals, results, strict=True) if result.achieved] == []


async def test_each_kind_of_material_is_reached_by_templates(held_out: HeldOutWorkspace, tmp_path: Path) -> None:
    """By those that a goal gives values for, and then a commit: none knows the workspace."""
    held_out.furnish(tmp_path)
    directory = tmp_path / "workspace"
    script = script_of(tmp_path, tmp_path, directory)
    assert script is not None
    with Notes(tmp_path / "notes.db") as notes:
        context = ToolContext(directory, Sandbox(SETTINGS), notes, SETTINGS, None)
        for number in range(5):
            goal = script.piece(1, number).goal
            lay_out(Workspace(directory, 2**20), script.piece(1, number))
            for name in [*(one.name for one in TEMPLATES if "goal" in one.name), "commit"]:
                await _act(name, goal, context)
            assert (await run_check(goal.check, directory, Sandbox(SETTINGS), 10.0)).achieved, goal


async def _act(name: str, goal: Goal, context: ToolContext) -> None:
    situation = Situation(
        agent="echo", cycle=1, needs={}, pressing={}, need="rest", goals=(goal,), files=list_files(context.workspace)
    )
    call = next(one for one in TEMPLATES if one.name == name).make(fill_slots(situation, ("x",), random.Random(0)))
    if call is not None:
        await Toolbox(BUILTIN_TOOLS).run(call.action(), context)


def test_the_record_names_its_script(held_out: HeldOutWorkspace, tmp_path: Path) -> None:
    """As one that Conch writes does."""
    held_out.furnish(tmp_path)

    assert json.loads((tmp_path / "filled.json").read_text())["script"].startswith(f"workspaces.{held_out.name}:")


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
