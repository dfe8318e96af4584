"""A durable reader: overlapping pulls through a callback, cumulative acknowledgement, re-made where it is lost.

The server's own acknowledged place may lag (it is written lazily) and a durable's unacknowledged events would come
back after the new ones; so on entry and after every reconnect the durable is made anew, right behind what was handed
out last. That keeps the order, whatever died.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import structlog
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from conch.bus.jetstream.connection import Connection, LostReplyError, RefusedError
from conch.bus.protocol import Delivery
from conch.errors import BusUnreachableError, FencedError

log = structlog.get_logger(__name__)

BATCH = 256
"""Events a pull asks for; two pulls overlap."""
HEARTBEAT = 5.0
"""Seconds between the server's signs of life on an idle pull; silent for three of them, the reader is made anew."""
_SECOND = 1_000_000_000


class PullReader:
    """See `conch.bus.protocol.Reader`. `durable` None: an ephemeral one, without acknowledgements."""

    def __init__(
        self, connection: Connection, stream: str, durable: str | None, filters: Sequence[str], after: int
    ) -> None:
        self._connection, self._stream, self._durable, self._filters = connection, stream, durable, list(filters)
        self._last = after
        self.pending = 0
        """Events behind the last one handed over, as the server said with it."""
        self._name = self._inbox = ""
        self._ready: deque[Delivery] = deque()
        self._acks: deque[tuple[int, str]] = deque()
        self._pulls: dict[str, int] = {}
        self._pull_count = 0
        self._expected = 1
        self._heard = 0.0
        self._wake = asyncio.Event()
        self._broken = False
        self._fenced = False
        self._subscription: Subscription | None = None

    async def __aenter__(self) -> Self:
        self._connection.on_reconnect.add(self._break)
        try:
            await self._make()
        except BaseException:
            self._connection.on_reconnect.discard(self._break)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._connection.on_reconnect.discard(self._break)
        await self._unsubscribe()
        if self._durable is None and self._name and self._connection.connected:
            try:
                await self._connection.ask(f"$JS.API.CONSUMER.DELETE.{self._stream}.{self._name}", b"", timeout=1)
            except (LostReplyError, RefusedError):
                log.debug("bus.ephemeral_left", name=self._name)  # the server drops it after its inactive threshold

    @property
    def waiting(self) -> bool:
        """Whether events are here that `get` has not handed out."""
        return bool(self._ready)

    async def get(self, most: int = BATCH) -> Sequence[Delivery]:
        """The next events; see the protocol. Raises FencedError when another reader took the name over."""
        loop = asyncio.get_running_loop()
        while not self._ready:
            if self._fenced:
                raise FencedError(f"another copy of the consumer {self._durable} reads now; this one stops")
            if self._broken:
                try:
                    await self._make()
                except BusUnreachableError as error:
                    log.warning("bus.reader_waits", name=self._name, why=str(error))
                    self._broken = True
                    continue
            await self._pull()
            self._wake.clear()
            try:
                async with asyncio.timeout(HEARTBEAT):
                    await self._wake.wait()
            except TimeoutError:
                if self._connection.connected and loop.time() - self._heard > 3 * HEARTBEAT:
                    log.warning("bus.reader_silent", name=self._name)
                    self._broken = True
        taken = [self._ready.popleft() for _ in range(min(most, len(self._ready)))]
        await self._pull()
        return taken

    async def ack(self, seq: int) -> None:
        """Acknowledge everything up to `seq`; while there is no connection, nothing (it is made anew then)."""
        reply = ""
        while self._acks and self._acks[0][0] <= seq:
            reply = self._acks.popleft()[1]
        if reply and self._connection.connected:
            try:
                await self._connection.send(reply, b"+ACK")
            except LostReplyError:
                log.debug("bus.ack_lost", name=self._name, seq=seq)

    def _break(self) -> None:
        self._broken = True
        self._wake.set()

    async def _unsubscribe(self) -> None:
        if self._subscription is not None:
            try:
                await self._subscription.unsubscribe()
            except Exception as error:  # nats-py raises several kinds here when the connection is closing
                log.debug("bus.unsubscribe_failed", error=str(error))
            self._subscription = None

    async def _make(self) -> None:
        """The consumer, anew: from behind the last event that was handed out or waits to be."""
        await self._unsubscribe()
        self._pulls.clear()
        self._acks.clear()
        self._inbox = self._connection.client.new_inbox()
        self._broken = False
        self._expected = 1
        self._subscription = await self._connection.client.subscribe(
            self._inbox + ".*", cb=partial(self._received, self._inbox), pending_bytes_limit=0
        )
        config: dict[str, Any] = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._last + 1,
            "filter_subjects": self._filters,
            "replay_policy": "instant",
            "max_ack_pending": 65536,
        }
        if self._durable is None:
            config |= {"ack_policy": "none", "inactive_threshold": 60 * _SECOND, "mem_storage": True, "num_replicas": 1}
            made = await self._connection.api(f"CONSUMER.CREATE.{self._stream}", self._request(config))
        else:
            config |= {"durable_name": self._durable, "name": self._durable, "ack_policy": "all"}
            config |= {"ack_wait": 3600 * _SECOND}
            try:
                await self._connection.api(f"CONSUMER.DELETE.{self._stream}.{self._durable}")
            except RefusedError as error:
                if error.code != 10014:  # consumer not found
                    raise
            made = await self._connection.api(f"CONSUMER.CREATE.{self._stream}.{self._durable}", self._request(config))
        self._name = made["name"]
        self.pending = int(made["num_pending"])
        self._heard = asyncio.get_running_loop().time()

    def _request(self, config: dict[str, Any]) -> dict[str, Any]:
        return {"stream_name": self._stream, "config": config}

    async def _pull(self) -> None:
        """Keep two pulls under way, as long as what waits here is less than one pull."""
        while len(self._pulls) < 2 and len(self._ready) < BATCH and not self._broken and self._connection.connected:
            self._pull_count += 1
            number = str(self._pull_count)
            self._pulls[number] = BATCH
            request = {
                "batch": BATCH,
                "expires": 60 * _SECOND,
                "idle_heartbeat": int(HEARTBEAT * _SECOND),
                "max_bytes": 16 * 1024 * 1024,
            }
            try:
                await self._connection.send(
                    f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._name}",
                    json.dumps(request).encode(),
                    reply=f"{self._inbox}.{number}",
                )
            except LostReplyError:
                self._broken = True

    async def _received(self, inbox: str, message: Msg) -> None:
        if inbox != self._inbox:
            return  # of a consumer that was made anew since
        self._heard = asyncio.get_running_loop().time()
        if not message.reply.startswith("$JS.ACK."):
            self._told(message.subject.rsplit(".", 1)[-1], message.headers or {})
            return
        parts = message.reply.split(".")
        sseq, cseq, time, pending = int(parts[-4]), int(parts[-3]), int(parts[-2]), int(parts[-1])
        if (
            len(parts) >= 11
        ):  # $JS.ACK.<domain>.<account>.<stream>.<consumer>.<tries>.<sseq>.<cseq>.<time>.<pending>.<token>
            sseq, cseq, time, pending = int(parts[7]), int(parts[8]), int(parts[9]), int(parts[10])
        if self._pulls:  # an event bears its own subject, not its pull's: the server serves them oldest first
            oldest = next(iter(self._pulls))
            self._pulls[oldest] -= 1
            if self._pulls[oldest] <= 0:
                del self._pulls[oldest]
        if cseq != self._expected:
            log.warning("bus.reader_gap", name=self._name, expected=self._expected, got=cseq)
            self._break()
            return
        self._expected += 1
        if sseq <= self._last:
            return  # handed out before
        self._last = sseq
        self.pending = pending
        self._ready.append(Delivery(sseq, message.subject, message.data, time / _SECOND))
        if self._durable is not None:
            self._acks.append((sseq, message.reply))
        self._wake.set()

    def _told(self, number: str, headers: dict[str, str]) -> None:
        """A status instead of an event: 100 is a heartbeat, anything else ends that pull."""
        status, description = headers.get("Status", ""), headers.get("Description", "")
        if status == "100":
            return
        self._pulls.pop(number, None)
        if status == "409" and "Consumer Deleted" in description and self._durable is not None:
            self._fenced = True
        elif status not in ("404", "408", "409"):
            log.warning("bus.pull_refused", name=self._name, status=status, description=description)
        if status == "503" or (status == "409" and ("Shutdown" in description or "Leadership" in description)):
            self._broken = True
        self._wake.set()
