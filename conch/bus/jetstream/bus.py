"""`JetStreamBus`: the bus protocol on one NATS JetStream stream and one key-value bucket."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from math import inf
from typing import BinaryIO, Self

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error

from conch.bus.access import Access
from conch.bus.admit import admit, admit_key, admit_request, admit_size
from conch.bus.jetstream.checks import changed, check_server, check_stream
from conch.bus.jetstream.connection import DENIED, PATIENCE, Connection, LostReplyError, ServerRefusalError
from conch.bus.jetstream.erase import empty_bucket, erase
from conch.bus.jetstream.names import BUCKET_STREAM, EPOCH, KEY_WORDS, STREAM, key_subject, subject_key
from conch.bus.jetstream.objects import JetStreamObjects
from conch.bus.jetstream.publisher import DEDUPE_SECONDS, FULL, Publisher
from conch.bus.jetstream.reader import BATCH, PullReader
from conch.bus.protocol import Delivery, KeyValue, OutgoingMessage, ReaderState, Responder, Stored, StreamState
from conch.errors import BusError, BusUnreachableError, FencedError, NoResponderError
from conch.log import get_logger
from conch.retry import BUS_REQUEST
from conch.tasks import OwnedTasks
from conch_schemas import STREAM_SUBJECTS, JsonObject

log = get_logger(__name__)

FILTERS = 32
"""Most subject filters that a reader passes to the server; with more it reads the whole stream."""
JETSTREAM_SECONDS = 5.0
"""Seconds that a single reachable server may take to answer the first JetStream request."""
LAG_SECONDS = 0.02
"""Seconds before a server of a cluster is asked again for what the stream's leader already has."""
_NOT_FOUND = {10014, 10037, 10059}
_WRONG_REVISION = {10071, 10164}
_NO_STREAM = 10059
_SECOND = 1_000_000_000
_CHANGED = ("max_bytes", "allow_atomic", "allow_rollup_hdrs", "num_replicas")
"""Fields of an existing stream that we update when they differ from what is asked for."""
_FAILED = "Nats-Service-Error"
"""Header of a reply: the responder raised."""
ANSWERS = 16
"""Requests of one subject that are answered concurrently; the next one waits."""


class JetStreamBus:
    """The bus on JetStream; see `conch.bus.protocol.Bus`. Makes its stream and bucket on entry if they are missing."""

    def __init__(
        self,
        access: Access,
        *,
        name: str = "conch",
        max_bytes: int = -1,
        replicas: int = 1,
        strict: bool = False,
        connect_timeout: float = 5.0,
    ) -> None:
        """`strict`: the server syncs to disk before it acknowledges, so events are committed in groups."""
        self._connection = Connection(access, name=name, connect_timeout=connect_timeout)
        self._objects = JetStreamObjects(self._connection, replicas)
        self._max_bytes, self._replicas, self._strict = max_bytes, replicas, strict
        self._publisher = Publisher(self._connection, STREAM, group=strict, find=self._find, last=self._last_seq)

    async def __aenter__(self) -> Self:
        await self._connection.__aenter__()
        try:
            await self._ensure()
            self._connection.patience = inf  # the server had JetStream before, so it is waited for without limit
            self._publisher.start()
        except BaseException:
            await self._connection.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._publisher.close()
        await self._connection.__aexit__()

    @property
    def connected(self) -> bool:
        """Whether the connection is up, as far as is known."""
        return self._connection.connected

    @property
    def connection(self) -> Connection:
        """The connection, for server calls beyond the protocol."""
        return self._connection

    @property
    def refusal(self) -> str:
        """Why the server refuses this client since it is back; see the protocol."""
        return self._connection.refusal

    async def publish(self, subject: str, data: bytes, *, id: str) -> Stored:
        """Store one event; see the protocol."""
        return (await self.publish_many([OutgoingMessage(subject, data, id)]))[0]

    async def publish_many(self, messages: Sequence[OutgoingMessage]) -> Sequence[Stored]:
        """Store several events; see the protocol."""
        for message in messages:
            admit(message.subject, message.data)
        return await self._publisher.publish(messages)

    async def _last_seq(self) -> int:
        return (await self.state()).last

    async def _find(self, subjects: set[str], ids: set[str], after: int) -> dict[str, int]:
        """Sequences of these ids, for events that an earlier attempt may have stored."""
        found: dict[str, int] = {}
        filters = sorted(subjects) if len(subjects) <= FILTERS else STREAM_SUBJECTS
        async for delivery in self.read(filters, after=after):
            try:
                id = json.loads(delivery.data)["id"]
            except (ValueError, LookupError, TypeError, RecursionError):
                continue
            if id in ids:
                found.setdefault(str(id), delivery.seq)
        return found

    def follow(self, filters: Sequence[str], *, after: int) -> PullReader:
        """A reader; see the protocol."""
        return PullReader(self._connection, STREAM, filters, after)

    async def read(self, filters: Sequence[str], *, after: int = 0) -> AsyncIterator[Delivery]:
        """The events after `after`, up to the stream's present end."""
        end = (await self.state()).last
        if after >= end:
            return
        async with PullReader(self._connection, STREAM, filters, after, ends=True) as reader:
            while True:
                deliveries = await reader.get(BATCH)
                for delivery in deliveries:
                    if delivery.seq > end:
                        return
                    yield delivery
                if deliveries:
                    after = deliveries[-1].seq
                elif not self._connection.is_cluster or not await self._is_between(filters, after, end):
                    return
                else:  # a reader may be on any of the servers, and this one has not yet replicated what the leader has
                    await asyncio.sleep(LAG_SECONDS)

    async def _is_between(self, filters: Sequence[str], after: int, end: int) -> bool:
        """Whether the stream's leader has an event after `after`, up to `end`."""
        for one in filters:
            found = await self._message(STREAM, {"seq": after + 1, "next_by_subj": one})
            if found is not None and found.seq <= end:
                return True
        return False

    async def count(self, filters: Sequence[str], *, after: int) -> int:
        """How many events after `after` match: the pending count of a consumer that is made and deleted at once."""
        config = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": after + 1,
            "filter_subjects": list(filters),
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": 5 * _SECOND,
        }
        made = await self._connection.api(f"CONSUMER.CREATE.{STREAM}", {"stream_name": STREAM, "config": config})
        await self.forget(made["name"])
        return int(made["num_pending"])

    async def last(self, subject: str) -> Delivery | None:
        """The newest event of exactly this subject."""
        return await self._message(STREAM, {"last_by_subj": subject})

    async def at(self, seq: int) -> Delivery | None:
        """The event at this sequence."""
        return await self._message(STREAM, {"seq": seq})

    async def _message(self, stream: str, body: JsonObject) -> Delivery | None:
        try:
            message = (await self._connection.api(f"STREAM.MSG.GET.{stream}", body))["message"]
        except ServerRefusalError as error:
            if error.code in _NOT_FOUND:
                return None
            raise
        data = base64.b64decode(message.get("data", ""))
        return Delivery(message["seq"], message["subject"], data, _seconds(message["time"]))

    async def state(self) -> StreamState:
        """First and last sequence, size and epoch of the stream."""
        info = await self._connection.api(f"STREAM.INFO.{STREAM}")
        state = info["state"]
        return StreamState(
            first=state["first_seq"] or 1,
            last=state["last_seq"],
            messages=state["messages"],
            bytes=state["bytes"],
            epoch=str((info["config"].get("metadata") or {}).get(EPOCH, info["created"])),
        )

    async def readers(self) -> Sequence[ReaderState]:
        """All durables of other programs; see the protocol."""
        found: list[ReaderState] = []
        while True:
            page = await self._connection.api(f"CONSUMER.LIST.{STREAM}", {"offset": len(found)})
            infos = page["consumers"] or ()
            found.extend(_reader_state(info) for info in infos)
            if len(found) >= page["total"] or not infos:
                return sorted((state for state in found if state.name), key=lambda state: state.name)

    async def forget(self, name: str) -> None:
        """Remove a durable."""
        try:
            await self._connection.api(f"CONSUMER.DELETE.{STREAM}.{name}")
        except ServerRefusalError as error:
            if error.code not in _NOT_FOUND:
                raise

    async def trim(self, before: int) -> None:
        """Drop the events before sequence `before`."""
        await self._connection.api(f"STREAM.PURGE.{STREAM}", {"seq": before})

    async def erase(self, seqs: Sequence[int]) -> None:
        """Overwrite events; see the protocol."""
        await erase(self._connection, seqs)

    async def rewrite(self, values: Mapping[str, bytes]) -> None:
        """Replace the bucket's values; see the protocol."""
        epoch = await self.get(EPOCH)
        await empty_bucket(self._connection)
        for key, value in (dict(values) | ({EPOCH: epoch.value} if epoch is not None else {})).items():
            await self.put(key, value, revision=0)

    async def get(self, key: str) -> KeyValue | None:
        """A value of the bucket."""
        found = await self._message(BUCKET_STREAM, {"last_by_subj": key_subject(key)})
        return KeyValue(found.data, found.seq) if found is not None else None

    async def put(self, key: str, value: bytes, *, revision: int) -> int:
        """Write if the key is still at `revision`; see the protocol."""
        admit_key(key)
        admit_size(key, value)
        headers = b"Nats-Expected-Last-Subject-Sequence:%d\r\n" % revision
        tries = 0
        while True:
            tries += 1
            await self._connection.wait()
            try:
                reply = await self._connection.ask(key_subject(key), value, headers=headers)
                return _sequence(reply.data)
            except LostReplyError:
                pass
            except ServerRefusalError as error:
                if error.code in _WRONG_REVISION:
                    now = await self.get(key)
                    # After a lost reply the stored value may be our own.
                    if tries > 1 and now is not None and now.value == value:
                        return now.revision
                    # In a cluster a write that is still being replicated counts already, also our own whose reply was
                    # lost.
                    if (now.revision if now is not None else 0) != revision:
                        raise FencedError(f"{key} was written by another copy since revision {revision}") from None
                elif not error.temporary:
                    raise
            await asyncio.sleep(BUS_REQUEST.after(tries))

    async def keys(self) -> Sequence[str]:
        """The keys there are."""
        return sorted({subject_key(subject) for subject in await self._places()} - {EPOCH})

    async def _places(self) -> list[str]:
        """The bucket's subjects."""
        found: list[str] = []
        while True:
            body = {"subjects_filter": key_subject(">"), "offset": len(found)}
            info = await self._connection.api(f"STREAM.INFO.{BUCKET_STREAM}", body)
            subjects = info["state"].get("subjects") or {}
            found += subjects
            if not subjects or len(found) >= info.get("total", len(found)):
                return found

    async def put_object(self, name: str, file: BinaryIO) -> None:
        """Keep a file's content; see the protocol."""
        admit_key(name)
        await self._objects.put(name, file)

    async def get_object(self, name: str, file: BinaryIO, *, most: int) -> bool:
        """Write an object's content to a file; see the protocol."""
        admit_key(name)
        return await self._objects.get(name, file, most=most)

    async def objects(self) -> Sequence[str]:
        """The names of all objects."""
        return await self._objects.names()

    async def drop_object(self, name: str) -> None:
        """Remove an object; see the protocol."""
        admit_key(name)
        await self._objects.drop(name)

    async def request(self, subject: str, data: bytes, *, timeout: float) -> bytes:
        """Send a request to the responder at `subject`; see the protocol."""
        admit_request(subject)
        try:
            reply = await self._connection.ask(subject, data, timeout=timeout)
        except LostReplyError as error:
            raise BusError(str(error)) from None
        except ServerRefusalError as refused:
            if not refused.temporary:
                raise
            raise NoResponderError(str(refused)) from None
        if (why := reply.headers.get(_FAILED)) is not None:
            raise BusError(f"{subject} failed: {why}")
        return reply.data

    @asynccontextmanager
    async def serve(self, subject: str, respond: Responder) -> AsyncIterator[None]:
        """Answer requests on `subject` while entered."""
        room = asyncio.Semaphore(ANSWERS)
        async with OwnedTasks() as answering:

            async def asked(message: Msg) -> None:  # nats-py waits for it before the next one: the work is a task
                if message.reply.startswith("$JS.ACK."):
                    return  # an event: a reader can have it delivered to any subject
                await room.acquire()
                task = answering.start(self._answer(respond, message), name=f"conch.bus.answer.{subject}")
                task.add_done_callback(lambda _: room.release())

            subscription = await self._connection.client.subscribe(subject, cb=asked)
            try:
                # Once entered, requests arrive and are answered. Not nats-py's flush: it fails where the server dies
                # meanwhile, and on Python 3.11 it swallows a cancellation that comes with the reply.
                await self._connection.api("INFO")
                yield
            finally:
                await self._unsubscribe(subscription)
            if answering.running:
                await asyncio.wait(answering.running)

    async def _answer(self, respond: Responder, message: Msg) -> None:
        reply = headers = b""
        try:
            reply = await respond(message.subject, message.data)
        except Exception as error:
            log.warning("bus.answer_failed", subject=message.subject, error=f"{type(error).__name__}: {error}")
            why = " ".join(f"{type(error).__name__}: {error}"[:500].split())
            headers = f"{_FAILED}:{why}\r\n".encode("utf-8", "replace")
        if message.reply:
            try:
                await self._connection.send(message.reply, reply, headers=headers)
            except (LostReplyError, BusError) as error:
                log.warning("bus.answer_lost", subject=message.subject, error=str(error))

    async def _unsubscribe(self, subscription: Subscription) -> None:
        try:
            await subscription.unsubscribe()
        except Error as error:
            log.debug("bus.unsubscribe_failed", error=str(error))  # already unsubscribed, or the connection is closed

    async def _ensure(self) -> None:
        """Make stream and bucket where they are missing; existing ones keep their settings."""
        said = self._connection.said
        patience = PATIENCE if self._connection.is_cluster else JETSTREAM_SECONDS
        if not said.get("jetstream"):
            patience = 1.0
        try:
            info = await self._connection.api("INFO", patience=patience)
        except ServerRefusalError as error:
            raise BusUnreachableError(f"the bus lets us have no JetStream ({error}): enable it there") from error
        check_server(info, version=str(said.get("version")), strict=self._strict)
        bucket = await self._made(
            {
                "name": BUCKET_STREAM,
                "subjects": [key_subject(">")],
                "max_msgs_per_subject": 1,
                "max_bytes": -1,
                "allow_rollup_hdrs": False,  # a roll-up on one key can delete all keys
                "deny_delete": True,
                "metadata": {KEY_WORDS: "1"},
            }
        )
        if KEY_WORDS not in (bucket["config"].get("metadata") or {}):
            await self._part_keys(bucket["config"])
        stream = await self._made(
            {
                "name": STREAM,
                "subjects": list(STREAM_SUBJECTS),
                "max_bytes": self._max_bytes,
                "duplicate_window": DEDUPE_SECONDS * _SECOND,
                "max_msgs_per_subject": -1,
                "allow_rollup_hdrs": False,
                "metadata": {EPOCH: str(uuid.uuid4())},
            }
            | ({"allow_atomic": True} if self._strict else {})
        )
        await self._name_epoch(stream)

    async def _part_keys(self, config: JsonObject) -> None:
        """Rename each key of a bucket that was made before keys had parts. A second call finds none."""
        for subject in [place for place in await self._places() if "/" in place]:
            found = await self._message(BUCKET_STREAM, {"last_by_subj": subject})
            if found is not None:
                with contextlib.suppress(FencedError):  # somebody who entered at the same moment did it
                    await self.put(subject_key(subject), found.data, revision=0)
            await self._connection.api(f"STREAM.PURGE.{BUCKET_STREAM}", {"filter": subject})
        metadata = (config.get("metadata") or {}) | {KEY_WORDS: "1"}
        await self._connection.api(f"STREAM.UPDATE.{BUCKET_STREAM}", config | {"metadata": metadata})

    async def _name_epoch(self, info: JsonObject) -> None:
        """Keep the stream's epoch in the bucket too. A server that finds the stream's metadata damaged forgets the
        stream; made again, the stream comes back with its events, and gets its old epoch from here."""
        found = (info["config"].get("metadata") or {}).get(EPOCH)
        known = await self.get(EPOCH)
        if found is None or (known is not None and known.value == found.encode()):
            return
        if known is not None and info["state"]["last_seq"] > 0:
            log.error("bus.stream_recovered", messages=info["state"]["messages"], last=info["state"]["last_seq"])
            metadata = info["config"]["metadata"] | {EPOCH: known.value.decode()}
            await self._connection.api(f"STREAM.UPDATE.{STREAM}", info["config"] | {"metadata": metadata})
        else:
            try:
                await self.put(EPOCH, found.encode(), revision=known.revision if known is not None else 0)
            except FencedError:
                log.debug("bus.epoch_named")  # by another client that entered at the same moment

    async def _made(self, config: JsonObject) -> JsonObject:
        asked = config | {
            "retention": "limits",
            "discard": "new",
            "storage": "file",
            "num_replicas": self._replicas,
            "max_msgs": -1,
            "max_age": 0,
        }
        name = config["name"]
        info = await self._found(name)
        if info is None:
            try:
                info = await self._connection.api(f"STREAM.CREATE.{name}", asked)
            except ServerRefusalError as refused:
                info = await self._found(name)  # another client that entered at the same moment made it
                if info is None:
                    raise BusError(
                        f"the stream {name} is not there and could not be made: {refused}{self._advice(refused)}"
                    ) from refused
        config = info["config"]
        news = changed(asked, config, _CHANGED)
        check_stream(asked | {field: config.get(field) for field in news}, config)  # before a foreign stream is changed
        if news:
            try:
                info = await self._connection.api(f"STREAM.UPDATE.{name}", config | news)
            except ServerRefusalError as refused:
                raise BusError(
                    f"the stream {name} could not be changed to {news}: {refused}{self._advice(refused)}"
                ) from refused
            check_stream(asked, info["config"])
        return info

    def _advice(self, refused: ServerRefusalError) -> str:
        if refused.code == DENIED:
            return "; start conch run first, whose user may"
        return f"; bus.replicas: {self._replicas} needs a cluster of as many servers" if self._replicas > 1 else ""

    async def _found(self, name: str) -> JsonObject | None:
        try:
            return await self._connection.api(f"STREAM.INFO.{name}")
        except ServerRefusalError as error:
            if error.code == _NO_STREAM:
                return None
            raise BusUnreachableError(f"the server refused JetStream: {error}") from error


def _sequence(acknowledgement: bytes) -> int:
    """The sequence in a publish acknowledgement. Raises RefusedError with the server's words for anything else."""
    reply = json.loads(acknowledgement)
    if (error := reply.get("error")) is not None:
        code = int(error.get("err_code", 0))
        temporary = code in FULL or error.get("code") == 503
        raise ServerRefusalError(f"the bus refused: {error.get('description')}", code, temporary=temporary)
    return int(reply["seq"])


def _seconds(time: str) -> float:
    """Seconds since the epoch from RFC 3339 with nanoseconds: more digits than fromisoformat accepts."""
    whole = int(datetime.fromisoformat(time[:19] + "+00:00").timestamp())
    fraction = time[19:].rstrip("Z").removeprefix(".")
    return (whole * _SECOND + int(fraction.ljust(9, "0"))) / _SECOND


def _reader_state(info: JsonObject) -> ReaderState:
    """The state in a consumer's info; an ephemeral consumer gets an empty name."""
    config = info["config"]
    return ReaderState(
        name=info["name"] if config.get("durable_name") else "",
        acknowledged=max(info["ack_floor"]["stream_seq"], config.get("opt_start_seq", 1) - 1),
        pending=info["num_pending"] + info["num_ack_pending"],
        delivered=info["delivered"]["stream_seq"],
        undelivered=info["num_pending"],
        redelivered=info["num_redelivered"],
    )
