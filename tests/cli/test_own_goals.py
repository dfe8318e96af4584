"""`conch goal accept | veto`: a person's decision on a goal that the agent set itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from conch.cli import goal
from conch.cli.common import CommonOptions, open_bus
from conch.config import Settings
from conch.errors import ConchError, UsageError
from conch.home import Home
from conch_schemas import (
    FileCheck,
    Goal,
    GoalAccepted,
    GoalDropped,
    GoalSet,
    decode,
    encode,
    source_of,
    subject_filter,
    subject_of,
)

if TYPE_CHECKING:
    from tests.cli.conftest import InProgress

Printed = Callable[[], str]


@pytest.fixture
async def own(home: Home) -> str:
    """The id of a goal that the agent echo, which does not run, set itself."""
    async with open_bus(home, Settings()) as bus:
        fact = GoalSet(
            id="g", source=source_of("echo", home.agentuid("echo")), agent="echo", by="agent",
            goal=Goal(id="note-1", statement="Note it.", check=FileCheck(path="x", contains=("y",))),
        )  # fmt: skip
        await bus.publish(subject_of(fact), encode(fact), id=fact.id)
    return "note-1"


async def decisions(home: Home) -> list[Any]:
    """The decisions on the stream, in order."""
    async with open_bus(home, Settings()) as bus:
        filters = [subject_filter(kind) for kind in (GoalAccepted, GoalDropped)]
        return [decode(one.data) async for one in bus.read(filters)]


async def test_a_goal_is_accepted_once(home: Home, common: CommonOptions, printed: Printed, own: str) -> None:
    """The list says proposed, then accepted; the second time says so, and nothing is published again."""
    await goal.list_(common=common)
    assert "proposed" in printed()
    await goal.accept(own, because="it is wanted", common=common)
    assert printed() == f"{own} accepted\n"
    await goal.accept(own, common=common)
    assert printed() == f"{own} was accepted before\n"
    await goal.list_(common=replace(common, json=True))
    [row] = json.loads(printed())["goals"]

    assert (row["own"], row["accepted"]) == (True, True)
    [fact] = await decisions(home)
    assert (fact.TYPE, fact.goal, fact.why, fact.by) == ("goal.accepted", own, "it is wanted", "user")


async def test_a_veto_ends_the_goal_for_good(home: Home, common: CommonOptions, printed: Printed, own: str) -> None:
    """An acceptance after it is refused in a sentence; a second veto says that there was one."""
    as_json = replace(common, json=True)
    await goal.veto(own, because="not here", common=as_json)
    assert json.loads(printed()) == {
        "schema": "conch.v1.goal_decided", "goal": own, "agent": "echo", "decision": "vetoed", "again": False,
        "running": False,
    }  # fmt: skip
    await goal.veto(own, common=as_json)
    assert json.loads(printed())["again"] is True
    with pytest.raises(UsageError, match="was vetoed and is over: conch goal add sets it as yours"):
        await goal.accept(own, common=common)

    [fact] = await decisions(home)
    assert (fact.TYPE, fact.vetoed, fact.why) == ("goal.dropped", True, "not here")


async def test_other_goals_are_refused(common: CommonOptions, printed: Printed) -> None:
    """A person's own goal and one that never was take no decision."""
    await goal.add("Mine", file="x", common=replace(common, json=True))
    mine = json.loads(printed())["goal"]

    with pytest.raises(UsageError, match="is not the agent's own and pays already: conch goal drop ends it"):
        await goal.accept(mine, common=common)
    with pytest.raises(UsageError, match="there is no active goal 'never': conch goal list shows them"):
        await goal.veto("never", common=common)


async def test_a_running_agent_is_asked(common: CommonOptions, in_progress: InProgress, printed: Printed) -> None:
    """During a run the agent decides whether the decision is the first; its refusal is a failure."""
    asked: list[Any] = []

    async def answer(subject: str, data: bytes) -> bytes:
        asked.append((subject, json.loads(data)))
        refused = {"error": "the goal y is over: it was reached or dropped"}
        return json.dumps({"ok": True, "again": True} if len(asked) == 1 else refused).encode()

    async with in_progress() as bus, bus.serve("conch.ctl.echo.*", answer):
        await goal.accept("x", because="yes", common=common)
        with pytest.raises(ConchError, match="the goal y is over"):
            await goal.veto("y", common=common)

    assert printed() == "x was accepted before\n"
    assert asked[0] == ("conch.ctl.echo.goal", {"accept": "x", "why": "yes"})
