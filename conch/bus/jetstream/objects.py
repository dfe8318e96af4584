"""The object store: files beside the stream, in chunks, as NATS clients keep them (ADR-20), so that `nats object` reads
them too. nats-py's own client would read by a push subscription, which drops messages at its limit."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import uuid
from collections.abc import Sequence
from typing import BinaryIO, Final

from conch.bus.jetstream.connection import Connection, LostReplyError, ServerRefusalError
from conch.bus.jetstream.names import OBJECT_STREAM, chunk_subject, object_name, object_subject
from conch.errors import BusError
from conch.retry import BUS_REQUEST
from conch_schemas import JsonObject

CHUNK: Final = 128 * 1024
"""Bytes of a chunk."""
_MISSING: Final = {10037, 10059}
"""Error codes: no message found, no such stream."""


class JetStreamObjects:
    """The objects of one server. Their stream is made when the first one is stored."""

    def __init__(self, connection: Connection, replicas: int) -> None:
        self._connection, self._replicas = connection, replicas

    async def put(self, name: str, file: BinaryIO) -> None:
        """Store a file's content; see the protocol."""
        digest, size = _digest(file)
        before = await self._found(name)
        if before is not None and (before["digest"], before["size"]) == (digest, size):
            return
        await self._ensure()
        nuid, chunks = uuid.uuid4().hex, 0
        while chunk := file.read(CHUNK):
            await self._stored(chunk_subject(nuid), chunk, b"Nats-Msg-Id: %s.%d\r\n" % (nuid.encode(), chunks))
            chunks += 1
        told = {"name": name, "nuid": nuid, "size": size, "chunks": chunks, "digest": digest}
        meta = json.dumps(told | {"bucket": "conch", "options": {"max_chunk_size": CHUNK}}).encode()
        await self._stored(object_subject(name), meta, b"Nats-Rollup: sub\r\n")
        if before is not None:
            await self._purge(chunk_subject(str(before["nuid"])))

    async def get(self, name: str, file: BinaryIO, *, most: int) -> bool:
        """Write an object's content to a file; see the protocol."""
        told = await self._found(name)
        if told is None:
            return False
        if int(told["size"]) > most:
            raise BusError(f"the object {name} has {told['size']} bytes, at most {most} are read")
        subject, hashed, seq, size = chunk_subject(str(told["nuid"])), hashlib.sha256(), 1, 0
        while size < int(told["size"]) and (found := await self._message({"seq": seq, "next_by_subj": subject})):
            data = base64.b64decode(found.get("data", ""))
            hashed.update(data)
            file.write(data)
            size, seq = size + len(data), int(found["seq"]) + 1
        if size != int(told["size"]) or _encoded(hashed.digest()) != told["digest"]:
            raise BusError(f"the object {name} is not whole on the bus: store it again")
        return True

    async def names(self) -> Sequence[str]:
        """The names of all objects."""
        found: list[str] = []
        while True:
            body = {"subjects_filter": object_subject(">"), "offset": len(found)}
            try:
                info = await self._connection.api(f"STREAM.INFO.{OBJECT_STREAM}", body)
            except ServerRefusalError as error:
                if error.code in _MISSING:
                    return []
                raise
            subjects = info["state"].get("subjects") or {}
            found += subjects
            if not subjects or len(found) >= info.get("total", len(found)):
                return sorted(object_name(subject) for subject in found)

    async def drop(self, name: str) -> None:
        """Remove an object; one that is not there is no error."""
        told = await self._found(name)
        if told is not None:
            await self._purge(object_subject(name))
            await self._purge(chunk_subject(str(told["nuid"])))

    async def _found(self, name: str) -> JsonObject | None:
        message = await self._message({"last_by_subj": object_subject(name)})
        if message is None:
            return None
        try:
            told: JsonObject = json.loads(base64.b64decode(message.get("data", "")))
            return told | {"size": int(told["size"]), "digest": str(told["digest"]), "nuid": str(told["nuid"])}
        except (ValueError, KeyError, TypeError) as error:
            raise BusError(f"the object {name} has no description that can be read: store it again") from error

    async def _message(self, body: JsonObject) -> JsonObject | None:
        try:
            found: JsonObject = (await self._connection.api(f"STREAM.MSG.GET.{OBJECT_STREAM}", body))["message"]
        except ServerRefusalError as error:
            if error.code in _MISSING:
                return None
            raise
        return found

    async def _stored(self, subject: str, data: bytes, headers: bytes) -> None:
        """Publish until the server has stored it; a lost reply is asked for again."""
        tries = 0
        while True:
            tries += 1
            await self._connection.wait()
            try:
                reply = json.loads((await self._connection.ask(subject, data, headers=headers)).data)
            except LostReplyError:
                reply = None
            except ServerRefusalError as error:
                if not error.temporary:
                    raise
                reply = None
            if reply is not None:
                if (error_said := reply.get("error")) is not None:
                    raise BusError(f"the bus keeps no more objects: {error_said.get('description')}")
                return
            await asyncio.sleep(BUS_REQUEST.after(tries))

    async def _purge(self, subject: str) -> None:
        await self._connection.api(f"STREAM.PURGE.{OBJECT_STREAM}", {"filter": subject})

    async def _ensure(self) -> None:
        try:
            await self._connection.api(f"STREAM.INFO.{OBJECT_STREAM}")
            return
        except ServerRefusalError as error:
            if error.code not in _MISSING:
                raise
        config = {
            "name": OBJECT_STREAM,
            "subjects": [chunk_subject(">"), object_subject(">")],
            "allow_rollup_hdrs": True,
            "discard": "new",
            "storage": "file",
            "num_replicas": self._replicas,
        }
        await self._connection.api(f"STREAM.CREATE.{OBJECT_STREAM}", config)


def _digest(file: BinaryIO) -> tuple[str, int]:
    """The digest of a file's content, and its bytes; the file is at its beginning afterwards."""
    hashed, size = hashlib.sha256(), 0
    while chunk := file.read(CHUNK):
        hashed.update(chunk)
        size += len(chunk)
    file.seek(0)
    return _encoded(hashed.digest()), size


def _encoded(digest: bytes) -> str:
    return f"SHA-256={base64.urlsafe_b64encode(digest).decode()}"
