"""A process that dies at any point of its life, and the one that comes after it."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import Delivery, MemoryBus, SharedSubscription, Stored, shared_subscription
from conch.cycle.hosting.host import AgentHost
from conch.cycle.state.recover import recover
from conch.errors import BusError, FencedError
from conch.minds import Situation
from conch.text import cut
from conch.tools import ToolContext, tool
from conch_schemas import (
    ActionDecided,
    ActionTaken,
    CycleReflected,
    FileCheck,
    Goal,
    GoalReached,
    GoalSet,
    MessageReceived,
    MessageSent,
    PolicySet,
    ThoughtFormed,
    ThoughtGrounded,
    action_id,
    cycle_event_id,
    encode,
    source_of,
    subject_of,
)

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.cycle.conftest import Life, Start


STEPS = (ThoughtFormed, ThoughtGrounded, ActionDecided, ActionTaken, CycleReflected)
CYCLES = 4
PUBLISHES = 24
"""Of a life of CYCLES cycles; the last test of this file counts them."""


def set_up(life: Any) -> Counter[int]:
    """A goal, a message that waits, and a mind that does something for both; the counter is told of every act."""
    done: Counter[int] = Counter()

    @tool
    async def put(context: ToolContext, name: str, cycle: int) -> str:
        """Makes a file."""
        done[cycle] += 1
        (context.workspace / name).write_text("made\n")
        return "made"

    def decides(situation: Situation) -> str:
        if situation.message is not None:
            return 'TOOL: reply(text="well, thank you")'
        name = "two.txt" if situation.goals and situation.cycle > 1 else "any.txt"
        return f'TOOL: put(name="{name}", cycle={situation.cycle})'

    life.add(put)
    life.mind.decides = decides
    goal = Goal(id="two", statement="There is two.txt.", check=FileCheck(path="two.txt"))
    life.configured(goals=(goal,))
    said = {"source": source_of("echo", life.agentuid), "agent": "echo"}
    message = MessageReceived(id="m1", text="how are you?", **said)
    life.journal.events.update({1: Delivery(1, subject_of(message), encode(message), 0.0)})
    life.journal.last = 1
    return done


def assert_whole(life: Any, done: Counter[int], cycles: int) -> None:
    """No gap, no fact twice, nothing done twice, goal and message once."""
    facts = life.facts()
    assert len({fact.id for fact in facts}) == len(facts)
    for kind in STEPS:
        assert [fact.cycle for fact in life.facts(kind)] == list(range(cycles))
    for number in range(cycles):
        assert [type(fact) for fact in life.facts(*STEPS) if fact.cycle == number] == list(STEPS)
    assert max(done.values()) == 1
    assert len(life.facts(GoalSet)) == len(life.facts(GoalReached)) == 1
    [sent], [reached] = life.facts(MessageSent), life.facts(GoalReached)
    assert [fact.cycle for fact in life.facts(ActionTaken) if fact.outcome.answered == "m1"] == [sent.cycle]
    achieved = [f.cycle for f in life.facts(ActionTaken) if any(check.outcome == "achieved" for check in f.goals)]
    assert achieved in ([reached.cycle], [])  # by an act, or found so after an unknown one
    assert reached.cycle is not None or achieved == []


@pytest.mark.parametrize("stored", [False, True], ids=["not stored", "stored, not acknowledged"])
@pytest.mark.parametrize("at", range(PUBLISHES))
async def test_a_crash_at_any_publish_loses_and_doubles_nothing(life: Life, at: int, stored: bool) -> None:
    """Whatever a crash interrupts is finished by the next process: an act that may have been done is `unknown`."""
    done = set_up(life)
    await life.crash(CYCLES, at, stored=stored)
    interrupted = [fact.cycle for fact in life.facts(ActionDecided)[len(life.facts(ActionTaken)) :]]
    await life.run(CYCLES + 2)

    assert_whole(life, done, CYCLES + 2)
    unknown = [fact.cycle for fact in life.facts(ActionTaken) if fact.outcome.status == "unknown"]
    assert unknown == interrupted


async def test_dying_at_every_third_publish_still_gets_there(life: Life) -> None:
    """A process that never lives long makes progress all the same, and never does a thing twice."""
    done = set_up(life)
    deaths = 0
    while not life.facts(CycleReflected) or life.facts(CycleReflected)[-1].cycle < CYCLES + 1:
        await life.crash(1000, 2, stored=deaths % 2 == 0)
        deaths += 1
        assert deaths < 100
    await life.run(CYCLES + 6)

    assert_whole(life, done, CYCLES + 6)


async def test_a_process_that_is_cancelled_in_a_tool_leaves_an_unknown_outcome(life: Life, start: Start) -> None:
    """The tool that ran when the process ended is not run again, and the outcome says that nobody knows."""
    ran, begun = Counter[str](), asyncio.Event()

    @tool
    async def hang() -> str:
        """Hangs."""
        ran["hang"] += 1
        begun.set()
        await asyncio.Event().wait()
        return "never"

    life.add(hang)
    life.mind.decides = lambda situation: "TOOL: hang()" if situation.cycle == 0 else "DO_NOTHING: warned"
    running = await start()
    await begun.wait()
    running.task.cancel()
    await asyncio.gather(running.task, return_exceptions=True)
    await life.run(2)

    assert [fact.outcome.status for fact in life.facts(ActionTaken)] == ["unknown", "none"]
    assert ran["hang"] == 1


async def test_a_thought_without_a_decision_is_decided_not_thought_again(life: Life) -> None:
    """The next process decides on the stored thought."""
    await life.crash(1, 2, stored=True)
    await life.run(1)

    [thought], [decided] = life.facts(ThoughtFormed), life.facts(ActionDecided)
    assert thought.thought.text == "Thought 0."
    assert "Thought 0." in decided.messages[0].content
    assert life.mind.purposes().count("think") == 1


async def test_a_model_decides_once_after_a_crash_behind_its_thought(life: Life) -> None:
    """It is asked when the thought's check is stored: an answer that was paid for is not lost with it."""
    life.configured(mind={"kind": "openai", "model": "small"})
    await life.crash(1, 2, stored=False)
    await life.run(1)

    assert life.mind.purposes() == ["think", "decide"]


async def test_an_intent_to_do_nothing_is_no_unknown(life: Life) -> None:
    """Where there was nothing to execute, a crash hides nothing: the outcome is `none`."""
    await life.crash(1, 3, stored=True)
    await life.run(1)

    assert [fact.outcome.status for fact in life.facts(ActionTaken)] == ["none"]


async def test_numbers_go_on_when_the_stream_is_trimmed(life: Life) -> None:
    """The snapshot knows the number, though no event is left."""
    await life.run(30)
    async with MemoryBus(life.journal) as bus:
        await bus.trim(life.journal.last + 1)
    await life.run(32)

    assert [fact.cycle for fact in life.facts(ThoughtFormed)] == [30, 31]


async def test_numbers_go_on_behind_the_store_when_the_stream_is_lost(life: Life) -> None:
    """Cycles that the store has joined are over, though neither stream nor snapshot knows of them."""
    await life.run(3)
    life.lose_stream()
    await life.run(14, beyond=12)

    assert [fact.cycle for fact in life.facts(ThoughtFormed)] == [12, 13]


async def test_an_open_cycle_that_the_store_has_joined_is_not_acted_again(life: Life) -> None:
    """The stream lost the outcome that the store knows: the thought in the snapshot is not decided on again."""
    await life.run(2)
    async with MemoryBus(life.journal) as bus:
        agent = await life.agent(bus)
        await agent._facts.publish(await agent._think(2))
        await life.save(bus)
    life.lose_stream()
    life.mind.asked.clear()
    await life.run(4, beyond=3)

    assert [fact.cycle for fact in life.facts(ActionTaken)] == [3]


async def test_the_store_being_ahead_by_the_open_cycle_is_no_loss(life: Life) -> None:
    """A crash between outcome and end: the store has joined the act, and the cycle still gets its end."""
    await life.crash(1, 4, stored=True)
    assert life.facts()[-1].TYPE == "action.taken"
    await life.run(2, beyond=1)

    assert [fact.cycle for fact in life.facts(CycleReflected)] == [0, 1]


async def test_another_agents_facts_under_this_name_are_refused_at_the_start(life: Life) -> None:
    """Two homes with one agent's name on one bus: the second is told so, and writes nothing."""
    await life.run(1)
    before = life.journal.last
    life.agentuid = "00000000-0000-4000-8000-000000000001"

    with pytest.raises(BusError, match="another agent named echo"):
        await life.run(1)
    assert life.journal.last == before


async def test_another_agents_facts_end_the_run_as_they_come(life: Life, start: Start) -> None:
    """A second home that begins while this one runs ends this one with the sentence itself, not a group of errors."""
    running = await start()
    stranger = "00000000-0000-4000-8000-000000000001"
    await running.put(thought_of(stranger, 77))

    with pytest.raises(BusError, match="another agent named echo"):
        await running.task


async def test_a_second_copy_of_the_agent_fences_the_first(life: Life, start: Start) -> None:
    """The same agent started twice: the first to hear of the other stops, and its memory is not written."""
    running = await start()
    await running.put(thought_of(life.agentuid, 7700))

    with pytest.raises(FencedError, match="another copy of echo"):
        await running.task


async def test_an_own_fact_that_the_stream_has_twice_is_no_second_copy(life: Life, start: Start, until: Until) -> None:
    """A server that forgot an id stored a fact a second time: the agent knows its own words."""
    running = await start()
    await until(lambda: len(running.cycles()) > 2)
    life.journal.ids.clear()
    for fact in life.facts(*STEPS)[-5:]:
        await running.put(fact)
    seen = len(running.cycles())

    await until(lambda: len(running.cycles()) > seen + 2)
    assert not running.task.done()


async def test_a_memory_that_another_copy_wrote_ends_the_agent(life: Life) -> None:
    """Whoever finds its memory written by somebody else stops, and writes nothing over it."""
    async with MemoryBus(life.journal) as bus:
        one = await life.agent(bus)
        other = await life.agent(bus)
        await life.save(bus)
        life.at = one._at
        with pytest.raises(FencedError):
            await life.save(bus)

    assert other.memory == one.memory


async def test_two_copies_never_say_two_things_under_one_id(life: Life) -> None:
    """The second of two copies in the same cycle is refused with a sentence."""
    async with MemoryBus(life.journal) as bus:
        one, two = await life.agent(bus), await life.agent(bus)
        await one._facts.publish(await one._think(0))
        with pytest.raises(BusError, match="another content"):
            await two._facts.publish(await two._think(0))

    assert len(life.facts(ThoughtFormed)) == 1


def thought_of(agentuid: str, cycle: int) -> ThoughtFormed:
    action = action_id(agentuid, cycle)
    return ThoughtFormed(
        id=cycle_event_id(action, ThoughtFormed), source=source_of("echo", agentuid), agent="echo", cycle=cycle,
        action_id=action, thought=cut("Mine."), need="curiosity", pressing={}, model="m", ms=0,
    )  # fmt: skip


async def test_a_snapshot_never_leads_what_it_holds(life: Life) -> None:
    """A goal that another process puts on the stream while cycles go by is not lost by a snapshot in between."""
    async with MemoryBus(life.journal) as bus:
        agent = await life.agent(bus)
        goal = Goal(id="late", statement="Late.", check=FileCheck(path="x"))
        said = GoalSet(id="g1", source=source_of("echo", life.agentuid), agent="echo", goal=goal)
        await bus.publish(subject_of(said), encode(said), id=said.id)
        await agent.run(1)  # without its reader: it has not heard of it
        await life.save(bus)
        again = await life.agent(bus)

    assert list(again.memory.goals) == ["late"]


async def test_a_snapshots_place_is_what_the_reader_has_brought(life: Life) -> None:
    """Not the end of the stream: what comes behind it is read again by the next process, experiences too."""
    async with MemoryBus(life.journal) as bus:
        one = life.hosted(SharedSubscription(bus, 0), 2)
        one.begin(await recover(bus, "echo", one.origin))
        await one.agent.run(2)
        await one.save(bus, 3)
        await life.agent(bus)

    assert (life.at.read, life.at.end) == (3, life.journal.last)


class LateBus(MemoryBus):
    """Stores at once and acknowledges when it is let."""

    def __init__(self, journal: Any) -> None:
        super().__init__(journal)
        self.acknowledges = asyncio.Event()

    async def publish(self, subject: str, data: bytes, *, id: str) -> Stored:
        stored = await super().publish(subject, data, id=id)
        await self.acknowledges.wait()
        return stored


async def test_a_fact_that_comes_back_before_it_is_acknowledged_is_in_the_snapshot(life: Life, until: Until) -> None:
    """A snapshot whose place is behind a fact holds that fact, though the agent still waits for the bus."""
    async with LateBus(life.journal) as bus, shared_subscription(bus) as shared_events:
        one = life.hosted(shared_events, 5)
        living = asyncio.create_task(AgentHost(shared_events, [one]).run())
        await until(lambda: life.facts(PolicySet))
        await until(lambda: one.at.memory.policy is not None)
        await one.save(bus, life.journal.last)
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)
    async with MemoryBus(life.journal) as bus:
        again = await life.agent(bus)

    assert life.at.read == life.journal.last
    assert again.memory.policy == again.policy


async def test_the_publishes_of_a_life_are_counted_right(life: Life, tmp_path: Path) -> None:
    """The crashes above reach the last publish of such a life."""
    set_up(life)
    await life.run(CYCLES)

    assert life.journal.last - 1 == PUBLISHES
