"""Faults of the processes: the publisher's, the consumers' with the store, two copies of a consumer."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from runs import fresh_home

from conch.bus import Bus
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.server import EmbeddedServer
from conch.consumer import bind
from conch.consumer.group.position import holder_of
from conch.witness import verify
from conch_schemas import (
    ActionTaken,
    ExperienceRecorded,
    MarkWitnessed,
    NeedsChanged,
    NoveltyMeasured,
    decode,
    subject_filter,
)
from conch_services.needs.consumer import needs
from faults.row import TOKEN, Row
from tests.faults.acts import AGENT, PARTS, SCORERS, Scenes, act, context, stored, streamed
from tests.faults.processes import consumers, publisher, worker

ACTS = 40
"""That are done meanwhile, each time."""


@asynccontextmanager
async def _stage() -> AsyncIterator[tuple[EmbeddedServer, Bus, Path]]:
    """A server, a bus on it and a home."""
    with fresh_home() as place:
        server = EmbeddedServer(Path(place) / "nats", token=TOKEN, strict=True, max_bytes=2**32)
        await server.start()
        try:
            async with JetStreamBus(Access(server.url, token=TOKEN), strict=True) as bus:
                yield server, bus, Path(place)
        finally:
            await server.stop()


async def _until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.005)


async def publisher_killed(times: int) -> Row:
    """kill -9 in mid-publish; the next one begins behind the last that was acknowledged."""
    row, draw = Row("publisher killed, with the start of the next"), random.Random(1)
    acknowledged: dict[int, int] = {}
    async with _stage() as (server, bus, _):
        one = await publisher(server.url, TOKEN, 1)
        for _ in range(times):
            enough = draw.randrange(50, 500)
            await _until(lambda one=one, enough=enough: len(one.acknowledged) > enough)
            await one.ended(signal.SIGKILL)
            began = time.perf_counter()
            acknowledged |= one.acknowledged
            one = await publisher(server.url, TOKEN, max(acknowledged) + 1)
            await _until(lambda one=one: one.acknowledged)
            row.seconds.append(time.perf_counter() - began)
            row.injected += 1
        await one.ended(signal.SIGKILL)
        acknowledged |= one.acknowledged
        there: dict[int, list[int]] = {}
        async for found in bus.read(["conch.v1.>"]):
            there.setdefault(int(json.loads(found.data)["data"]["text"]), []).append(found.seq)
    row.lost = sum(there.get(number, [0])[0] != place for number, place in acknowledged.items())
    row.doubled = sum(len(places) - 1 for places in there.values())
    return row


async def consumers_killed(times: int) -> Row:
    """kill -9 of the scorers with the store while acts come, some of them and of their scores twice and out of turn,
    under ids that the server does not know. Lost: a score that is not stored. Doubled: one that is stored or said
    twice."""
    row, draw = Row("consumers and store killed, with their start"), random.Random(2)
    async with _stage() as (server, bus, home):
        scenes = Scenes(bus, home, seed=3)
        await scenes.begin()
        process = await consumers(server.url, TOKEN, home, *SCORERS, "store", "forgetful")
        for _ in range(times):
            acting = asyncio.create_task(scenes.go_on(ACTS))
            await asyncio.wait([acting], timeout=draw.random() * 0.3)
            process.kill()
            await process.communicate()
            began = time.perf_counter()
            await acting
            process = await consumers(server.url, TOKEN, home, *SCORERS, "store", "forgetful")
            await _until(lambda: len(stored(home).complete) == scenes.count)
            row.seconds.append(time.perf_counter() - began)
            row.injected += 1
        process.terminate()
        await process.communicate()
        found, stream = stored(home), await streamed(bus)
    row.lost = PARTS * scenes.count - len(found.scores)
    said = [times for kind in (NeedsChanged, NoveltyMeasured, ExperienceRecorded) for times in _times(stream, kind)]
    row.doubled = found.rows - len(found.scores) + sum(times - 1 for times in said)
    if process.returncode:
        row.wrong.append(f"the consumers ended with {process.returncode}")
    return row


def _times(stream: Any, kind: Any) -> list[int]:
    """How often each action has an event of this kind."""
    return list(Counter(event.action_id for event in stream.of(kind)).values())


async def copy_woken(times: int) -> Row:
    """A copy of the needs stands still, another takes over, the first goes on. Recovered: the first has ended."""
    row = Row("consumer overtaken while stopped")
    async with _stage() as (server, bus, home):
        scenes = Scenes(bus, home, seed=4)
        await scenes.begin()
        asleep = await consumers(server.url, TOKEN, home, "needs")
        for _ in range(times):
            asleep.send_signal(signal.SIGSTOP)
            awake = await consumers(server.url, TOKEN, home, "needs")
            over = asyncio.Event()
            acting = asyncio.create_task(_act_on(scenes, over))
            began = time.perf_counter()
            asleep.send_signal(signal.SIGCONT)
            async with asyncio.timeout(60):
                await asleep.communicate()
            row.seconds.append(time.perf_counter() - began)
            row.injected += 1
            over.set()
            await acting
            asleep = awake
        async with asyncio.timeout(60):
            while len((await streamed(bus)).times(NeedsChanged)) < scenes.count:
                await asyncio.sleep(0.05)
        asleep.terminate()
        await asleep.communicate()
        changes = (await streamed(bus)).of(NeedsChanged)
    row.lost = scenes.count - len({change.cycle for change in changes})
    row.doubled = len(changes) - len({change.cycle for change in changes})
    if [change.after for change in changes] != _expected(home, scenes.count):
        row.wrong.append("the needs are not those of one fold over the stream")
    return row


async def _act_on(scenes: Scenes, over: asyncio.Event) -> None:
    while not over.is_set():
        await scenes.go_on(1)
        await asyncio.sleep(0.01)


def _expected(home: Path, count: int) -> list[dict[str, float]]:
    spec = bind(needs, context(home))
    assert spec.initial is not None
    state, found = spec.initial(), []
    for cycle in range(count):
        state, change = spec.handle(state, act(cycle))
        found.append(change.after)
    return found


async def worker_woken(times: int) -> Row:
    """Two workers of the witness: the one that holds the agent stands still until the other has taken over, and goes on
    while acts come. Lost, doubled: marks. Recovered: the chain has all that there is to mark."""
    row, draw, marked = Row("overtaken worker wakes"), random.Random(5), _Marked()
    async with _stage() as (server, bus, home):
        scenes = Scenes(bus, home, seed=6)
        await scenes.begin()
        workers = {name: await worker(server.url, TOKEN, home, "witness", name) for name in ("one", "two")}
        for _ in range(times):
            over = asyncio.Event()
            acting = asyncio.create_task(_act_on(scenes, over))
            async with asyncio.timeout(60):
                holder = await _holder(bus, {""})
                workers[holder].send_signal(signal.SIGSTOP)
                await _holder(bus, {"", holder})
                await asyncio.sleep(draw.random() * 0.5)
            workers[holder].send_signal(signal.SIGCONT)
            began = time.perf_counter()
            await asyncio.sleep(draw.random())
            over.set()
            await acting
            async with asyncio.timeout(60):
                while await marked.count(bus) < scenes.count:
                    await asyncio.sleep(0.02)
            row.seconds.append(time.perf_counter() - began)
            row.injected += 1
        for one in workers.values():
            one.terminate()
            await one.communicate()
        marks = [decode(found.data).mark async for found in bus.read([subject_filter(MarkWitnessed)])]
        acts = [found.action_id async for found in _acts(bus)]
    row.lost = len(set(acts) - {mark.action_id for mark in marks if mark.domain == "action"})
    row.doubled = len(marks) - len({mark.id for mark in marks})
    row.wrong += [f"the chain: {problem.what}" for problem in verify(marks, acts)][:5]
    return row


async def _holder(bus: Bus, others: set[str]) -> str:
    """The worker that holds the agent, once that is none of these."""
    while (name := (await holder_of(bus, "witness", AGENT) or "").rpartition(".")[0]) in others:
        await asyncio.sleep(0.02)
    return name


async def _acts(bus: Bus) -> AsyncIterator[Any]:
    async for found in bus.read([subject_filter(ActionTaken)]):
        yield decode(found.data)


class _Marked:
    """The acts that have a mark, and up to where the stream was looked through for them."""

    def __init__(self) -> None:
        self._acts: set[str | None] = set()
        self._seq = 0

    async def count(self, bus: Bus) -> int:
        """How many there are now."""
        async for found in bus.read([subject_filter(MarkWitnessed)], after=self._seq):
            mark, self._seq = decode(found.data).mark, found.seq
            if mark.domain == "action":
                self._acts.add(mark.action_id)
        return len(self._acts)


FAULTS = [(0.5, publisher_killed), (0.5, consumers_killed), (0.2, copy_woken), (0.5, worker_woken)]
