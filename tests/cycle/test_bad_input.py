"""What others put among the agent's own facts."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from conch.bus import MemoryBus
from conch.bus.subscription import decoded
from conch.cycle.state.memory import CYCLE_KINDS, TOLD_KINDS
from conch.folds.order import MOST_LEAP
from conch_schemas import (
    ActionTaken,
    ContractViolationError,
    Cut,
    CycleReflected,
    Event,
    ThoughtFormed,
    action_id,
    cycle_event_id,
    encode,
    source_of,
    subject_of,
    verify_ids,
)

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.cycle.conftest import Life, Start


GARBAGE = (b"", b"\xff{", b"[" * 100_000, b'{"id":1}', b'{"type":"conch.v2.thought.formed"}')


def thought(life: Any, cycle: int, **changes: Any) -> ThoughtFormed:
    """As the agent itself would form it."""
    action = action_id(life.agentuid, cycle)
    plain: dict[str, Any] = {
        "id": cycle_event_id(action, ThoughtFormed),
        "source": source_of("echo", life.agentuid),
        "agent": "echo",
        "cycle": cycle,
        "action_id": action,
        "thought": Cut(text="Not mine.", length=9, sha256=""),
        "need": "curiosity",
        "pressing": {},
        "model": "m",
        "ms": 1.0,
    }
    return ThoughtFormed(**plain | changes)


async def put(bus: MemoryBus, event: Event, name: str) -> None:
    await bus.publish(subject_of(event), encode(event), id=name)


def known(life: Any, kind: type[Event]) -> list[Any]:
    """The events of a kind that are some."""
    found = []
    for delivery in life.journal.events.values():
        with suppress(ContractViolationError):
            event = decoded(delivery.subject, delivery.data)
            found += [event] if isinstance(event, kind) else []
    return found


async def garbage(bus: MemoryBus, life: Any) -> None:
    """On every subject that the agent reads, and thoughts that do not bear the ids that follow from what they say."""
    for kind in (*CYCLE_KINDS, *TOLD_KINDS):
        for number, data in enumerate(GARBAGE):
            await bus.publish(f"conch.v1.echo.{kind.TYPE}", data, id=f"{kind.TYPE}/{number}/{bus.journal.last}")
    await put(bus, thought(life, 50, id="11111111-2222-5333-8444-555555555555"), f"a{bus.journal.last}")
    await put(bus, thought(life, 50, action_id="action"), f"b{bus.journal.last}")


async def test_garbage_among_its_facts_does_not_stop_a_running_agent(start: Start, life: Life, until: Until) -> None:
    """Nor a thought whose id does not follow from what it says: it goes on with the next number."""
    running = await start()
    await until(lambda: len(known(life, CycleReflected)) >= 1)

    await garbage(running.bus, life)
    done = running.agent.memory.next_cycle
    await until(lambda: running.agent.memory.next_cycle >= done + 3)

    assert not running.task.done()
    acts = [act.cycle for act in known(life, ActionTaken)]
    assert acts == list(range(len(acts)))


async def test_garbage_among_its_facts_does_not_keep_an_agent_from_starting(life: Life) -> None:
    """What it finds of its own is all there is to it; a thought from far beyond is none of it."""
    await life.run(2)
    async with MemoryBus(life.journal) as bus:
        await garbage(bus, life)
        await put(bus, thought(life, 2 + MOST_LEAP), "beyond")

    await life.run(4)

    assert [act.cycle for act in known(life, ActionTaken)] == [0, 1, 2, 3]


async def test_every_fact_of_a_cycle_bears_the_ids_that_follow(life: Life) -> None:
    """The agent's own, each of them."""
    await life.run(2)

    for event in life.facts():
        verify_ids(event)
