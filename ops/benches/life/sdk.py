"""A program's acts by `conch.agent`: acts a second and what each costs, in turns with the same loop without Conch.

The tool computes a SHA-256 of 64 KiB. The bus is an embedded server that has each event on disk before a call returns.
The overhead of an act is the time of its cycle, from entering to leaving it, without the tool's own.
"""

from __future__ import annotations

import asyncio
import hashlib
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import conch
from conch.bus.jetstream import fsync_seconds

ROUNDS, QUICK_ROUNDS = 9, 2
ACTS, QUICK_ACTS = 300, 20
BYTES = bytes(64 * 1024)


def tool() -> str:
    """What the program does."""
    return hashlib.sha256(BYTES).hexdigest()


@dataclass
class Turns:
    """What one way to run the loop took, over all rounds."""

    name: str
    seconds: list[float] = field(default_factory=list)
    """Of each round."""
    processor: list[float] = field(default_factory=list)
    """Processor seconds of this process, of each round; the server is another one."""
    overheads: list[float] = field(default_factory=list)
    """Seconds of each act without the tool's own."""

    def row(self, acts: int, fsync: float) -> str:
        """Its line: rates are medians of the rounds."""
        rate, cost = acts / statistics.median(self.seconds), statistics.median(self.processor) / acts
        said = f"{self.name}: {rate:,.0f} acts/s, {cost * 1000:.2f} ms CPU an act"
        if not self.overheads:
            return said
        cuts = statistics.quantiles(self.overheads, n=100)
        fsyncs = f" ({cuts[49] / fsync:.0f} fsyncs)" if fsync else ""
        return f"{said}; overhead of an act p50 {cuts[49] * 1000:.2f} ms{fsyncs}, p99 {cuts[98] * 1000:.2f} ms"


def measure(quick: bool) -> None:
    """Print a row for each way to run the loop. `quick`: few acts, whose figures are not to be quoted."""
    rounds, acts = (QUICK_ROUNDS, QUICK_ACTS) if quick else (ROUNDS, ACTS)
    plain, asynchronous, blocking = Turns("without Conch"), Turns("conch.agent, async"), Turns("conch.agent, blocking")
    rewarded = Turns("conch.agent, async, each reward awaited, the run in the same process")
    with tempfile.TemporaryDirectory() as folder:
        fsync = fsync_seconds(Path(folder))
        for number in range(rounds):
            place = Path(folder) / str(number)
            _timed(plain, lambda: _plain(acts))
            asyncio.run(_on_a_server(place, acts, asynchronous, blocking, turned=bool(number % 2)))
            asyncio.run(_rewarded(place / "rewarded", max(5, acts // 10), rewarded))
    print(f"{rounds} rounds of {acts} acts; an fsync takes {fsync * 1000:.2f} ms")
    for turns in (plain, asynchronous, blocking):
        print(turns.row(acts, fsync))
    print(rewarded.row(max(5, acts // 10), fsync))


def _timed(turns: Turns, run: Callable[[], None]) -> None:
    began, used = time.perf_counter(), time.process_time()
    run()
    turns.seconds.append(time.perf_counter() - began)
    turns.processor.append(time.process_time() - used)


def _plain(acts: int) -> None:
    for _ in range(acts):
        tool()


async def _on_a_server(place: Path, acts: int, asynchronous: Turns, blocking: Turns, *, turned: bool) -> None:
    """`turned`: the blocking form first."""
    async with conch.local_bus(place) as bus:
        if turned:
            await asyncio.to_thread(_blocking, bus.url, bus.token, acts, blocking)
        async with conch.agent("async", bus.url, token=bus.token) as agent:
            await _acts(agent, acts, asynchronous, rewards=False)
        if not turned:
            await asyncio.to_thread(_blocking, bus.url, bus.token, acts, blocking)


async def _rewarded(place: Path, acts: int, turns: Turns) -> None:
    async with (
        conch.local_bus(place) as bus,
        conch.running(bus, mind=["DO_NOTHING: rest"]),
        conch.agent("mine", bus.url, token=bus.token) as agent,
    ):
        await _acts(agent, acts, turns, rewards=True)


async def _acts(agent: conch.ProgramAgent, acts: int, turns: Turns, *, rewards: bool) -> None:
    began, used = time.perf_counter(), time.process_time()
    for number in range(acts):
        entered = time.perf_counter()
        async with agent.cycle() as cycle:
            await cycle.thought("The next digest.")
            await cycle.decided(tool="digest", args={"number": number})
            called = time.perf_counter()
            output = tool()
            own = time.perf_counter() - called
            await cycle.taken(output=output)
            if rewards:
                assert await cycle.reward() is not None
        turns.overheads.append(time.perf_counter() - entered - own)
    turns.seconds.append(time.perf_counter() - began)
    turns.processor.append(time.process_time() - used)


def _blocking(url: str, token: str, acts: int, turns: Turns) -> None:
    with conch.agent("blocking", url, token=token) as agent:
        began, used = time.perf_counter(), time.process_time()
        for number in range(acts):
            entered = time.perf_counter()
            with agent.cycle() as cycle:
                cycle.thought("The next digest.")
                cycle.decided(tool="digest", args={"number": number})
                called = time.perf_counter()
                output = tool()
                own = time.perf_counter() - called
                cycle.taken(output=output)
            turns.overheads.append(time.perf_counter() - entered - own)
        turns.seconds.append(time.perf_counter() - began)
        turns.processor.append(time.process_time() - used)
