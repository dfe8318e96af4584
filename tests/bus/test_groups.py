"""What is published by many at once under strict durability is sent in one group."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import OutgoingMessage
from conch.bus.jetstream import publisher
from conch.bus.jetstream.publisher import FEW, FEW_IN_FLIGHT, STILL_TURNS, Publisher

if TYPE_CHECKING:
    from tests.conftest import Until

EACH_TURN, TURNS = 10, 6


class Line:
    """A connection that counts the messages of each write."""

    inbox, connected = b"in.", True

    def __init__(self) -> None:
        self.on_loss: set[Any] = set()
        self.on_reconnect: set[Any] = set()
        self.on_denied: set[Any] = set()
        self.acknowledged: Callable[[bytes, bytes, bytes], None]
        self.writes: list[int] = []

    def admit(self, subject: str, size: int) -> None:
        """Everything."""

    def write(self, frames: bytes) -> None:
        """Take note."""
        self.writes.append(frames.count(b"HPUB "))


@pytest.fixture
async def line() -> Line:
    """To nobody."""
    return Line()


@pytest.fixture
async def submit(line: Line) -> AsyncIterator[Callable[[int, int], None]]:
    """Publish so many events in each of so many turns of the event loop."""

    async def end() -> int:
        return sys.maxsize

    made = Publisher(line, "CONCH", group=True, find=None, last=end)  # type: ignore[arg-type]
    made.start()

    async def publish(turn: int, name: str) -> None:
        for _ in range(turn):
            await asyncio.sleep(0)
        await made.publish([OutgoingMessage("conch.v1.echo.x.y", b"{}", name)])

    tasks: list[asyncio.Task[None]] = []

    def begin(each: int, turns: int) -> None:
        tasks.extend(
            asyncio.create_task(publish(turn, f"{turn}.{number}")) for turn in range(turns) for number in range(each)
        )

    yield begin
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    made.close()


async def test_what_follows_turn_by_turn_goes_in_one_group(
    line: Line, submit: Callable[[int, int], None], until: Until
) -> None:
    """Sixty events that are published in six turns of the loop are one batch, which the server syncs as one."""
    submit(EACH_TURN, TURNS)
    await until(lambda: line.writes)
    assert line.writes == [EACH_TURN * TURNS]


async def test_an_event_alone_is_sent_within_a_few_turns(line: Line, submit: Callable[[int, int], None]) -> None:
    """A cycle of one agent waits for nobody else's."""
    submit(1, 1)
    for _ in range(STILL_TURNS + 3):
        await asyncio.sleep(0)
    assert line.writes == [1]


@pytest.mark.parametrize(("limit", "value", "sent"), [("FULL_GROUP", 20, 20), ("GATHER_SECONDS", 0.0, EACH_TURN)])
async def test_a_group_is_sent_when_it_is_full_or_late(
    line: Line,
    submit: Callable[[int, int], None],
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    value: float,
    sent: int,
) -> None:
    """Where more and more comes, what waits goes on its way all the same."""
    monkeypatch.setattr(publisher, limit, value)
    submit(EACH_TURN, TURNS)
    await until(lambda: line.writes)
    assert line.writes[0] == sent


async def test_a_single_event_does_not_wait_for_others(line: Line, submit: Callable[[int, int], None]) -> None:
    """It is written in the turn after the one in which it was published."""
    submit(1, 1)
    for _ in range(2):
        await asyncio.sleep(0)

    assert line.writes == [1]


async def test_a_few_do_not_wait_for_the_acknowledgements_of_a_few(
    line: Line, submit: Callable[[int, int], None], until: Until
) -> None:
    """One agent's marks hold up no score of its act; beyond FEW_IN_FLIGHT what comes waits for a group."""
    for sent in ([FEW], [FEW, FEW_IN_FLIGHT - FEW]):
        submit(sent[-1], 1)
        await until(lambda: len(line.writes) == len(sent))  # noqa: B023 - it is awaited here
    assert line.writes == [FEW, FEW_IN_FLIGHT - FEW]

    submit(1, 1)
    for _ in range(STILL_TURNS + 5):
        await asyncio.sleep(0)
    assert len(line.writes) == 2
