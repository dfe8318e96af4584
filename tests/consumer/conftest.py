"""Consumers to run, and running them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from pydantic import BaseModel

from conch.bus import Bus, SharedSubscription, shared_subscription
from conch.consumer import ConsumerRuntime, ConsumerSpec, follow
from conch.consumer.runtime import loop as run_module
from conch.consumer.runtime.state import state_key
from conch.retry import Backoff
from conch_schemas import ActionTaken, CycleReflected, Event, decode, encode, subject_filter, subject_of


@pytest.fixture(autouse=True)
def quick_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions and states are written all the time."""
    monkeypatch.setattr(run_module, "SNAPSHOT_SECONDS", 0.005)


class Seen(BaseModel):
    """A fold's state: every cycle that it has seen, in order."""

    cycles: tuple[int, ...] = ()


def count(state: Seen, action: ActionTaken) -> tuple[Seen, Event]:
    """Say how many acts there were."""
    after = Seen(cycles=(*state.cycles, action.cycle or 0))
    said = follow(
        action, CycleReflected, consumer="count", version="1", reflection=str(len(after.cycles)), sleep=0.0, ms=0.0
    )
    return after, said


class Alone(ConsumerRuntime):
    """A runtime with a feed of its own."""

    def __init__(self, bus: Any, spec: ConsumerSpec) -> None:
        super().__init__(SharedSubscription(bus, 0), spec)

    async def run(self, stop: asyncio.Event) -> None:
        async with shared_subscription(self._bus) as self._shared_events:
            await super().run(stop)


async def seen(bus: Any, agent: str = "echo") -> list[int]:
    """What stands in the fold's snapshot."""
    entry = await bus.get(state_key("count", agent))
    return list(json.loads(entry.value)["state"]["cycles"]) if entry is not None and entry.value else []


async def has(bus: Any, count: int) -> bool:
    """Whether so many cycles stand there."""
    return len(await seen(bus)) >= count


@pytest.fixture
def fold() -> Callable[..., ConsumerSpec]:
    """Make the fold `count`; `handle` stands in for its function."""

    def make(handle: Callable[..., Any] = count, **parts: Any) -> ConsumerSpec:
        plain: dict[str, Any] = {"state": Seen, "initial": Seen, "emits": (CycleReflected,), "tries": 3}
        return ConsumerSpec("count", "1", (ActionTaken,), handle, **{**plain, **parts})

    return make


@pytest.fixture
def counting() -> Callable[..., Any]:
    """The fold's function."""
    return count


@pytest.fixture(params=["at once", "waiting"])
def pace(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """A fold's function as it is, and as one that is waited for, as a rule's is."""

    def paced(handle: Callable[..., Any] = count) -> Callable[..., Any]:
        async def waiting(state: Any, event: Event) -> Any:
            await asyncio.sleep(0.001)
            return handle(state, event)

        return handle if request.param == "at once" else waiting

    return paced


Run = Callable[..., AbstractAsyncContextManager[ConsumerRuntime]]


@pytest.fixture
def run() -> Run:
    """`async with run(bus, spec) as runtime`: it runs; leaving stops it in order."""

    @asynccontextmanager
    async def running(bus: Bus, spec: ConsumerSpec, retry: float = 0.001) -> AsyncIterator[ConsumerRuntime]:
        async with shared_subscription(bus) as shared_events:
            stop, runtime = asyncio.Event(), ConsumerRuntime(shared_events, spec, backoff=Backoff((retry,)))
            task = asyncio.create_task(runtime.run(stop))
            try:
                yield runtime
                stop.set()
                async with asyncio.timeout(30):
                    await task
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    return running


@pytest.fixture
def publish() -> Callable[..., Any]:
    """`await publish(bus, event)`: its place."""

    async def put(bus: Bus, event: Event) -> int:
        return (await bus.publish(subject_of(event), encode(event), id=event.id)).seq

    return put


@pytest.fixture
def facts() -> Callable[..., Any]:
    """`await facts(bus, kind)`: all events of a kind, in stream order."""

    async def read(bus: Bus, kind: type[Event], agent: str = "*") -> list[Any]:
        return [decode(delivery.data) async for delivery in bus.read([subject_filter(kind, agent)])]

    return read
