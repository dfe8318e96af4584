"""The witness of a new version goes on from the marks that the version before published right before it was killed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from conch.bus import MemoryBus, MemoryJournal, shared_subscription
from conch.config import Settings
from conch.consumer import ConsumerRuntime, ServiceContext, bind
from conch.witness import verify
from conch_schemas import Event, MarkWitnessed, decode, encode, subject_filter, subject_of
from conch_services.witness.consumer import witness
from tests.witnessed import recorded

if TYPE_CHECKING:
    from tests.conftest import MakeAct


async def run_witness(journal: MemoryJournal, *facts: Event) -> None:
    """Publish facts, and run the witness until it has read the whole stream."""
    async with MemoryBus(journal) as bus, shared_subscription(bus) as shared_events:
        for fact in facts:
            await bus.publish(subject_of(fact), encode(fact), id=fact.id)
        end = (await bus.state()).last
        spec = bind(witness, ServiceContext(Settings(), Path()))
        stop, runtime = asyncio.Event(), ConsumerRuntime(shared_events, spec)
        async with asyncio.TaskGroup() as tasks, asyncio.timeout(30):
            tasks.create_task(runtime.run(stop), name="witness")
            while runtime.handled < end:
                await asyncio.sleep(0.005)
            stop.set()


async def test_a_mark_of_the_version_before_is_followed(act: MakeAct) -> None:
    """Killed between its marks and its checkpoint, upgraded and started again: one chain, without a second mark."""
    journal, acts = MemoryJournal(), [act(cycle) for cycle in range(4)]
    facts = [fact for action in acts for fact in (action, recorded(action))]
    await run_witness(journal, *facts[:2])
    bucket = dict(journal.bucket)
    with mock.patch("conch.witness.chain.recorded_fact", return_value={}):
        await run_witness(journal, *facts[2:6])
    journal.bucket.clear()
    journal.bucket.update(bucket)

    await run_witness(journal, *facts[6:])

    async with MemoryBus(journal) as bus:
        events = [decode(one.data) async for one in bus.read([subject_filter(MarkWitnessed)])]
    marks = [event.mark for event in events if isinstance(event, MarkWitnessed)]
    assert [mark.sequence for mark in marks] == list(range(8))
    assert verify(marks, [str(action.action_id) for action in acts]) == []
    assert [any(name.startswith("recorded") for name in mark.facts) for mark in marks[1::2]] == [
        *(True, False, False),
        True,
    ]
