"""A reader: overlapping pulls through a callback, cumulative acknowledgement, re-made where it is lost.

The server's own acknowledged place may lag (it is written lazily) and a durable's unacknowledged events would come
back after the new ones; so on entry and after every reconnect the durable is made anew, right behind what was
acknowledged last, and what was handed out since is left out. That keeps the order, whatever died.

A server hangs up on a client that takes more slowly than it sends, and what was on its way is lost: asked for as much
again, it would do so for ever. So a connection that went before a pull was served halves what the next ones ask for,
and each one that is served lets them grow by a quarter.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import structlog
from nats.aio.subscription import Subscription

from conch.bus.jetstream.connection import Connection, LostReplyError, ServerRefusalError
from conch.bus.jetstream.wire import frame, read_headers
from conch.bus.protocol import Delivery
from conch.errors import BusError, FencedError
from conch.retry import BUS_DURABLE

log = structlog.get_logger(__name__)

BATCH = 512
"""Events a pull asks for; two pulls overlap."""
HEARTBEAT = 2.0
"""Seconds between the server's signs of life on an idle pull; silent for three of them, the reader is made anew: of a
cluster, the server that it was on has died."""
_SECOND = 1_000_000_000
_NO_CONSUMER, _NO_STREAM = 10014, 10059
EPOCH = "conch-epoch"
"""Metadata key of the stream, and key of the bucket: its identity."""
LOOKS, LOOK_SECONDS = 10, 0.5
"""How often, and how far apart, is looked whether the stream has what was read from it."""
_SUBJECTS = 4096
"""Subjects whose text is kept: nearly every event has one that was met before."""
_HOLDER = "conch-holder"
"""Metadata key: which reader made the durable. One that comes back and finds another's is fenced."""


MOST_BYTES, LEAST_BYTES = 16 * 1024 * 1024, 64 * 1024
"""Between them is what a pull asks for; any event fits the larger one."""
_TO_ITS_END = {"batch": BATCH, "no_wait": True}
_FOR_A_WHILE = {"batch": BATCH, "expires": 60 * _SECOND, "idle_heartbeat": int(HEARTBEAT * _SECOND)}


class PullReader:
    """See `conch.bus.protocol.Reader`. `durable` None: an ephemeral one, without acknowledgements. `ends`: an ephemeral
    one whose `get` returns nothing at the end of the stream, instead of waiting."""

    def __init__(
        self,
        connection: Connection,
        stream: str,
        durable: str | None,
        filters: Sequence[str],
        after: int,
        *,
        ends: bool = False,
    ) -> None:
        self._connection, self._stream, self._durable, self._filters = connection, stream, durable, list(filters)
        self._last = self._acked = after
        self._ends = ends
        self._holder = uuid.uuid4().hex
        self._name = self._inbox = self._identity = ""
        self._end = 0
        self._ready: deque[Delivery] = deque()
        self._acks: deque[tuple[int, bytes]] = deque()
        self._subjects: dict[bytes, str] = {}
        self._next = ""
        """Where the next pull is asked for."""
        self._pulls: dict[str, int] = {}
        self._pull_count = 0
        self._bytes = MOST_BYTES
        """Which the next pull asks for."""
        self._expected = 1
        self._heard = 0.0
        self._wake = asyncio.Event()
        self._broken = self._fenced = self._ended = False
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
        if self._durable is None and self._name and self._connection.connected:
            try:
                await self._connection.ask(f"$JS.API.CONSUMER.DELETE.{self._stream}.{self._name}", b"", timeout=1)
            except (LostReplyError, ServerRefusalError):
                log.debug("bus.ephemeral_left", name=self._name)  # the server drops it after its inactive threshold

    async def get(self, most: int = BATCH) -> Sequence[Delivery]:
        """The next events; see the protocol. Raises FencedError when another reader took the name over, BusError when
        the stream is gone or another one."""
        while True:
            self._wake.clear()  # before anything is looked at: what comes meanwhile wakes us again
            if self._fenced:
                await self._refuse_another_stream()  # with a stream its durables go: that is nobody's copy
                raise FencedError(f"another copy of the consumer {self._durable} reads now; this one stops")
            if self._broken:
                await self._make_again()
            if self._ready:
                found = [self._ready.popleft() for _ in range(min(most, len(self._ready)))]
                self._pull()
                return found
            self._pull()
            if self._ended:
                self._ended = False  # asked again, it looks again
                return ()
            if not self._broken and not self._fenced:
                await self._sign()

    async def ack(self, seq: int) -> None:
        """Acknowledge everything up to `seq`; while there is no connection, it is made anew behind it later."""
        self._acked = max(self._acked, seq)
        reply = b""
        while self._acks and self._acks[0][0] <= seq:
            reply = self._acks.popleft()[1]
        if reply:
            self._acknowledge(reply)

    def _acknowledge(self, reply: bytes) -> None:
        try:
            self._connection.write(frame(reply.decode(), b"", b"+ACK"))
        except LostReplyError:
            log.debug("bus.ack_lost", name=self._name)

    async def _sign(self) -> None:
        """Wait until something came, or for a heartbeat's time."""
        try:
            async with asyncio.timeout(HEARTBEAT):
                await self._wake.wait()
        except TimeoutError:
            silent = asyncio.get_running_loop().time() - self._heard
            if self._connection.connected and silent > 3 * HEARTBEAT:
                log.warning("bus.reader_silent", name=self._name)
                self._broken = True

    def _cut(self) -> None:
        """The connection went and is back: what was asked for may have been too much for it."""
        if self._pulls:
            self._bytes = max(LEAST_BYTES, self._bytes // 2)
        self._break()

    def _served(self, number: str) -> None:
        """That pull is over; twice is once."""
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
        """After a reconnect or a gap; a durable that another reader has made since is theirs."""
        self._broken = False
        if not self._ends:
            await self._refuse_another_stream()
        if self._durable is not None and await self._held_by_another():
            self._fenced = True
        else:
            await self._make()

    async def _refuse_another_stream(self) -> None:
        """Raises BusError where the stream is gone, another one, or has lost what was read: what comes next would be
        passed over. A leader that was just elected may take a while to know all that it has."""
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
        """Which stream this is; and where it ends, in `_end`. Raises BusError when there is none."""
        info = await self._api(f"STREAM.INFO.{self._stream}")
        self._end = info["state"]["last_seq"]
        return str((info["config"].get("metadata") or {}).get(EPOCH, info["created"]))

    async def _held_by_another(self) -> bool:
        try:
            info = await self._api(f"CONSUMER.INFO.{self._stream}.{self._durable}")
        except ServerRefusalError as error:
            if error.code == _NO_CONSUMER:
                return False
            raise
        metadata: dict[str, str] = info["config"].get("metadata") or {}
        return metadata.get(_HOLDER, self._holder) != self._holder

    async def _make(self) -> None:
        """The consumer, anew: from behind the last event that was acknowledged, or without that, received."""
        await self._unsubscribe()
        self._pulls.clear()
        self._acks.clear()
        self._inbox = self._connection.client.new_inbox()
        self._broken = self._ended = False
        self._expected = 1
        self._subscription = await self._connection.subscribe(self._inbox + ".*", partial(self._received, self._inbox))
        config: dict[str, Any] = {
            "deliver_policy": "by_start_sequence",
            "filter_subjects": self._filters,
            "replay_policy": "instant",
        }
        if self._durable is None:
            config |= {"opt_start_seq": self._last + 1, "ack_policy": "none"}
            config |= {"inactive_threshold": 60 * _SECOND, "mem_storage": True, "num_replicas": 1}
            made = await self._api(f"CONSUMER.CREATE.{self._stream}", self._request(config))
        else:
            config |= {"opt_start_seq": self._acked + 1, "ack_policy": "all", "ack_wait": 3600 * _SECOND}
            config |= {"durable_name": self._durable, "name": self._durable, "max_ack_pending": 65536}
            config |= {"metadata": {_HOLDER: self._holder}}
            try:
                await self._api(f"CONSUMER.DELETE.{self._stream}.{self._durable}")
            except ServerRefusalError as error:
                if error.code != _NO_CONSUMER:
                    raise
            made = await self._created(config)
        self._name = made["name"]
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._name}"
        self._heard = asyncio.get_running_loop().time()
        self._pull()  # at once: whose pull is under way is told when somebody else makes the durable anew

    async def _created(self, config: dict[str, Any]) -> dict[str, Any]:
        """The durable, created. nats-server may still be writing down the one that was just removed: its file is gone
        in the middle of that, and the creation fails."""
        call = f"CONSUMER.CREATE.{self._stream}.{self._durable}"
        for failures in range(1, len(BUS_DURABLE.seconds) + 1):
            try:
                return await self._api(call, self._request(config))
            except ServerRefusalError as error:
                if "no such file" not in str(error):
                    raise
            await asyncio.sleep(BUS_DURABLE.after(failures))
        return await self._api(call, self._request(config))

    async def _api(self, call: str, request: Any = None) -> dict[str, Any]:
        """What the server answers. Raises BusError where the stream is gone, at whichever call that is noticed."""
        try:
            return await self._connection.api(call, request)
        except ServerRefusalError as error:
            if error.code != _NO_STREAM:
                raise
            raise BusError(f"the stream {self._stream} is gone: somebody has removed it; start again") from None

    def _request(self, config: dict[str, Any]) -> dict[str, Any]:
        return {"stream_name": self._stream, "config": config}

    def _pull(self) -> None:
        """Keep two pulls under way, as long as what waits here is less than one pull."""
        while (
            len(self._pulls) < 2
            and len(self._ready) < BATCH
            and not (self._broken or self._fenced or self._ended)
            and self._inbox
        ):
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
            return  # of a consumer that was made anew since
        if not reply.startswith(b"$JS.ACK."):
            self._told(subject.rsplit(b".", 1)[-1].decode(), header)
            return
        # $JS.ACK.<stream>.<consumer>.<tries>.<stream seq>.<consumer seq>.<time>.<pending>, or with
        # <domain>.<account> before the stream and a <token> at the end.
        parts = reply.split(b".")
        seq, number, time = parts[7:10] if len(parts) >= 11 else parts[5:8]
        pulls = self._pulls
        if pulls:  # an event bears its own subject, not its pull's: the server serves them oldest first
            oldest = next(iter(pulls))
            pulls[oldest] -= 1
            if pulls[oldest] <= 0:
                self._served(oldest)
        if int(number) != self._expected:
            log.warning("bus.reader_gap", name=self._name, expected=self._expected, got=int(number))
            self._inbox = ""  # nothing more of this one: it is made anew
            self._break()
            return
        self._expected += 1
        place = int(seq)
        if self._durable is not None:
            if place <= self._acked:  # acknowledged while the durable was made anew: nobody will say it again
                self._acknowledge(reply)
            else:
                self._acks.append((place, reply))
        if place > self._last:  # else handed out before
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
        """A status instead of an event: 100 is a heartbeat, anything else ends that pull."""
        self._heard = asyncio.get_running_loop().time()
        status, description, _ = read_headers(header)
        if status == "100":
            return
        self._served(number)
        if status == "404" and self._ends:
            self._ended = True
        elif status == "409" and "Consumer Deleted" in description and self._durable is not None:
            self._fenced = True
        elif status not in ("404", "408", "409", "503"):
            log.warning("bus.pull_refused", name=self._name, status=status, description=description)
        if status == "503" or (status == "409" and ("Shutdown" in description or "Leadership" in description)):
            self._broken = True
        self._wake.set()
