"""Faults of the server and of the network under a load: publishers singly and in batches, a fold that answers."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from runs import fresh_home

from conch.bus.server import EmbeddedServer
from faults.row import TOKEN, Fault, Row
from tests.faults.load import Load, counted, loaded
from tests.faults.proxy import Proxy, Way

PATIENCE = 60.0


@dataclass(frozen=True)
class Scene:
    """What a fault is injected into."""

    server: EmbeddedServer
    proxy: Proxy
    load: Load
    draw: random.Random


Inject = Callable[[Scene], Awaitable[None]]
"""Returns when the fault is over: from here on the recovery counts."""


def under_load(fault: str, inject: Inject) -> Fault:
    """A strict server, its clients beyond a proxy."""

    async def run(times: int) -> Row:
        row = Row(fault)
        with fresh_home() as place:
            server = EmbeddedServer(Path(place) / "nats", token=TOKEN, strict=True, max_bytes=2**32)
            await server.start()
            try:
                async with Proxy(server.url) as proxy:
                    async with loaded(proxy.url, TOKEN, strict=True) as load:
                        scene = Scene(server, proxy, load, random.Random(fault))
                        for _ in range(times):
                            await inject(scene)
                            row.seconds.append(await load.recovered())
                            row.injected += 1
                    found = await counted(load, server.url, TOKEN)
            finally:
                await server.stop()
        row.lost, row.doubled = found.lost, found.doubled
        if found.astray:
            row.wrong.append(f"{fault}: {found.astray} events were out of their agent's order")
        return row

    return run


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.001)


# -- the server ------------------------------------------------------------------------------------------------------


def _ended(by: signal.Signals) -> Inject:
    async def inject(scene: Scene) -> None:
        await asyncio.sleep(scene.draw.random() * 0.05)
        _signal(scene, by)
        await scene.server.wait()
        await scene.server.start()

    return inject


async def _stands_still(scene: Scene) -> None:
    """Too shortly for its clients to give it up."""
    _signal(scene, signal.SIGSTOP)
    await asyncio.sleep(scene.draw.uniform(0.05, 0.5))
    _signal(scene, signal.SIGCONT)


async def _stands_still_for_long(scene: Scene) -> None:
    _signal(scene, signal.SIGSTOP)
    try:
        await _until(lambda: not scene.load.bus.connected)
    finally:
        _signal(scene, signal.SIGCONT)


def _signal(scene: Scene, by: signal.Signals) -> None:
    assert scene.server.pid is not None
    os.kill(scene.server.pid, by)


# -- the network -----------------------------------------------------------------------------------------------------


async def _reset(scene: Scene) -> None:
    await asyncio.sleep(scene.draw.random() * 0.05)
    scene.proxy.cut()


async def _cut_in_an_event(scene: Scene) -> None:
    scene.proxy.up.cut_after(scene.draw.randrange(1, 20_000))
    await _until(lambda: not scene.proxy.up.armed)


def _cut_at(way: Callable[[Proxy], Way], trap: bytes, most: int) -> Inject:
    async def inject(scene: Scene) -> None:
        way(scene.proxy).cut_at(trap, scene.draw.randrange(1, most + 1))
        await _until(lambda: not way(scene.proxy).armed)

    return inject


def _black_hole(*ways: Callable[[Proxy], Way]) -> Inject:
    async def inject(scene: Scene) -> None:
        with scene.proxy.held(*(way(scene.proxy) for way in ways)):
            await _until(lambda: not scene.load.bus.connected)

    return inject


async def _thin_line(scene: Scene) -> None:
    scene.proxy.down.rate = scene.proxy.up.rate = 100_000
    await asyncio.sleep(1.0)
    scene.proxy.down.rate = scene.proxy.up.rate = 0


async def _several(scene: Scene) -> None:
    """A slow line that is cut in both directions while the server dies, stands still or loses its connections."""
    scene.proxy.up.delay = scene.proxy.down.delay = scene.draw.random() * 0.02
    scene.proxy.up.cut_after(scene.draw.randrange(1, 20_000))
    scene.proxy.down.cut_at(b'"stream":"CONCH"', scene.draw.randrange(1, 20))
    await scene.draw.choice((_ended(signal.SIGKILL), _ended(signal.SIGTERM), _stands_still, _reset))(scene)
    await _until(lambda: not (scene.proxy.up.armed or scene.proxy.down.armed))
    scene.proxy.up.delay = scene.proxy.down.delay = 0.0


def _up(proxy: Proxy) -> Way:
    return proxy.up


def _down(proxy: Proxy) -> Way:
    return proxy.down


FAULTS = [
    (1.0, under_load("server restarted", _ended(signal.SIGTERM))),
    (1.0, under_load("server killed", _ended(signal.SIGKILL))),
    (0.5, under_load("server stopped for a moment (SIGSTOP, SIGCONT)", _stands_still)),
    (0.1, under_load("server stopped until given up", _stands_still_for_long)),
    (1.5, under_load("connections reset", _reset)),
    (1.5, under_load("connection cut inside an event", _cut_in_an_event)),
    (1.5, under_load("connection cut inside an acknowledgement", _cut_at(_down, b'"stream":"CONCH"', 20))),
    (0.25, under_load("connection cut while a place is written", _cut_at(_up, b"$KV.conch.", 2))),
    (0.1, under_load("black hole, both ways", _black_hole(_up, _down))),
    (0.1, under_load("black hole, to the server", _black_hole(_up))),
    (0.1, under_load("black hole, from the server", _black_hole(_down))),
    (0.25, under_load("line of 100 KB/s for a second", _thin_line)),
    (1.0, under_load("several of these at once", _several)),
]
"""Share of the usual number of times, and the fault: some take seconds each."""
