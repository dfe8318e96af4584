"""`/bus`: the stream, and the position and lag of every consumer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.bus import Bus, access_to
from conch.bus.jetstream import Connection
from conch.consumer.group import standings
from conch.consumer.operations import look
from conch.consumer.runtime import open_dead_letters
from conch.disk import disk_use
from conch.errors import BusUnreachableError
from conch.views import LetterRow, dead_letter_row, survey
from conch_services.dashboard.asking import asked, kept
from conch_services.dashboard.page import page
from conch_services.dashboard.stream.latency import ConsumerLatency, LatencyTracker
from conch_services.dashboard.world import DashboardContext

FRESH_SECONDS = 2.0
"""Seconds for which an answer is reused for all requests."""
PATIENCE = 4.0
"""Seconds that the bus may take to answer all that is asked here."""
MAX_DEAD_LETTERS = 50
"""Dead letters that are listed, the newest."""


@dataclass(frozen=True)
class ConsumerLine:
    """A consumer's row in the table."""

    name: str
    seq: int
    """Everything up to this stream sequence is done."""
    lag: int
    redelivered: int | None
    """None: the consumer stores its position itself, so that only its own restarts make it read twice."""
    letters: int
    latency: ConsumerLatency | None


class _Reading(Protocol):
    """A consumer and its position."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def seq(self) -> int:
        """Everything up to this stream sequence is done."""

    @property
    def lag(self) -> int:
        """Events that wait for it."""


class _KnownBus(NamedTuple):
    """The bus as the page shows it, before the dead letters and the disk are looked at."""

    shown: Mapping[str, object]
    """The template's variables."""
    consumers: Sequence[_Reading]
    warnings: Sequence[str]


async def bus(request: Request) -> Response:
    """The figures of the bus, drawn again every two seconds."""
    world: DashboardContext = request.app.state.world
    found = await asked(kept(request, "bus", FRESH_SECONDS).get("bus", lambda: _found(world, _watching(request))))
    template = "bus_now.html" if "hx-request" in request.headers else "bus.html"
    shown = found.found or {"stream": None, "consumers": (), "letters": (), "letter_count": 0}
    return await page(
        request, template, shown | {"why": found.why, "most_letters": MAX_DEAD_LETTERS, "after": world.hub.last}
    )


def _watching(request: Request) -> LatencyTracker:
    there: LatencyTracker | None = getattr(request.app.state, "watching", None)
    if there is None:
        there = request.app.state.watching = LatencyTracker()
    return there


async def _found(world: DashboardContext, watching: LatencyTracker) -> dict[str, object]:
    """Raises BusError, also where the bus takes too long."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await _asked(world, world.bus, watching)
    except TimeoutError:
        raise BusUnreachableError(f"the bus has not answered within {PATIENCE:g} s; it is asked again") from None


async def _asked(world: DashboardContext, bus: Bus, watching: LatencyTracker) -> dict[str, object]:
    about = await _about(world, bus)
    latencies = await watching.look(bus)
    letters = [letter async for letter in open_dead_letters(bus)]
    again = {one.name: one.redelivered for one in await bus.readers()}
    rows = [
        ConsumerLine(
            name=one.name,
            seq=one.seq,
            lag=one.lag,
            redelivered=again.get(one.name),
            letters=sum(letter.consumer == one.name for letter in letters),
            latency=_of(one.name, latencies),
        )
        for one in about.consumers
    ]
    filling = (await asyncio.to_thread(disk_use, world.home.path)).warning
    return {
        **about.shown,
        "warnings": [*about.warnings, *([f"{filling[0].upper()}{filling[1:]}."] if filling else [])],
        "consumers": rows,
        "rate": watching.rate(time.time()),
        "letters": alike([dead_letter_row(letter) for letter in letters[-MAX_DEAD_LETTERS:]][::-1]),
        "letter_count": len(letters),
        "keep": world.settings.bus.keep,
    }


def alike(letters: Sequence[LetterRow]) -> list[list[LetterRow]]:
    """The letters of the same consumer for the same reason together, in the order of the first of each."""
    found: dict[tuple[str, str], list[LetterRow]] = {}
    for letter in letters:
        found.setdefault((letter.consumer, letter.reason), []).append(letter)
    return list(found.values())


async def _about(world: DashboardContext, bus: Bus) -> _KnownBus:
    """`conch bus info`; of a bus without a server what it knows itself."""
    access = access_to(world.home, world.settings)
    if access is not None:
        async with Connection(access, name="conch-dashboard-info", connect_timeout=PATIENCE) as connection:
            found = await survey(bus, connection, world.settings, access.shown)
        return _KnownBus(found.document(), found.consumers, found.warnings)
    state = await bus.state()
    stream = {
        "first": state.first,
        "last": state.last,
        "messages": state.messages,
        "missing": state.missing,
        "bytes": state.bytes,
        "limit": None,
        "full": None,
        "replicas": 1,
        "epoch": state.epoch,
    }
    held = (await look(bus, world.settings.bus.keep)).held
    shown: dict[str, object] = {
        "url": "in this process",
        "server": None,
        "stream": stream,
        "peers": [],
        "durability": world.settings.bus.durability,
    }
    return _KnownBus(shown, await standings(bus), [one.sentence for one in held])


def _of(consumer: str, latencies: Mapping[str, ConsumerLatency]) -> ConsumerLatency | None:
    """A rule's or judge's consumer is named after its scorer."""
    names = (consumer, consumer.removeprefix("rule-"), consumer.removeprefix("judge-"))
    return next((latencies[name] for name in names if name in latencies), None)


ROUTES = [Route("/bus", bus)]
