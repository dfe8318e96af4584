"""What a cycle says, in which order, and what it does between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conch.bus import MemoryBus
from conch.errors import ContractError, ModelError
from conch.minds import Situation
from conch.tools import tool
from conch_schemas import (
    ActionDecided,
    ActionTaken,
    CycleReflected,
    NeedsChanged,
    PolicySet,
    ThoughtFormed,
    ThoughtGrounded,
    action_id,
    source_of,
)

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.cycle.conftest import Life, Start


async def test_a_cycle_is_five_facts_in_their_order(life: Life) -> None:
    """Thought, grounding, intent, outcome, end: each on the stream before the next, under one action id."""
    await life.run(2)

    assert [type(fact) for fact in life.facts()] == [
        PolicySet, *[ThoughtFormed, ThoughtGrounded, ActionDecided, ActionTaken, CycleReflected] * 2
    ]  # fmt: skip
    assert [fact.cycle for fact in life.facts()[1:]] == [0] * 5 + [1] * 5
    assert {fact.action_id for fact in life.facts()[1:6]} == {action_id(life.agentuid, 0)}


async def test_the_intent_is_stored_before_the_act(life: Life) -> None:
    """A tool that looks at the stream while it runs finds its own intent there, and no outcome yet."""
    found: list[type] = []

    @tool
    async def look() -> str:
        """Looks at the stream."""
        found.extend(type(fact) for fact in life.facts())
        return "seen"

    life.add(look)
    life.mind.decides = lambda _: "TOOL: look()"
    await life.run(1)

    assert found[-1] is ActionDecided
    assert life.facts(ActionTaken)[0].outcome.status == "success"


async def test_the_policy_is_said_at_each_start(life: Life) -> None:
    """`policy.set` comes with every start, each time as an event of its own."""
    for model in ("fake-1", "fake-1", "fake-2", "fake-1"):
        life.mind.model = model
        await life.run(0)
        life.journal.ids.clear()

    assert [fact.model for fact in life.facts(PolicySet)] == ["fake-1", "fake-1", "fake-2", "fake-1"]
    assert len({fact.id for fact in life.facts(PolicySet)}) == 4


async def test_the_decision_carries_what_the_mind_was_told_and_what_it_said(life: Life) -> None:
    """Raw reply, parsed action and messages travel together; the act repeats the raw reply."""
    life.mind.decides = lambda _: "  REFLECT: the tide "
    await life.run(1)
    [decided], [taken] = life.facts(ActionDecided), life.facts(ActionTaken)

    assert (decided.raw, decided.action.kind, decided.action.text) == ("  REFLECT: the tide ", "REFLECT", "the tide")
    assert "Thought 0." in decided.messages[0].content
    assert (taken.raw, taken.action, taken.outcome.status) == (decided.raw, decided.action, "none")


@pytest.mark.parametrize("reply", ["", "I would rather not.", "TOOL: shell(", "[" * 1_000_000, "\x00\x1b[31m" * 9000])
async def test_a_reply_that_is_no_action_is_a_cycle_all_the_same(life: Life, reply: str) -> None:
    """Prose, cut calls, a megabyte of brackets, control characters: nothing is done, and the cycle ends in order."""
    life.mind.decides = lambda _: reply
    await life.run(2)

    assert [(fact.action.valid, fact.outcome.status) for fact in life.facts(ActionTaken)] == [(False, "none")] * 2


async def test_the_largest_of_everything_still_fits_its_event(life: Life) -> None:
    """A thought, a reply, an output and notes of control characters at their limits are cut, not refused."""

    @tool
    async def flood(text: str) -> str:
        """Says a lot."""
        return "\x01" * 400_000

    life.add(flood)
    for number in range(5):
        life.notes.remember(f"tide {number} " + "\x01" * 3900)
    life.mind.thinks = lambda _: "the tide. " + "\x01" * 300_000
    life.mind.decides = lambda _: 'TOOL: flood(text="' + "\x01" * 20_000 + '")'
    await life.run(2)

    assert [fact.outcome.status for fact in life.facts(ActionTaken)] == ["success"] * 2


async def test_needs_are_as_the_last_fact_about_them_said(life: Life, start: Start, until: Until) -> None:
    """`needs.changed` reaches the situation and the act that is decided after it."""
    running = await start()
    await running.put(
        NeedsChanged(
            id="n1",
            source=source_of("echo", life.agentuid),
            agent="echo",
            before={"curiosity": 0.5},
            after={"curiosity": 0.01},
            drift={},
            changes=(),
            most_pressing="curiosity",
        )
    )
    await until(lambda: any(fact.needs["curiosity"] == 0.01 for fact in life.facts(ActionTaken)))

    assert life.mind.asked[-1].situation.needs["curiosity"] == 0.01


async def test_every_second_cycle_reflects_where_two_is_said(life: Life) -> None:
    """`cycle.reflect_every` cycles from one reflection to the next; the others end with an empty one."""
    await life.run(4)

    assert [fact.reflection for fact in life.facts(CycleReflected)] == ["", "It went.", "", "It went."]
    assert life.mind.purposes().count("reflect") == 2


async def test_a_cycle_that_a_stop_left_open_is_written_down_whole(life: Life, start: Start, until: Until) -> None:
    """A snapshot in the middle of a cycle holds its thought: it is decided on though the stream was trimmed."""

    def thought(_: Situation) -> str:
        life.mind.failures.append(ModelError("gone before it decides", retry_after=3600))
        return "A tidy thought."

    life.mind.thinks = thought
    running = await start()
    await until(lambda: running.agent.control.state == "mind" and running.agent.memory.thought is not None)
    number = running.agent.memory.thought.cycle
    running.agent.control.stop()
    await running.task
    await running.bus.trim(life.journal.last + 1)
    life.mind.failures.clear()
    await life.run(0)

    [decided] = life.facts(ActionDecided)
    assert (decided.cycle, "A tidy thought." in decided.messages[0].content) == (number, True)


async def test_a_snapshot_that_cannot_be_read_is_said(life: Life) -> None:
    """A memory of a newer version, or a damaged one, ends the start with a sentence."""
    await life.run(1)
    async with MemoryBus(life.journal) as bus:
        entry = await bus.get("agent/echo")
        await bus.put("agent/echo", b'{"memory": 1}', revision=entry.revision)

    with pytest.raises(ContractError, match="cannot be read by this version"):
        await life.run(1)


async def test_garbage_on_the_agents_subjects_hinders_nobody(life: Life, start: Start, until: Until) -> None:
    """What is no event is passed over, at the start and while the agent runs."""
    async with MemoryBus(life.journal) as bus:
        await bus.publish("conch.v1.echo.thought.formed", b"garbage", id="1")
    running = await start()
    await running.bus.publish("conch.v1.echo.goal.set", b"more", id="2")

    await until(lambda: len(running.cycles()) > 2)
