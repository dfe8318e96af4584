"""Two copies of one consumer: the later one goes on alone, whenever it came, and their state is never two."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from conch.bus import Bus, shared_subscription
from conch.consumer import ConsumerRuntime
from conch.consumer.runtime import snapshots
from conch.errors import FencedError
from conch_schemas import MessageSent, subject_filter
from tests.faults.load import ANSWER, message

if TYPE_CHECKING:
    from tests.conftest import Until, World


class Copy:
    """One of them, at work on a bus."""

    def __init__(self, bus: Bus) -> None:
        self.stop = asyncio.Event()
        self.runtime: ConsumerRuntime | None = None
        self.task = asyncio.create_task(self._run(bus))

    async def _run(self, bus: Bus) -> None:
        async with shared_subscription(bus) as shared_events:
            self.runtime = ConsumerRuntime(shared_events, ANSWER)
            await self.runtime.run(self.stop)


@pytest.mark.parametrize("apart", [0.0, 0.02, 0.2])
async def test_of_two_copies_one_stops(
    apart: float, world: World, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started together, or one a while after the other: one is fenced soon, the other answers each message once."""
    monkeypatch.setattr(snapshots, "SNAPSHOT_SECONDS", 0.05)
    async with world.bus() as bus, world.bus() as theirs:
        copies = [Copy(bus)]
        await asyncio.wait([copies[0].task], timeout=apart)
        copies.append(Copy(theirs if world.server is not None else bus))
        number = 0
        while not any(copy.task.done() for copy in copies):
            number += 1
            assert number < 1000
            await bus.publish(*message("echo", number)[:2], id=message("echo", number).id)
            await asyncio.wait([copy.task for copy in copies], timeout=0.005)
        [fenced], [left] = ([copy for copy in copies if copy.task.done() is done] for done in (True, False))
        with pytest.raises(FencedError):
            await fenced.task
        last = message("echo", number + 1)
        await bus.publish(*last[:2], id=last.id)

        async def written() -> bool:
            entry = await bus.get("state/answer/echo")
            return entry is not None and json.loads(entry.value)["state"] == {"last": number + 1, "astray": []}

        await until(written)
        left.stop.set()
        await left.task
        said = [json.loads(one.data)["data"]["text"] async for one in bus.read([subject_filter(MessageSent)])]
    assert Counter(map(int, said)) == Counter(range(1, number + 2))
