"""A reader of the stream: overlapping pull requests on an ordered, ephemeral JetStream consumer.

There are no acknowledgements: each consumer keeps its own position in the bucket. After every reconnect the server's
consumer is made again, right after the last event received. That keeps the order across every failure.

A server closes the connection of a client that reads more slowly than it sends, and what was in flight is lost: with
pulls of the same size, that would repeat for ever. So a connection that broke before a pull was complete halves the
size of the next ones, and each complete pull lets them grow by a quarter.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, Self

from nats.aio.subscription import Subscription

from conch.bus.jetstream.connection import Connection, LostReplyError, ServerRefusalError
from conch.bus.jetstream.names import EPOCH
from conch.bus.jetstream.wire import frame, read_headers
from conch.bus.protocol import Delivery
from conch.errors import BusError
from conch.log import get_logger
from conch_schemas import JsonObject

log = get_logger(__name__)

BATCH = 512
"""Events that one pull asks for; two pulls overlap."""
HEARTBEAT = 2.0
"""Seconds between the server's heartbeats on an idle pull; after three without one the reader is made again: in a
cluster, the server that it was on has died."""
_SECOND = 1_000_000_000
_NO_STREAM = 10059
LOOKS, LOOK_SECONDS = 10, 0.5
"""How often, and how many seconds apart, the stream is checked for what was read from it."""
_SUBJECTS = 4096
"""Subjects whose text is cached: nearly every event has one that was seen before."""
MOST_BYTES, LEAST_BYTES = 16 * 1024 * 1024, 64 * 1024
"""Limits of a pull's size in bytes; any event fits the larger one."""
_TO_ITS_END = {"batch": BATCH, "no_wait": True}
_FOR_A_WHILE = {"batch": BATCH, "expires": 60 * _SECOND, "idle_heartbeat": int(HEARTBEAT * _SECOND)}


class PullReader:
    """A pull reader; see `conch.bus.protocol.Reader`. `ends`: at the stream's end `get` returns nothing at once."""

    def __init__(
        self,
        connection: Connection,
        stream: str,
        filters: Sequence[str],
        after: int,
        *,
        ends: bool = False,
    ) -> None:
        self._connection, self._stream, self._filters = connection, stream, list(filters)
        self._last = after
        self._ends = ends
        self._name = self._inbox = self._identity = ""
        self._end = 0
        self._ready: deque[Delivery] = deque()
        self._subjects: dict[bytes, str] = {}
        self._next = ""
        """The subject that the next pull request goes to."""
        self._pulls: dict[str, int] = {}
        self._pull_count = 0
        self._bytes = MOST_BYTES
        """Size of the next pull, in bytes."""
        self._expected = 1
        self._heard = 0.0
        self._wake = asyncio.Event()
        self._broken = self._ended = False
        self._subscription: Subscription | None = None

    async def __aenter__(self) -> Self:
        self._connection.on_reconnect.add(self._cut)
        try:
            if not self._ends:
                self._identity = await self._looked_up()
            await self._make()
        except BaseException:
            self._connection.on_reconnect.discard(self._cut)
            await self._unsubscribe()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._connection.on_reconnect.discard(self._cut)
        await self._unsubscribe()
        if self._name and self._connection.connected:
            try:
                await self._connection.ask(f"$JS.API.CONSUMER.DELETE.{self._stream}.{self._name}", b"", timeout=1)
            except (LostReplyError, ServerRefusalError):
                log.debug("bus.ephemeral_left", name=self._name)  # the server drops it after its inactive threshold

    async def get(self, most: int = BATCH) -> Sequence[Delivery]:
        """The next events; see the protocol. Raises BusError when the stream is gone or another one."""
        while True:
            self._wake.clear()  # before anything is checked: an event that comes meanwhile wakes it again
            if self._broken:
                await self._make_again()
            if self._ready:
                found = [self._ready.popleft() for _ in range(min(most, len(self._ready)))]
                self._pull()
                return found
            self._pull()
            if self._ended:
                self._ended = False  # the next call checks again
                return ()
            if not self._broken:
                await self._sign()

    async def _sign(self) -> None:
        """Wait until something came, or for one heartbeat."""
        try:
            async with asyncio.timeout(HEARTBEAT):
                await self._wake.wait()
        except TimeoutError:
            silent = asyncio.get_running_loop().time() - self._heard
            if self._connection.connected and silent > 3 * HEARTBEAT:
                log.warning("bus.reader_silent", name=self._name)
                self._broken = True

    def _cut(self) -> None:
        """After a reconnect: the size of the pulls may have been too much for the connection."""
        if self._pulls:
            self._bytes = max(LEAST_BYTES, self._bytes // 2)
        self._break()

    def _served(self, number: str) -> None:
        """End that pull. A second call does nothing."""
        if self._pulls.pop(number, None) is not None:
            self._bytes = min(MOST_BYTES, self._bytes + self._bytes // 4)

    def _break(self) -> None:
        self._broken = True
        self._wake.set()

    async def _unsubscribe(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await self._connection.unsubscribe(subscription)

    async def _make_again(self) -> None:
        """Make the consumer again, after a reconnect or a gap."""
        self._broken = False
        if not self._ends:
            await self._refuse_another_stream()
        await self._make()

    async def _refuse_another_stream(self) -> None:
        """Raises BusError where the stream is gone, replaced, or has lost what was read, as later events would be
        skipped. A newly elected leader may take a while to know all that it has."""
        for _ in range(LOOKS):
            if await self._looked_up() != self._identity:
                break
            if self._end >= self._last:
                return
            await asyncio.sleep(LOOK_SECONDS)
        raise BusError(
            f"the stream {self._stream} was made anew, or has lost its end, while it was read (up to {self._last}; it "
            f"ends at {self._end}): start again, the start sorts out what is to be read"
        )

    async def _looked_up(self) -> str:
        """The stream's epoch; sets `_end` to its last sequence. Raises BusError when there is no stream."""
        info = await self._api(f"STREAM.INFO.{self._stream}")
        self._end = info["state"]["last_seq"]
        return str((info["config"].get("metadata") or {}).get(EPOCH, info["created"]))

    async def _make(self) -> None:
        """Make the server's consumer again, from right after the last event received."""
        await self._unsubscribe()
        self._pulls.clear()
        self._inbox = self._connection.client.new_inbox()
        self._broken = self._ended = False
        self._expected = 1
        self._subscription = await self._connection.subscribe(self._inbox + ".*", partial(self._received, self._inbox))
        config: JsonObject = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._last + 1,
            "ack_policy": "none",
            "filter_subjects": self._filters,
            "replay_policy": "instant",
            "inactive_threshold": 60 * _SECOND,
            "mem_storage": True,
            "num_replicas": 1,
        }
        made = await self._api(f"CONSUMER.CREATE.{self._stream}", {"stream_name": self._stream, "config": config})
        self._name = made["name"]
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._name}"
        self._heard = asyncio.get_running_loop().time()
        self._pull()

    async def _api(self, call: str, request: Any = None) -> JsonObject:
        """One API call. Raises BusError where the stream is gone, at any call that finds it so."""
        try:
            return await self._connection.api(call, request)
        except ServerRefusalError as error:
            if error.code != _NO_STREAM:
                raise
            raise BusError(f"the stream {self._stream} is gone: somebody has removed it; start again") from None

    def _pull(self) -> None:
        """Keep two pulls under way, as long as fewer events wait here than one pull brings."""
        while len(self._pulls) < 2 and len(self._ready) < BATCH and not (self._broken or self._ended) and self._inbox:
            self._pull_count += 1
            number = str(self._pull_count)
            reply = f"{self._inbox}.{number}".encode()
            try:
                wish = json.dumps((_TO_ITS_END if self._ends else _FOR_A_WHILE) | {"max_bytes": self._bytes}).encode()
                self._connection.write(frame(self._next, reply, wish))
            except LostReplyError:
                return  # made anew after the reconnect
            self._pulls[number] = BATCH

    def _received(self, inbox: str, subject: bytes, reply: bytes, header: bytes, data: bytes) -> None:
        if inbox != self._inbox:
            return  # from a consumer that has been replaced
        if not reply.startswith(b"$JS.ACK."):
            self._told(subject.rsplit(b".", 1)[-1].decode(), header)
            return
        # $JS.ACK.<stream>.<consumer>.<tries>.<stream seq>.<consumer seq>.<time>.<pending>, or with
        # <domain>.<account> before the stream and a <token> at the end.
        parts = reply.split(b".")
        seq, number, time = parts[7:10] if len(parts) >= 11 else parts[5:8]
        pulls = self._pulls
        if pulls:  # an event has its own subject, not its pull's: the server serves pulls oldest first
            oldest = next(iter(pulls))
            pulls[oldest] -= 1
            if pulls[oldest] <= 0:
                self._served(oldest)
        if int(number) != self._expected:
            log.warning("bus.reader_gap", name=self._name, expected=self._expected, got=int(number))
            self._inbox = ""  # nothing more is taken from this consumer: it is made again
            self._break()
            return
        self._expected += 1
        place = int(seq)
        if place > self._last:  # otherwise delivered before
            self._last = place
            self._ready.append(Delivery(place, self._text(subject), data, int(time) / _SECOND))
        if len(pulls) < 2:
            self._pull()
        self._wake.set()

    def _text(self, subject: bytes) -> str:
        text = self._subjects.get(subject)
        if text is None:
            if len(self._subjects) >= _SUBJECTS:
                self._subjects.clear()
            text = self._subjects[subject] = subject.decode(errors="replace")
        return text

    def _told(self, number: str, header: bytes) -> None:
        """Handle a status message: 100 is a heartbeat, any other ends that pull."""
        self._heard = asyncio.get_running_loop().time()
        status, description, _ = read_headers(header)
        if status == "100":
            return
        self._served(number)
        if status == "404" and self._ends:
            self._ended = True
        elif status not in ("404", "408", "409", "503"):
            log.warning("bus.pull_refused", name=self._name, status=status, description=description)
        if status == "503" or (status == "409" and ("Shutdown" in description or "Leadership" in description)):
            self._broken = True
        self._wake.set()
