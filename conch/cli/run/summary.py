"""The last lines of a run with a set number of cycles: waits until its cycles are recorded, and reports them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from conch.bus import Bus, newest
from conch.cli.run.output import RunOutput
from conch.consumer.group import signs
from conch.errors import ConchError
from conch.tasks import background
from conch_schemas import ActionTaken, AlarmRaised, subject_filter

LOOK_SECONDS = 2.5
"""Seconds between two checks whether a store is at work: a live worker's heartbeat comes every second."""
MOMENT = 20.0
"""Seconds to wait until recorded cycles are printed: in a cluster, a server may just have died."""


async def all_told(
    bus: Bus,
    run_output: RunOutput,
    agents: Sequence[str],
    after: int,
    stop: asyncio.Event,
    *,
    seconds: float,
    here: bool,
) -> None:
    """Return when the last act of each agent behind sequence `after` is recorded and printed, with the alarms that
    there are, or when a stop is requested.

    `here`: this run's own store has recorded them, and only their lines are waited for, for a moment. Else they are
    waited for as long as there is a store at work; raises ConchError when it does not get there within `seconds`.
    """
    acts = zip(agents, await newest(bus, [subject_filter(ActionTaken, agent) for agent in agents]), strict=True)
    cycles = {agent: (act.cycle or 0) if act is not None else 0 for agent, (seq, act) in acts if seq > after}
    alarm = 0
    async for delivery in bus.read([subject_filter(AlarmRaised, agents[0] if len(agents) == 1 else "*")], after=after):
        alarm = delivery.seq
    try:
        async with (
            asyncio.timeout(MOMENT if here else seconds),
            background(run_output.told(cycles, alarm), name="conch.told") as telling,
            background(stop.wait(), name="conch.stop") as stopping,
        ):
            seen: dict[str, int] = {}
            while here or (found := await signs(bus, "store")) != seen:
                await asyncio.wait((telling, stopping), timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if telling.done() or stopping.done():
                    return
                if not here:
                    seen = found
    except TimeoutError:
        if not here:
            raise ConchError("not every experience was recorded: see conch status where the store runs") from None
