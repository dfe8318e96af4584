"""New material comes to the agent's workspace when there is room for its goal, each piece once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.cycle.hosting import material
from conch.cycle.hosting.material import AGAIN, LASTS, OPEN, MaterialSupply, pause_cycles
from conch.errors import ToolError
from conch.minds import Situation
from conch.rewards.rules import tool_result
from conch.tools import ToolContext, tool
from conch.workspace import MaterialPiece
from conch_schemas import ActionTaken, FileCheck, Goal, GoalDropped, GoalReached, GoalSet

if TYPE_CHECKING:
    from tests.cycle.conftest import Life, Start


class Deliveries:
    """A file a piece, and a goal that asks for its answer; of `kinds` kinds in turn."""

    kinds = 4

    mark = ("README.md", "# Deliveries")

    def piece(self, seed: int, number: int) -> MaterialPiece:
        goal = Goal(id=f"g{number}", statement=f"Answer {number}.", check=FileCheck(path=f"answer-{number}"))
        return MaterialPiece(f"kind-{number % self.kinds}", goal, ((f"parcel-{number}", f"{seed}/{number}\n"),))


@tool
async def answer(context: ToolContext, number: int) -> str:
    """Answers."""
    (context.workspace / f"answer-{number}").write_text("well\n")
    return "answered"


def busy(situation: Situation) -> str:
    """Reach the newest goal at once."""
    if not situation.goals:
        return "DO_NOTHING: waiting"
    return f"TOOL: answer(number={situation.goals[-1].id.removeprefix('g')})"


@pytest.fixture
def living(life: Life) -> Life:
    life.script = Deliveries()
    life.add(answer)
    life.configured(cycle={"reflect_every": 0}, seed=5)
    return life


def failing(*_: object) -> None:
    raise ToolError("the disk is full")


def parcels(workspace: Path) -> list[str]:
    return sorted(file.name for file in workspace.iterdir() if file.name.startswith("parcel"))


def set_goals(life: Life) -> list[tuple[str, int | None, str]]:
    return [(fact.goal.id, fact.piece, fact.by) for fact in life.facts(GoalSet)]


async def test_a_piece_comes_when_there_is_room(living: Life) -> None:
    """None before the first cycle, one a cycle; its goal is the home's; its file holds what seed and number say."""
    living.mind.decides = busy
    await living.run(4)

    assert set_goals(living) == [("g0", 0, "home"), ("g1", 1, "home"), ("g2", 2, "home")]
    assert [fact.cycle for fact in living.facts(GoalReached)] == [1, 2, 3]
    assert (living.workspace / "parcel-1").read_text() == "5/1\n"
    assert parcels(living.workspace) == ["parcel-0", "parcel-1", "parcel-2"]


async def test_a_piece_waits_while_too_many_goals_are_open(living: Life) -> None:
    """An agent that reaches none has OPEN of them, until the first is dropped for its age, with a word."""
    await living.run(LASTS + 1)
    before = len(living.facts(GoalSet))
    await living.run(LASTS + 2)

    assert before == OPEN
    assert [(fact.goal, fact.why) for fact in living.facts(GoalDropped)] == [("g0", f"it was open for {LASTS} cycles")]
    assert len(living.facts(GoalSet)) == OPEN + 1


async def test_of_each_kind_one_is_open(living: Life) -> None:
    """A piece of a kind that is open is left out, and the next kind comes."""
    assert isinstance(living.script, Deliveries)
    living.script.kinds = 2
    living.mind.decides = lambda at: "TOOL: answer(number=1)" if at.cycle == 3 else "DO_NOTHING: waiting"
    await living.run(6)

    assert set_goals(living) == [("g0", 0, "home"), ("g1", 1, "home"), ("g3", 3, "home")]


async def test_after_some_pieces_there_is_a_pause(living: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the goals of all of them are over; its length follows from the seed and the last piece, and it is the same
    for a process that is started in it."""
    monkeypatch.setattr(material, "BATCH", 3)
    living.mind.decides = busy
    pause = pause_cycles(5, 2)
    for until in (4, 5, 4 + pause, 5 + pause):
        await living.run(until)

    assert len(living.facts(GoalSet)) == 4
    assert living.facts(GoalReached)[-1].cycle == 4 + pause
    assert material.PAUSE[0] <= pause <= material.PAUSE[1]
    assert pause == pause_cycles(5, 2)


async def test_a_pause_ends_with_its_cycles(living: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the agent had them or slept through them, and not a cycle before."""
    monkeypatch.setattr(material, "BATCH", 3)
    living.mind.decides = busy
    agent = await living.run(4)
    supply = agent._material()
    assert isinstance(supply, MaterialSupply)

    end = 4 + pause_cycles(5, 2)
    assert (supply.is_due(end - 1), supply.is_due(end)) == (False, True)


async def test_nothing_is_due_while_goals_wait(living: Life) -> None:
    """But for their being dropped."""
    agent = await living.run(6)
    supply = agent._material()
    assert isinstance(supply, MaterialSupply)

    assert (supply.is_due(LASTS), supply.is_due(1 + LASTS)) == (False, True)


async def test_a_piece_that_failed_in_a_sleep_is_tried_again_after_it(
    living: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sleep counts cycles ahead; the agent's own go on from before."""
    agent = await living.run(1)
    supply = agent._material()
    assert isinstance(supply, MaterialSupply)
    with monkeypatch.context() as broken:
        broken.setattr(material, "lay_out", failing)
        await supply.bring(3000)

    assert (supply.is_due(3001), supply.is_due(2)) == (False, True)


async def test_the_files_of_a_piece_that_was_left_out_stay(living: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody brought them: what bears their names is somebody's own."""
    assert isinstance(living.script, Deliveries)
    living.script.kinds = 2
    monkeypatch.setattr(material, "KEPT", 4)
    (living.workspace / "answer-2").write_text("a person's own\n")
    living.mind.decides = lambda at: "TOOL: answer(number=1)" if at.cycle == 3 else "DO_NOTHING: waiting"
    await living.run(6)
    living.mind.decides = busy
    await living.run(14)

    assert 2 not in [piece for _, piece, _ in set_goals(living)]
    assert len(set_goals(living)) > 5
    assert (living.workspace / "answer-2").read_text() == "a person's own\n"


async def test_a_goal_whose_files_are_gone_is_dropped(living: Life) -> None:
    """An agent that deletes what it was brought holds no place for ever."""
    living.mind.decides = lambda at: 'TOOL: shell(command="rm -f parcel-*")' if at.cycle == 4 else "DO_NOTHING: waiting"
    await living.run(LASTS + 4)

    assert [fact.goal for fact in living.facts(GoalDropped)] == ["g0", "g1", "g2"]
    assert len(living.facts(GoalSet)) == 2 * OPEN


async def test_material_does_not_feed_a_run_of_filling(living: Life, tmp_path: Path) -> None:
    """New lines are idle after `run_length` of them, material or not: a goal that comes gives nothing back."""
    living.measures(tmp_path / "known.db")
    living.configured(effects={"run_length": 4})
    fills = 'TOOL: filesystem(operation="write", path="a.md", content="line of cycle {}")'
    living.mind.decides = lambda situation: fills.format(situation.cycle)
    await living.run(10)

    results = [tool_result(act) for act in living.facts(ActionTaken)]
    assert len(living.facts(GoalSet)) == OPEN
    assert results == ["success"] * 4 + ["idle"] * 6


async def test_a_check_counts_anew_after_material(living: Life, tmp_path: Path) -> None:
    """The workspace is another one than it last ran on."""
    test = "import unittest\n\n\nclass Pool(unittest.TestCase):\n    def test_it_is_wet(self) -> None:\n        pass\n"
    (living.workspace / "test_pool.py").write_text(test)
    living.measures(tmp_path / "known.db")
    living.mind.decides = lambda _: 'TOOL: shell(command="python3 -m unittest")'
    await living.run(6)

    changed = [effect.checks[0].changed_since for effect in living.effects() if effect is not None]
    assert changed == [True] * (1 + OPEN) + [False] * 2


async def test_the_next_process_goes_on_with_the_next_piece(living: Life) -> None:
    """Started again before or after a piece came, nothing comes twice."""
    living.mind.decides = busy
    for until in (1, 2, 2, 3):
        await living.run(until)

    assert set_goals(living) == [("g0", 0, "home"), ("g1", 1, "home")]


@pytest.mark.parametrize("stored", [False, True], ids=["not stored", "stored, not acknowledged"])
@pytest.mark.parametrize("at", range(9))
async def test_a_crash_around_a_piece_loses_and_doubles_nothing(living: Life, at: int, stored: bool) -> None:
    """At each publish of the cycle with a piece and the one behind it."""
    living.mind.decides = busy
    await living.run(1)
    await living.crash(3, at, stored=stored)
    await living.run(5)

    brought = [piece for _, piece, _ in set_goals(living)]
    assert brought == list(range(len(brought)))
    assert len(brought) >= 3
    assert parcels(living.workspace) == [f"parcel-{piece}" for piece in brought]
    reached = [fact.goal for fact in living.facts(GoalReached)]
    assert len(reached) == len({*reached})
    assert [fact.cycle for fact in living.facts(ActionTaken)] == list(range(5))


async def test_goals_of_pieces_do_not_fill_the_memory(living: Life) -> None:
    """What is over is counted, not listed."""
    living.mind.decides = busy
    agent = await living.run(4)

    assert agent.memory.next_piece == 3
    assert agent.memory.known_goals == frozenset()


async def test_a_person_may_use_the_id_of_a_piece_that_is_over(living: Life, start: Start) -> None:
    """Not of one that is open; the piece's goal and the person's are two."""
    living.mind.decides = busy
    await living.run(2)
    living.mind.decides = lambda _: "DO_NOTHING: waiting"
    await living.run(3)
    running = await start()
    mine = {"statement": "Mine.", "check": {"kind": "file", "path": "mine"}}

    over = await running.ask("goal", {"add": mine | {"id": "g0"}})
    open_still = await running.ask("goal", {"add": mine | {"id": "g1"}})

    assert over == {"ok": True, "goal": "g0"}
    assert "was set before" in open_still["error"]


@pytest.mark.parametrize("off", ["no script", "by the setting"])
async def test_without_a_record_or_against_the_setting_nothing_comes(living: Life, off: str) -> None:
    """A person's own workspace has no script."""
    if off == "no script":
        living.script = None
    else:
        living.configured(cycle={"material": False})
    await living.run(4)

    assert living.facts(GoalSet) == []
    assert parcels(living.workspace) == []


async def test_a_piece_that_cannot_be_written_comes_later(living: Life) -> None:
    """The agent goes on, and the same piece is tried again AGAIN cycles later."""
    away = living.workspace.rename(living.workspace.with_name("away"))

    def moves_back(at: Situation) -> str:
        if at.cycle == 3:
            away.rename(living.workspace)
        return busy(at)

    living.mind.decides = moves_back
    await living.run(AGAIN + 2)

    assert set_goals(living) == [("g0", 0, "home")]
    assert [fact.cycle for fact in living.facts(GoalReached)] == [1 + AGAIN]
    assert parcels(living.workspace) == ["parcel-0"]
