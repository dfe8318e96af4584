"""What a cluster's servers answer while they elect a leader: refused for now, on its way, nothing at all."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import OutgoingMessage, Stored
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus, publisher
from conch.bus.jetstream.connection import ServerRefusalError
from conch.bus.jetstream.publisher import Publisher
from conch.errors import FencedError
from tests.conftest import TOKEN

if TYPE_CHECKING:
    from conch.bus.server import EmbeddedServer
    from tests.conftest import Until


SENT = re.compile(rb"HPUB (\S+) in\.(\d+) \d+ \d+\r\nNATS/1\.0\r\n.*?\r\n\r\n(\w+)\r\n", re.DOTALL)
NOBODY = b"NATS/1.0 503\r\n\r\n"
IN_PROCESS = b'{"error":{"code":409,"err_code":10158,"description":"duplicate message id is in process"}}'

pytestmark = pytest.mark.usefixtures("_quick")


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "REPLY_TIMEOUT", 0.2)
    monkeypatch.setattr(publisher, "SILENCE", 0.02)


class Line:
    """A connection whose server is the test."""

    inbox, connected = b"in.", True

    def __init__(self) -> None:
        self.on_loss: set[Any] = set()
        self.on_reconnect: set[Any] = set()
        self.on_denied: set[Any] = set()
        self.acknowledged: Callable[[bytes, bytes, bytes], None]
        self.sent: list[str] = []
        self._tokens: dict[str, list[bytes]] = {}

    def admit(self, subject: str, size: int) -> None:
        """Everything."""

    def write(self, frames: bytes) -> None:
        """Take note."""
        for _, token, data in SENT.findall(frames):
            self.sent.append(data.decode())
            self._tokens.setdefault(data.decode(), []).append(token)

    def answer(self, name: str, data: bytes = b"", header: bytes = b"", attempt: int = -1) -> None:
        """To the latest try of this event, or to another."""
        self.acknowledged(self._tokens[name][attempt], header, data)

    def store(self, name: str, seq: int, attempt: int = -1) -> None:
        """It stands there now."""
        self.answer(name, b'{"stream":"CONCH","seq":%d}' % seq, attempt=attempt)


@pytest.fixture
async def line() -> Line:
    """To the test."""
    return Line()


async def _end() -> int:
    """The stream has lost nothing."""
    return sys.maxsize


@pytest.fixture
async def publish(line: Line) -> AsyncIterator[Callable[[str], asyncio.Task[Sequence[Stored]]]]:
    """Publish an event with this content."""
    made = Publisher(line, "CONCH", group=False, find=None, last=_end)  # type: ignore[arg-type]
    made.start()
    yield lambda name: asyncio.create_task(made.publish([OutgoingMessage("conch.v1.echo.x.y", name.encode(), name)]))
    made.close()


async def test_what_is_refused_for_now_does_not_overtake_what_is_unanswered(
    line: Line, publish: Callable[[str], asyncio.Task[Sequence[Stored]]], until: Until
) -> None:
    """The stream's leader died with the first, the second found nobody: they are sent again together, in order."""
    first, second = publish("first"), publish("second")
    await until(lambda: line.sent)
    line.answer("second", header=NOBODY)

    await until(lambda: len(line.sent) >= 4)
    line.store("first", 1)
    line.store("second", 2)

    assert line.sent == ["first", "second", "first", "second"]
    assert [(await first)[0].seq, (await second)[0].seq] == [1, 2]


async def test_nothing_overtakes_what_has_been_unanswered_for_long(
    line: Line, publish: Callable[[str], asyncio.Task[Sequence[Stored]]], until: Until
) -> None:
    """There may be a new leader, who never heard of it."""
    first = publish("first")
    await until(lambda: line.sent == ["first"])
    await asyncio.wait([first], timeout=0.03)
    second = publish("second")

    await until(lambda: len(line.sent) >= 3)
    line.store("first", 1)
    line.store("second", 2)

    assert line.sent == ["first", "first", "second"]
    await asyncio.gather(first, second)


async def test_a_try_that_was_given_up_is_good_for_its_answer(
    line: Line, publish: Callable[[str], asyncio.Task[Sequence[Stored]]], until: Until
) -> None:
    """A flooded server answers the first try after the second was sent: neither is waited for any longer."""
    first = publish("first")
    await until(lambda: len(line.sent) >= 2)
    await asyncio.wait([first], timeout=0.03)
    tries = len(line.sent)
    line.answer("first", IN_PROCESS, attempt=0)
    line.store("first", 7, attempt=0)

    async with asyncio.timeout(30):
        assert await first == [Stored(7, False)]
    second = publish("second")
    for _ in range(5):  # turns of the loop, in which it is sent
        await asyncio.sleep(0)
    assert line.sent[tries:] == ["second"]
    line.store("second", 8)
    assert await second == [Stored(8, False)]


async def test_an_event_that_is_on_its_way_is_asked_for_again(
    line: Line, publish: Callable[[str], asyncio.Task[Sequence[Stored]]], until: Until
) -> None:
    """An earlier try of it may be stored yet, or never: that is no refusal."""
    publishing = publish("event")
    await until(lambda: line.sent == ["event"])
    line.answer("event", IN_PROCESS)
    await until(lambda: line.sent == ["event", "event"])
    line.answer("event", b'{"stream":"CONCH","seq":7,"duplicate":true}')

    assert await publishing == [Stored(7, True)]


@pytest.mark.parametrize("written", [False, True], ids=["ours on its way", "another's"])
async def test_a_write_that_is_on_its_way_is_no_fence(
    written: bool, nats_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server counts it already, and it may be our own, of which the answer was lost: what stands there tells."""
    async with JetStreamBus(Access(nats_server.url, token=TOKEN)) as bus:
        first = await bus.put("a/key", b"1", revision=0)
        if written:
            await bus.put("a/key", b"another's", revision=first)
        refuse_once(bus, monkeypatch)

        if written:
            with pytest.raises(FencedError):
                await bus.put("a/key", b"2", revision=first)
        else:
            await bus.put("a/key", b"2", revision=first)

        entry = await bus.get("a/key")
        assert entry is not None
        assert entry.value == (b"another's" if written else b"2")


def refuse_once(bus: JetStreamBus, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next write to the bucket meets one that is under way."""
    connection = bus._connection
    ask, refusals = connection.ask, [ServerRefusalError("wrong last sequence", 10164)]

    async def answer(subject: str, data: bytes, **more: Any) -> Any:
        if subject.startswith("$KV.") and refusals:
            raise refusals.pop()
        return await ask(subject, data, **more)

    monkeypatch.setattr(connection, "ask", answer)
