"""`consume`: run a consumer over events on a memory bus, and collect what it published."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from conch.bus import Delivery, MemoryBus, decoded, shared_subscription
from conch.config import Settings
from conch.consumer import ConsumerDeclaration, ConsumerSpec, ServiceContext, bind, spec_of
from conch.consumer.runtime import ConsumerRuntime
from conch.errors import ContractError
from conch.retry import Backoff
from conch.tasks import innermost
from conch_schemas import ConsumerFailed, ContractViolationError, Event, encode, subject_of

E = TypeVar("E", bound=Event)
AT_ONCE = Backoff((0.0,))


@dataclass(frozen=True)
class Consumed:
    """The result of `consume`: the events that a consumer published, and its dead letters.

    ```python
    from conch.testing import Consumed
    from conch_schemas import RewardAssigned

    nothing = Consumed(events=(), failures=())
    assert nothing.of(RewardAssigned) == []
    ```
    """

    events: tuple[Event, ...]
    """Events that it published, in stream order; each event once, also where it was published twice."""
    failures: tuple[ConsumerFailed, ...]
    """Its dead letters: events that it could not handle, each with the reason."""

    def of(self, kind: type[E]) -> list[E]:
        """The published events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


async def consume(consumer: Callable[..., Any], events: Iterable[Event]) -> Consumed:
    """Run a consumer over `events` on a memory bus of its own until all are handled.

    `consumer`: a function that `@consumer` declares, with a state, in batches, sync or async. The runtime is that of a
    run: order, retries (without their waits), dead letters, refusal of facts in another's name. An event that it reads
    and that it publishes itself is handled, too.

    Raises ContractError for a function that is no consumer, and for a published event whose id does not follow from its
    cause: every other consumer would refuse it (`follow` makes them right).

    ```python
    import conch
    from conch.testing import consume, make_action_taken
    from conch_schemas import ActionTaken, RewardAssigned, Score


    @conch.consumer(ActionTaken, version="1")
    def joy(action: ActionTaken) -> RewardAssigned | None:
        if action.cycle == 13:
            raise ValueError("no joy today")
        score = Score(component="joy", value=1.0, range=(0, 1), status="scored", scorer="joy", version="1")
        return conch.follow(action, RewardAssigned, consumer="joy", version="1", scorer="joy", scores=(score,))


    done = await consume(joy, [make_action_taken(cycle=1), make_action_taken(cycle=13)])
    assert [reward.cycle for reward in done.of(RewardAssigned)] == [1]
    assert "no joy today" in done.failures[0].reason
    ```
    """
    if not isinstance(spec_of(consumer), ConsumerDeclaration):
        name = getattr(consumer, "__name__", repr(consumer)[:80])
        raise ContractError(f"{name} is no consumer: declare it with @consumer(...)")
    with TemporaryDirectory(prefix="conch-", ignore_cleanup_errors=True) as home:
        return await _consumed(bind(consumer, ServiceContext(Settings(), Path(home))), events)


async def _consumed(spec: ConsumerSpec, events: Iterable[Event]) -> Consumed:
    async with MemoryBus() as bus:
        for event in events:
            await bus.publish(subject_of(event), encode(event), id=event.id)
        fed = (await bus.state()).last
        await _handled(bus, spec)
        published = [_valid(spec, delivery) for seq, delivery in bus.journal.events.items() if seq > fed]
    return Consumed(
        tuple(event for event in published if not isinstance(event, ConsumerFailed)),
        tuple(event for event in published if isinstance(event, ConsumerFailed)),
    )


def _valid(spec: ConsumerSpec, delivery: Delivery) -> Event:
    try:
        return decoded(delivery.subject, delivery.data)
    except ContractViolationError as error:
        raise ContractError(f"{spec.name} published what every consumer refuses: {error}") from None


async def _handled(bus: MemoryBus, spec: ConsumerSpec) -> None:
    """Run the consumer until everything on the stream is handled, what it published meanwhile included."""
    stop = asyncio.Event()
    try:
        async with shared_subscription(bus) as shared_events, asyncio.TaskGroup() as group:
            runtime = ConsumerRuntime(shared_events, spec, backoff=AT_ONCE)
            running = group.create_task(runtime.run(stop), name=f"conch.{spec.name}")
            while not running.done() and runtime.handled < (await bus.state()).last:  # noqa: ASYNC110 - there is no notification
                await asyncio.sleep(0)
            stop.set()
    except BaseExceptionGroup as failed:
        raise innermost(failed) from None
    finally:
        if spec.close is not None:
            await spec.close()
