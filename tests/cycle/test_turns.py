"""What is said while the agent's facts are not stored: once, by its cause, and when it is over."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

import pytest

from conch.bus import MemoryBus, MemoryJournal, SharedSubscription
from conch.cycle.control import Control
from conch.cycle.hosting import publish_watch as turns_module
from conch.cycle.hosting.publish_watch import FLOOD, PublishWatch


class Bus(MemoryBus):
    """One whose connection the test makes and breaks."""

    there, why = True, ""

    @property
    def connected(self) -> bool:
        return self.there

    @property
    def refusal(self) -> str:
        return self.why


class Waiting:
    """An agent's turns, and what was said of them."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []
        self.bus = Bus(MemoryJournal())
        self.shared_events = SharedSubscription(self.bus, 0)
        self.turns = PublishWatch(
            self.shared_events, control := Control(lambda state, why: self.said.append((state, why)))
        )
        control.running()
        self.said.clear()

    async def store(self, others: int = 0, *, looks: int = 3) -> None:
        """One fact, while so many of others are stored."""
        with self.turns.waiting():
            self.shared_events.seq += others
            for _ in range(looks):
                await asyncio.sleep(0)

    @property
    def states(self) -> list[str]:
        """What was said, without the sentences."""
        return [state for state, _ in self.said]


@pytest.fixture
async def waiting(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    """A fact is looked at in each turn of the loop; no fact is silent or slow by the clock."""
    monkeypatch.setattr(turns_module, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(turns_module, "SILENCE_SECONDS", inf)
    monkeypatch.setattr(turns_module, "QUICK_SECONDS", inf)
    return Waiting()


async def test_a_flood_is_said_once_and_over_after_a_calm(waiting: Waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts that are quick between two bursts end nothing; nor is what was said repeated."""
    monkeypatch.setattr(turns_module, "QUICK_SECONDS", -inf)
    monkeypatch.setattr(turns_module, "CALM_SECONDS", 0.001)
    for _ in range(3):
        await waiting.store(FLOOD)
        await waiting.store()
    waiting.turns._look(9.0, -FLOOD)  # with another figure
    assert waiting.states == ["bus"]
    assert "behind hundreds of others" in waiting.said[0][1]

    monkeypatch.setattr(turns_module, "QUICK_SECONDS", inf)
    monkeypatch.setattr(turns_module, "CALM_SECONDS", 0.0)
    await waiting.store()
    assert waiting.states == ["bus", "running"]


async def test_a_few_events_of_others_are_no_flood(waiting: Waiting) -> None:
    """One less than a flood, and nothing is said; nor where many come one after another."""
    for _ in range(3):
        await waiting.store(FLOOD - 1)
    assert waiting.said == []


async def test_a_disk_that_stores_nothing_is_another_thing_than_a_flood(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said as that, and over with the first fact that is stored."""
    monkeypatch.setattr(turns_module, "SILENCE_SECONDS", 0.0)
    await waiting.store()
    assert waiting.states == ["bus", "running"]
    assert "disk full" in waiting.said[0][1]


@pytest.mark.parametrize(("why", "says"), [("", "the bus is gone"), ("the token is wrong", "the token is wrong")])
async def test_a_connection_that_goes_meanwhile_is_said_as_that(
    why: str, says: str, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as a full disk, however long it takes; and why the server does not take us back, once that is known."""
    monkeypatch.setattr(turns_module, "SILENCE_SECONDS", 0.0)
    waiting.bus.there = False
    told: Any = None
    with waiting.turns.waiting():
        while not waiting.said:
            await asyncio.sleep(0)
        waiting.bus.why = why
        for _ in range(3):
            await asyncio.sleep(0)
        told = list(waiting.said)
    assert all(state == "bus" and "disk" not in sentence for state, sentence in told)
    assert told[-1][1].startswith(says)
    assert waiting.states[-1] == "running"
