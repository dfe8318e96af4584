"""The publisher: pipelined JetStream publishes with a bounded window of unacknowledged messages.

Under strict durability every message costs the server a write to disk; so messages that wait while others are in
flight, and those that tasks submit in turns of the event loop that follow each other, are sent as one atomic batch,
which costs six writes at any size (measured on nats-server 2.15.1; below GROUP it does not pay). Messages that a lost
connection leaves unacknowledged are sent again in their order, under the same ids: the server recognises duplicates,
and beyond its dedupe window the stream is searched for the ids first. In a cluster the connection may stay while the
stream's leader dies: what the leader had taken stays unacknowledged, so nothing is sent that would overtake it. And a
server with much to store answers late: the late acknowledgement of an attempt that was given up still counts, or each
further attempt would be late as well.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from conch.bus.jetstream.connection import REPLY_TIMEOUT, Connection, LostReplyError, ServerRefusalError
from conch.bus.jetstream.wire import frame, message_id, read_headers
from conch.bus.protocol import OutgoingMessage, Stored
from conch.errors import BusError
from conch.log import get_logger
from conch.retry import BUS_PUBLISH
from conch.tasks import OwnedTasks
from conch_schemas import JsonObject

log = get_logger(__name__)

WINDOW_EVENTS, WINDOW_BYTES = 4096, 16 * 2**20
"""Most events and bytes in flight, unacknowledged; the rest waits here."""
PIECE = 256
"""Messages written at a time: the server starts on them while the next ones are encoded."""
GROUP, LARGEST_GROUP = 16, 1000
"""Waiting messages from which an atomic batch is worth it, and the server's limit for one."""
GROUP_BYTES = 8 * 2**20
FEW, FEW_IN_FLIGHT, FULL_GROUP, STILL_TURNS, GATHER_SECONDS = 4, 8, 256, 2, 0.05
"""No group is gathered where so few messages wait, and waited the last time: a single agent would only wait longer. Nor
do these wait for acknowledgements while FEW_IN_FLIGHT are in flight at most, themselves among them: no score waits for
marks. Else a group is sent with FULL_GROUP messages, or after so many turns of the event loop without another one, or
this many seconds after its first. A message costs the server 30 us in a batch of 256, 70 in one of 64, 200 alone
(measured)."""
DEDUPE_SECONDS = 120
"""Seconds that the server remembers an id; what was sent half of that ago is searched on the stream before a resend."""
FULL = {10023, 10047, 10077}
"""err_codes of a stream without room: insufficient resources, storage, or the stream's own limit."""
IN_PROCESS = 10158
"""err_code where an earlier try of the same event is on its way through a cluster, and may yet be lost."""
SILENCE = 1.0
"""Seconds without an answer after which messages in flight may be lost: nothing more is sent until that is known."""

Find = Callable[[set[str], set[str], int], Awaitable[dict[str, int]]]
"""(subjects, ids, sequence) -> sequences of those ids that are on the stream after `sequence`."""


class _PublishRequest:
    """One caller's messages and the acknowledgement of each."""

    __slots__ = ("answers", "future", "left", "messages", "since", "singly", "turn")

    def __init__(
        self, messages: Sequence[OutgoingMessage], future: asyncio.Future[None], turn: int, now: float
    ) -> None:
        self.messages, self.future, self.turn = messages, future, turn
        self.answers: list[Stored | None] = [None] * len(messages)
        self.left = len(messages)
        self.since = now
        """When it was submitted, or last searched on the stream."""
        self.singly = False
        """Whether it must stay out of batches: the server knows some of its ids already, or takes no batches."""


_Item = tuple[_PublishRequest, int]
"""A message: its request, and its index in that."""


class _InFlightPublish(NamedTuple):
    """A message, or an atomic batch of them, sent under one token."""

    items: Sequence[_Item]
    bytes: int
    sent: float


class Publisher:
    """Publishes on one connection, in submission order. `group`: whether to commit in groups."""

    def __init__(
        self, connection: Connection, stream: str, *, group: bool, find: Find, last: Callable[[], Awaitable[int]]
    ) -> None:
        """`last`: the sequence of the newest event that the stream has."""
        self._connection, self._group, self._find, self._last = connection, group, find, last
        self._plain = b'{"stream":"%b","seq":' % stream.encode()
        self._waiting: deque[_Item] = deque()
        self._returned: list[_Item] = []
        """Messages that the server had no room for; they are sent before all others."""
        self._sent_batches: dict[bytes, _InFlightPublish] = {}
        self._given_up: dict[bytes, _InFlightPublish] = {}
        """Attempts that were given up and may still be acknowledged."""
        self._events = self._bytes = 0
        self._numbers = itertools.count(1)
        self._held = 0
        """Consecutive refusals by a server without room."""
        self._hold: asyncio.TimerHandle | None = None
        self._resuming: asyncio.Task[None] | None = None
        self._tasks = OwnedTasks()
        self._closed = self._scheduled = False
        self._gathered = self._still = 0
        """Messages that waited at the last turn of the event loop, and how many turns brought no other one."""
        self._waited = 0
        """Messages that waited when the last ones were sent."""
        self._gathering = 0.0
        """When the group began that is being gathered."""
        self._why = "the bus was left"
        self.seen = 0
        """The greatest acknowledged sequence."""

    def start(self) -> None:
        """Take over the connection's acknowledgements. Called once, on the event loop."""
        self._loop = asyncio.get_running_loop()
        self._connection.acknowledged = self._acknowledged
        self._connection.on_loss.add(self._lost)
        self._connection.on_reconnect.add(self._resume)
        self._connection.on_denied.add(self._denied)
        self._tasks.start(self._watch(), name="conch.bus.overdue")

    def close(self) -> None:
        """Give up what is not acknowledged: its callers get BusError. A second call does nothing."""
        self._closed = True
        self._tasks.cancel()
        if self._hold is not None:
            self._hold.cancel()
        self._take_back()
        for item in self._waiting:
            self._fail(item, BusError(self._why))
        self._waiting.clear()

    async def publish(self, messages: Sequence[OutgoingMessage]) -> Sequence[Stored]:
        """See `Bus.publish_many`. Cancelled: messages in flight may be stored, waiting ones are removed."""
        if self._closed:
            raise BusError(self._why)
        if not messages:
            return ()
        for message in messages:
            self._connection.admit(message.subject, len(message.data))
        order = _PublishRequest(messages, self._loop.create_future(), next(self._numbers), self._loop.time())
        self._waiting.extend([(order, place) for place in range(len(messages))])
        self._kick()
        try:
            await order.future
        except asyncio.CancelledError:
            self._waiting = deque(item for item in self._waiting if item[0] is not order)
            raise
        return order.answers  # type: ignore[return-value]  # all of them are answered

    # -- sending -----------------------------------------------------------------------------------------------------

    def _kick(self) -> None:
        """Schedule a send: what is submitted in one iteration of the event loop is written at once."""
        if not self._scheduled and self._waiting:
            self._scheduled = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._scheduled = False
        if not self._waiting or self._hold is not None or self._resuming is not None or self._closed:
            return
        if self._is_silent(SILENCE):
            return  # until it is acknowledged or sent again
        if self._is_old(self._waiting[0][0]):
            self._resume()  # this process was stopped, or the stream was full all the while
            return
        try:
            if not self._group:
                self._send_singly(PIECE)
                if self._events < WINDOW_EVENTS and self._bytes < WINDOW_BYTES:
                    self._kick()
            elif self._may_follow() and not self._gathers():
                self._send_group()
        except LostReplyError:
            return  # nothing was sent; the connection comes back

    def _may_follow(self) -> bool:
        """Whether what waits may be sent now: nothing is in flight, or so little that waiting for its acknowledgements
        would not make a batch of it."""
        few = max(len(self._waiting), self._waited) <= FEW
        return not self._sent_batches or (few and self._events + len(self._waiting) <= FEW_IN_FLIGHT)

    def _gathers(self) -> bool:
        """Whether a group is sent later, with what other tasks submit in the next turns of the event loop."""
        waiting, now = len(self._waiting), self._loop.time()
        if max(waiting, self._waited) <= FEW:
            self._waited = waiting
            return False
        if not self._gathered:
            self._gathering = now
        self._still = 0 if waiting > self._gathered else self._still + 1
        self._gathered = waiting
        if self._still < STILL_TURNS and waiting < FULL_GROUP and now - self._gathering < GATHER_SECONDS:
            self._kick()
            return True
        self._waited, self._gathered, self._still = waiting, 0, 0
        return False

    def _send_group(self) -> None:
        """Send one batch, or a few single messages, of what waits."""
        batch: list[_Item] = []
        size = 0
        for item in itertools.islice(self._waiting, LARGEST_GROUP):
            size += len(item[0].messages[item[1]].data)
            if item[0].singly or size > GROUP_BYTES:
                break
            batch.append(item)
        if len(batch) < GROUP:
            self._send_singly(max(len(batch), GROUP))
        else:
            self._send_batch(batch, size)

    def _send_batch(self, batch: Sequence[_Item], size: int) -> None:
        token, name, last = b"%d" % next(self._numbers), secrets.token_hex(8).encode(), len(batch)
        frames = []
        for number, (order, place) in enumerate(batch, 1):
            subject, data, id = order.messages[place]
            headers = b"Nats-Msg-Id:%b\r\nNats-Batch-Id:%b\r\nNats-Batch-Sequence:%d\r\n%b" % (
                message_id(id),
                name,
                number,
                b"Nats-Batch-Commit:1\r\n" if number == last else b"",
            )
            # The last one is acknowledged for all; the first one too, where the server refuses batches altogether.
            reply = self._connection.inbox + token if number in (1, last) else b""
            frames.append(frame(subject, reply, data, headers))
        self._connection.write(b"".join(frames))
        for _ in batch:
            self._waiting.popleft()
        self._fly(token, _InFlightPublish(batch, size, self._loop.time()))

    def _send_singly(self, most: int) -> None:
        """Send up to `most` messages, as the window has room, each acknowledged by itself, in one write."""
        inbox, now = self._connection.inbox, self._loop.time()
        frames: list[bytes] = []
        sent_batches: list[tuple[bytes, _InFlightPublish]] = []
        room, bytes_left = min(most, WINDOW_EVENTS - self._events), WINDOW_BYTES - self._bytes
        for item in itertools.islice(self._waiting, max(room, 0)):
            if bytes_left <= 0:
                break
            subject, data, id = item[0].messages[item[1]]
            token = b"%d" % next(self._numbers)
            frames.append(frame(subject, inbox + token, data, b"Nats-Msg-Id:%b\r\n" % message_id(id)))
            sent_batches.append((token, _InFlightPublish((item,), len(data), now)))
            bytes_left -= len(data)
        if frames:
            self._connection.write(b"".join(frames))
        for token, in_flight in sent_batches:
            self._waiting.popleft()
            self._fly(token, in_flight)

    def _fly(self, token: bytes, in_flight: _InFlightPublish) -> None:
        self._sent_batches[token] = in_flight
        self._events += len(in_flight.items)
        self._bytes += in_flight.bytes

    # -- acknowledgements --------------------------------------------------------------------------------------------

    def _acknowledged(self, token: bytes, header: bytes, data: bytes) -> None:
        in_flight = self._sent_batches.get(token)
        if in_flight is None:
            self._answered_late(token, header, data)
            return
        if not (data or header):
            return  # acknowledges the beginning of a batch
        if not header and data.startswith(self._plain) and (seq := data[len(self._plain) : -1]).isdigit():
            self._land(token, in_flight)
            self._settle(in_flight.items[0], Stored(int(seq), False))
        else:
            self._answered(token, in_flight, header, data)
        self._kick()

    def _answered(self, token: bytes, in_flight: _InFlightPublish, header: bytes, data: bytes) -> None:
        """Handle every answer but the plain acknowledgement of one message."""
        try:
            reply: JsonObject = json.loads(data or b"{}")
        except ValueError:
            return  # no responder is not an answer of the stream; it is asked again in time
        self._land(token, in_flight)
        status, description, _ = read_headers(header)
        error = reply.get("error")
        if status:
            self._refused(in_flight, int(status), f"{status} {description}".strip(), temporary=True)
        elif error is not None:
            code = int(error.get("err_code", 0))
            temporary = code in FULL or code == IN_PROCESS or error.get("code") == 503
            self._refused(in_flight, code, str(error.get("description")), temporary=temporary)
        else:
            self._held = 0
            self._settle_all(in_flight, reply)

    def _answered_late(self, token: bytes, header: bytes, data: bytes) -> None:
        """Handle the answer to an attempt that was given up: if stored, the later attempts are not waited for."""
        in_flight = self._given_up.get(token)
        if in_flight is None or header or not data:
            return
        try:
            reply: JsonObject = json.loads(data)
        except ValueError:
            return
        if "error" in reply:
            return  # a later attempt decides
        del self._given_up[token]
        self._settle_all(in_flight, reply)
        self._waiting = deque(item for item in self._waiting if not _is_settled(item))
        for later, again in tuple(self._sent_batches.items()):
            if all(_is_settled(item) for item in again.items):
                self._land(later, again)
        self._kick()

    def _settle_all(self, in_flight: _InFlightPublish, reply: JsonObject) -> None:
        first = int(reply["seq"]) - len(in_flight.items) + 1
        for place, item in enumerate(in_flight.items):
            self._settle(item, Stored(first + place, bool(reply.get("duplicate", False))))

    def _refused(self, in_flight: _InFlightPublish, code: int, why: str, *, temporary: bool) -> None:
        if temporary:
            self._returned += in_flight.items
            self._wait_for_room(why)
        elif len(in_flight.items) > 1:
            # One known id, or a server without batches, refuses the whole batch: sent singly, each gets its own answer.
            log.debug("bus.batch_refused", events=len(in_flight.items), why=why)
            for order, _ in in_flight.items:
                order.singly = True
            self._put_back(in_flight.items)
        else:
            self._fail(in_flight.items[0], ServerRefusalError(f"the bus refused: {why}", code))

    def _wait_for_room(self, why: str) -> None:
        """Stop sending for a while."""
        if self._hold is None:
            log.warning("bus.publish_waits", tries=self._held + 1, why=why)
            self._held += 1
            self._hold = self._loop.call_later(BUS_PUBLISH.after(self._held), self._go_on)

    def _go_on(self) -> None:
        if self._sent_batches:
            self._hold = self._loop.call_later(BUS_PUBLISH.after(1), self._go_on)
            return
        self._hold = None
        returned, self._returned = sorted(self._returned, key=_turn), []
        self._put_back(returned)
        self._send()

    def _land(self, token: bytes, in_flight: _InFlightPublish) -> None:
        del self._sent_batches[token]
        self._events -= len(in_flight.items)
        self._bytes -= in_flight.bytes

    def _settle(self, item: _Item, stored: Stored) -> None:
        order, place = item
        if stored.seq > self.seen:
            self.seen = stored.seq
        if order.answers[place] is None:
            order.answers[place] = stored
            order.left -= 1
            if not order.left and not order.future.done():
                order.future.set_result(None)

    def _fail(self, item: _Item, error: BusError) -> None:
        if not item[0].future.done():
            item[0].future.set_exception(error)

    def _denied(self, subject: str) -> None:
        """The server denied permission to publish there, and will send no acknowledgement."""
        for token, in_flight in tuple(self._sent_batches.items()):
            there = [place for order, place in in_flight.items if order.messages[place].subject == subject]
            if there:
                self._land(token, in_flight)
                self._refused(in_flight, 403, f"this user may not publish on {subject}", temporary=False)
        self._kick()

    # -- resending ---------------------------------------------------------------------------------------------------

    def _put_back(self, items: Iterable[_Item]) -> None:
        """Put messages before all that wait; those whose caller has gone are dropped."""
        self._waiting.extendleft([item for item in items if not item[0].future.done()][::-1])

    def _take_back(self) -> None:
        """Put all messages in flight back among the waiting ones."""
        flying = [item for in_flight in self._sent_batches.values() for item in in_flight.items]
        self._put_back(sorted([*self._returned, *flying], key=_turn))
        self._returned.clear()
        self._sent_batches.clear()
        self._events = self._bytes = 0

    def _lost(self) -> None:
        self._take_back()
        self._given_up.clear()
        if self._resuming is not None:
            self._resuming.cancel()
            self._resuming = None

    def _resume(self) -> None:
        """Go on after a reconnect."""
        if not self._closed and self._resuming is None:
            self._resuming = self._tasks.start(self._look_and_send(), name="conch.bus.resume")

    async def _look_and_send(self) -> None:
        failures = 0
        try:
            while not await self._looked():
                failures += 1
                await asyncio.sleep(BUS_PUBLISH.after(failures))
        except LostReplyError:
            return  # again after the next reconnect
        finally:
            if self._resuming is asyncio.current_task():
                self._resuming = None
        self._send()

    async def _looked(self) -> bool:
        """Whether the search succeeded; otherwise it is repeated, as an event might be stored twice."""
        try:
            if (last := await self._last()) < self.seen:
                self._lose(
                    f"the stream ends at {last} and had {self.seen}: it lost its end; start again to go on there"
                )
                return True
            await self._look()
        except BusError as error:
            log.warning("bus.publish_waits", why=str(error))
            return False
        return True

    async def _look(self) -> None:
        """Search the stream for waiting messages so old that the server may have forgotten their ids."""
        late = [item for item in self._waiting if self._is_old(item[0])]
        if not late:
            return
        now = self._loop.time()
        messages = [order.messages[place] for order, place in late]
        found = await self._find({one.subject for one in messages}, {one.id for one in messages}, self.seen)
        for order, place in late:
            order.since = now
            if (seq := found.get(order.messages[place].id)) is not None:
                self._settle((order, place), Stored(seq, True))
        self._waiting = deque(item for item in self._waiting if not _is_settled(item))

    def _lose(self, why: str) -> None:
        """Fail everything: the stream is not the one that was published to."""
        log.error("bus.stream_lost_its_end", why=why)
        self._why = why
        self.close()

    def _is_old(self, order: _PublishRequest) -> bool:
        return self._loop.time() - order.since > DEDUPE_SECONDS / 2

    async def _watch(self) -> None:
        """Ask again where a reachable server does not answer."""
        while True:
            await asyncio.sleep(REPLY_TIMEOUT / 5)
            if self._is_silent(REPLY_TIMEOUT) and self._connection.connected:
                log.warning("bus.publish_retried", events=self._events, why=f"no answer within {REPLY_TIMEOUT:g} s")
                tried = {**self._given_up, **self._sent_batches}
                self._lost()
                # Older messages are searched on the stream.
                oldest = self._loop.time() - DEDUPE_SECONDS / 2
                self._given_up = {token: in_flight for token, in_flight in tried.items() if in_flight.sent > oldest}
                self._resume()

    def _is_silent(self, seconds: float) -> bool:
        """Whether a message has been unacknowledged for that many seconds."""
        oldest = next(iter(self._sent_batches.values()), None)
        return oldest is not None and self._loop.time() - oldest.sent > seconds


def _is_settled(item: _Item) -> bool:
    return item[0].answers[item[1]] is not None


def _turn(item: _Item) -> tuple[int, int]:
    """The message's place in submission order."""
    return item[0].turn, item[1]
