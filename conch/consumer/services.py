"""The interface of services: consumers that read the stream themselves and keep their own position (store, metrics)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from conch_schemas import Event

if TYPE_CHECKING:  # a program that only declares rules and consumers needs neither bus nor settings
    from conch.bus import Bus, SharedSubscription
    from conch.config import Settings
    from conch.consumer.group import Membership
    from conch.consumer.runtime.output import ConsumerCounts
    from conch.processes import ConsumerReport


@dataclass(frozen=True)
class ServiceContext:
    """What a service is given at its start: bus, home, settings and where to begin."""

    settings: Settings
    home: Path
    """The home directory."""
    report: Callable[[ConsumerReport], None] = lambda _: None
    """Tells the run: `ConsumerWaits` what a service waits for outside, `ConsumerNote` what a person should know."""
    begin: int = 0
    """Sequence of the weight set in force: a new scorer begins behind it."""
    since: int | None = None
    """The end of the stream when the run began: a service without a position that must see the whole run begins behind
    it. None: not the first start of these consumers in the run, or no run; the service then begins at the end of the
    stream."""
    instance: str = ""
    """The key of this instance, for a consumer declared with `instances`; else ""."""
    members: Membership | None = None
    """The worker processes that are alive on the bus, for a service that shares its agents with those beside it; None
    where it is made without a bus."""


class Service(Protocol):
    """Anything that reads events and keeps its own position."""

    name: str

    @property
    def tally(self) -> ConsumerCounts:
        """Its counts since it started."""
        ...

    async def run(self, shared_events: SharedSubscription, stop: asyncio.Event) -> None:
        """Read `shared_events` until `stop` is set; then finish the events in hand and store the position.

        Cancelled: return at once; unfinished events are delivered again.
        """
        ...

    @property
    def handled(self) -> int | None:
        """Every event up to this sequence is handled, and what follows is published; None: this service need not be
        waited for."""
        ...

    @property
    def busy(self) -> bool:
        """Whether something waits for its time (a deadline) though everything is handled."""
        ...


@dataclass(frozen=True)
class ServiceDeclaration:
    """A service as declared by `@service`."""

    name: str
    """One token."""
    make: Callable[[ServiceContext], Service]
    emits: tuple[type[Event], ...] = ()
    """The events it publishes, beside dead letters."""
    serves: tuple[str, ...] = ()
    """Subjects on which it answers requests."""
    keeps_position: bool = True
    """Whether one copy of it may run at a time. False: it begins at the end of the stream, and several may run."""
    enabled_by: tuple[str, ...] = ()

    def bind(self, context: ServiceContext) -> Service:
        """The service with these settings. Raises what making it raises."""
        return self.make(context)


@runtime_checkable
class RetryingService(Protocol):
    """A service that can handle the event of a dead letter once more."""

    async def retry_alone(self, bus: Bus, seq: int) -> None:
        """Handle the event at this sequence, while the service does not run. Raises what is wrong with it."""
        ...


@runtime_checkable
class ExporterService(Protocol):
    """A service that exports figures to an outside system."""

    tallies: Callable[[], Mapping[str, ConsumerCounts]]
    """The counts of the consumers in the same process; set by the host."""

    @property
    def address(self) -> str | None:
        """The address at which it listens, once it does."""
        ...


class DisplayService(Protocol):
    """A service that shows a home to people: with a bus, and without one."""

    @property
    def address(self) -> str | None:
        """`http://host:port` where it listens, while it serves."""
        ...

    def serving(self) -> AbstractAsyncContextManager[None]:
        """Listens while entered. Raises ConchError when the named port cannot be had."""
        ...

    async def show(self, shared_events: SharedSubscription, stop: asyncio.Event) -> None:
        """Show this bus until `stop` is set. Raises BusError when it refuses the reading."""
        ...

    def say(self, state: str) -> None:
        """Tell in a sentence why no bus is followed, while none is; empty: no run is in progress."""
        ...
