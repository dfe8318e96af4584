"""A consumer that fails at every event: its events go to the dead letters at once, until it recovers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import shared_subscription
from conch.consumer import ConsumerRuntime, ConsumerSpec
from conch.consumer.runtime.breaker import ConsumerBreaker
from conch.processes import ConsumerFailing, ConsumerReport
from conch.retry import Backoff, CircuitBreaker
from conch_schemas import ActionTaken, ConsumerFailed

if TYPE_CHECKING:
    from conch.bus import Bus
    from tests.conftest import MakeAct, Until
    from tests.consumer.conftest import Facts, Publish


class Patient:
    """A consumer whose function raises while it is ill, its breaker's clock, and what the breaker reported."""

    def __init__(self, how: str) -> None:
        self.now, self.ill = 0.0, True
        self.handled: list[int] = []
        self.tried = 0
        self.reports: list[ConsumerReport] = []
        self.breaker = ConsumerBreaker("ill", CircuitBreaker(3, Backoff((5.0,)), lambda: self.now), self.reports.append)
        kinds: dict[str, dict[str, Any]] = {"one by one": {}, "side by side": {"at_once": 1}, "batches": {"batch": 4}}
        handle = self._batch if how == "batches" else self._one
        self.spec = ConsumerSpec("ill", "1", (ActionTaken,), handle, tries=3, **kinds[how])

    def _batch(self, actions: list[ActionTaken]) -> None:
        for action in actions:
            self._one(action)

    def _one(self, action: ActionTaken) -> None:
        self.tried += 1
        if self.ill:
            raise ValueError(f"no cure for {action.cycle}")
        self.handled.append(action.cycle or 0)


@pytest.mark.parametrize("how", ["one by one", "side by side", "batches"])
async def test_a_consumer_that_fails_at_every_event_is_tried_now_and_then_until_it_recovers(
    how: str, bus: Bus, act: MakeAct, publish: Publish, facts: Facts, until: Until
) -> None:
    """Open, events become dead letters without a try; after the wait one is tried, and with a success all go on."""
    patient = Patient(how)
    async with shared_subscription(bus) as shared_events:
        stop = asyncio.Event()
        runtime = ConsumerRuntime(shared_events, patient.spec, backoff=Backoff((0.001,)), breaker=patient.breaker)
        running = asyncio.create_task(runtime.run(stop))
        try:
            for cycle in range(1, 3):
                await publish(bus, act(cycle))
            await until(lambda: runtime.tally.letters == 2)
            tried = patient.tried
            for cycle in range(3, 9):
                await publish(bus, act(cycle))
            await until(lambda: runtime.tally.letters == 8)
            untried = patient.tried == tried
            patient.now, patient.ill = 6.0, False
            for cycle in range(9, 12):
                await publish(bus, act(cycle))
            await until(lambda: patient.handled == [9, 10, 11])
        finally:
            stop.set()
            await running

    letters = await facts(bus, ConsumerFailed)
    assert untried
    assert [letter.tries for letter in letters][2:] == [0] * 6
    assert all("no cure for" in letter.reason for letter in letters)
    assert "not handled, as the events before it failed: ValueError" in letters[-1].reason
    [failing, recovered] = patient.reports
    assert isinstance(failing, ConsumerFailing)
    assert "ValueError: no cure for" in failing.why
    assert recovered == ConsumerFailing(consumer="ill", why="")


async def test_one_event_that_fails_does_not_open_the_breaker(
    bus: Bus, act: MakeAct, publish: Publish, facts: Facts, until: Until
) -> None:
    """It becomes a dead letter after all its tries, and the event after it is handled."""
    patient = Patient("one by one")
    async with shared_subscription(bus) as shared_events:
        stop = asyncio.Event()
        runtime = ConsumerRuntime(shared_events, patient.spec, backoff=Backoff((0.001,)), breaker=patient.breaker)
        running = asyncio.create_task(runtime.run(stop))
        try:
            await publish(bus, act(1))
            await until(lambda: runtime.tally.letters == 1)
            patient.ill = False
            await publish(bus, act(2))
            await until(lambda: patient.handled == [2])
        finally:
            stop.set()
            await running

    [letter] = await facts(bus, ConsumerFailed)
    assert (letter.tries, patient.reports) == (3, [])
