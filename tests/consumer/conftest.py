"""Consumers to run, and running them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeVar

import pytest
from pydantic import BaseModel

from conch.bus import Bus, SharedSubscription, shared_subscription
from conch.bus.checkpoints import state_key
from conch.consumer import ConsumerRuntime, ConsumerSpec, follow
from conch.consumer.runtime import snapshots
from conch.retry import Backoff
from conch_schemas import ActionTaken, CycleReflected, Event, decode, encode, subject_filter, subject_of


@pytest.fixture(autouse=True)
def quick_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions and states are written all the time."""
    monkeypatch.setattr(snapshots, "SNAPSHOT_SECONDS", 0.005)


E = TypeVar("E", bound=Event)
Handle = Callable[..., Any]
"""A consumer's function: of an event, or of a state and an event."""


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

    def __init__(self, bus: Bus, spec: ConsumerSpec) -> None:
        super().__init__(SharedSubscription(bus, 0), spec)

    async def run(self, stop: asyncio.Event) -> None:
        async with shared_subscription(self._bus) as self._shared_events:
            await super().run(stop)


async def seen(bus: Bus, agent: str = "echo") -> list[int]:
    """What stands in the fold's snapshot."""
    entry = await bus.get(state_key("count", agent))
    return list(json.loads(entry.value)["state"]["cycles"]) if entry is not None and entry.value else []


async def has(bus: Bus, count: int) -> bool:
    """Whether so many cycles stand there."""
    return len(await seen(bus)) >= count


class MakeFold(Protocol):
    """Makes specifications of the fold `count`."""

    def __call__(self, handle: Handle = count, **parts: Any) -> ConsumerSpec:
        """`handle` in place of its function; keywords replace parts of the specification."""


class Pace(Protocol):
    """Gives a handler its pace."""

    def __call__(self, handle: Handle = count) -> Handle:
        """The handler as it is, or as a coroutine function that waits first."""


class Run(Protocol):
    """Runs consumers."""

    def __call__(
        self, bus: Bus, spec: ConsumerSpec, retry: float = 0.001
    ) -> AbstractAsyncContextManager[ConsumerRuntime]:
        """Run the consumer on the bus while entered; a delivery that failed is tried again after `retry` seconds."""


class Publish(Protocol):
    """Publishes an event."""

    async def __call__(self, bus: Bus, event: Event) -> int:
        """Its position in the stream."""


class Facts(Protocol):
    """Reads events of one type."""

    async def __call__(self, bus: Bus, kind: type[E], agent: str = "*") -> list[E]:
        """All of them on the stream, in its order."""


@pytest.fixture
def fold() -> MakeFold:
    """Make the fold `count`; `handle` stands in for its function."""

    def make(handle: Handle = count, **parts: Any) -> ConsumerSpec:
        plain: dict[str, Any] = {"state": Seen, "initial": Seen, "emits": (CycleReflected,), "tries": 3}
        return ConsumerSpec("count", "1", (ActionTaken,), handle, **{**plain, **parts})

    return make


@pytest.fixture
def counting() -> Handle:
    """The fold's function."""
    return count


@pytest.fixture(params=["at once", "waiting"])
def pace(request: pytest.FixtureRequest) -> Pace:
    """A fold's function as it is, and as one that is waited for, as a rule's is."""

    def paced(handle: Handle = count) -> Handle:
        async def waiting(state: Any, event: Event) -> Any:
            await asyncio.sleep(0.001)
            return handle(state, event)

        return handle if request.param == "at once" else waiting

    return paced


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
def publish() -> Publish:
    """`await publish(bus, event)`: its place."""

    async def put(bus: Bus, event: Event) -> int:
        return (await bus.publish(subject_of(event), encode(event), id=event.id)).seq

    return put


@pytest.fixture
def facts() -> Facts:
    """`await facts(bus, kind)`: all events of a kind, in stream order."""

    async def read(bus: Bus, kind: type[E], agent: str = "*") -> list[E]:
        events = [decode(delivery.data) async for delivery in bus.read([subject_filter(kind, agent)])]
        return [event for event in events if isinstance(event, kind)]

    return read
