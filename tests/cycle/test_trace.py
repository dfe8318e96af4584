"""One trace from thought to reward."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conch.bus import MemoryBus, shared_subscription
from conch.consumer import ServiceContext
from conch.consumer.group.membership import joined
from conch.consumer.host import host
from conch.consumer.process import builtin, quiet
from conch.rewards import weight_set, weights_version
from conch_schemas import (
    ActionDecided,
    ActionTaken,
    ExperienceRecorded,
    GoalReached,
    MarkWitnessed,
    MessageReceived,
    MessageSent,
    NeedsChanged,
    NoveltyMeasured,
    RewardAssigned,
    ThoughtFormed,
    WeightsSet,
    encode,
    subject_of,
    trace_id,
    trace_of,
)

if TYPE_CHECKING:
    from tests.cycle.conftest import Life


CONSUMERS = ("reward", "needs", "curiosity", "witness", "store")


async def put(bus: MemoryBus, *events: Any) -> None:
    for event in events:
        await bus.publish(subject_of(event), encode(event), id=event.id)


async def scored(life: Any, home: Path) -> None:
    """Let every consumer handle what the agent has done."""
    context = ServiceContext(life.settings, home)
    async with (
        MemoryBus(life.journal) as bus,
        shared_subscription(bus) as shared_events,
        joined(bus, CONSUMERS) as members,
    ):
        running, stop = builtin(context, CONSUMERS, members), asyncio.Event()
        hosting = asyncio.create_task(host(shared_events, running, stop, lambda _: None))
        async with asyncio.timeout(30):
            await quiet(bus, running)
            stop.set()
            await hosting


async def test_every_fact_of_an_act_is_in_its_trace(life: Life, tmp_path: Path) -> None:
    """From the thought to scores, marks, goals and the experience: one trace, and as many spans as facts."""
    parts = weight_set((), life.settings.rewards)
    source = f"conch/echo/{life.agentuid}"
    weights = WeightsSet(id="w", source=source, agent="echo", version=weights_version(parts), parts=parts)
    asked = MessageReceived(id="m", source=source, agent="echo", text="Well?")
    async with MemoryBus(life.journal) as bus:
        await put(bus, weights, asked)
    check = {"kind": "file", "path": "done.txt"}
    life.configured(goals=[{"id": "done", "statement": "There is done.txt.", "check": check}])
    says = ["TOOL: filesystem(operation='write', path='done.txt', content='x')", "TOOL: reply(text='Done.')"]
    life.mind.decides = lambda situation: says[situation.cycle]
    await life.run(2)

    await scored(life, tmp_path)

    acts = life.facts(ActionTaken)
    assert [act.outcome.status for act in acts] == ["success", "success"]
    for act in acts:
        facts = [event for event in life.facts() if event.action_id == act.action_id]
        assert {trace_id(event.traceparent) for event in facts} == {trace_of(act.action_id)}
        assert len({event.traceparent for event in facts}) == len(facts)
        kinds = {type(event) for event in facts}
        assert kinds >= {ThoughtFormed, ActionDecided, RewardAssigned, NeedsChanged, NoveltyMeasured}
        assert kinds >= {MarkWitnessed, ExperienceRecorded}
    assert all(event.action_id is not None for event in life.facts(GoalReached, MessageSent))
    assert len(life.facts(GoalReached, MessageSent)) == 2
