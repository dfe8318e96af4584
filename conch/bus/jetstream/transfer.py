"""Snapshot and restore of a JetStream stream: messages with their sequences, configuration and durable consumers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import NamedTuple

from conch.bus.jetstream.connection import Connection, LostReplyError, ServerRefusalError
from conch.bus.jetstream.wire import frame
from conch.errors import BusError
from conch_schemas import JsonObject

CHUNK = 128 * 1024
STALL_SECONDS = 30.0
"""Seconds without a chunk after which a snapshot has failed."""
UNPACK_SECONDS = 900.0
"""Seconds that the server may take to restore a stream."""
NO_STREAM = 10059


class StreamDescription(NamedTuple):
    """A stream as its server describes it, in the server's own JSON."""

    config: JsonObject
    state: JsonObject
    """Sequences, messages and bytes."""


async def pack(
    connection: Connection, stream: str, begin: Callable[[StreamDescription], Callable[[bytes], None]]
) -> None:
    """Stream a snapshot of a stream, as of one moment, while other clients go on reading and writing.

    `begin` gets the description and returns the function that takes the chunks. Raises BusError when the server refuses
    or stops on the way, and what that function raises.
    """
    subject = connection.client.new_inbox()
    waiting: asyncio.Queue[tuple[bytes, bytes, bytes]] = asyncio.Queue()  # bounded by the server's window
    subscription = await connection.subscribe(
        subject, lambda _, reply, header, data: waiting.put_nowait((reply, header, data))
    )
    try:
        request = {"deliver_subject": subject, "chunk_size": CHUNK, "no_consumers": False}
        told = await _asked(connection, f"$JS.API.STREAM.SNAPSHOT.{stream}", json.dumps(request).encode())
        take = begin(StreamDescription(told["config"], told["state"]))
        while True:
            reply, header, data = await _next(waiting, stream)
            if not data:
                break
            take(data)
            if reply:
                connection.write(frame(reply.decode(), b"", b"", b""))
    finally:
        await connection.unsubscribe(subscription)
    if header and b" 204" not in header:
        raise BusError(f"the server stopped packing the stream {stream}: {header.decode(errors='replace').strip()}")


async def _next(waiting: asyncio.Queue[tuple[bytes, bytes, bytes]], stream: str) -> tuple[bytes, bytes, bytes]:
    try:
        async with asyncio.timeout(STALL_SECONDS):
            return await waiting.get()
    except TimeoutError:
        raise BusError(f"the server has sent nothing of the stream {stream} for {STALL_SECONDS:g} s") from None


async def unpack(connection: Connection, config: JsonObject, state: JsonObject, chunks: Iterable[bytes]) -> JsonObject:
    """Restore a stream from what `pack` brought, where there is none of that name; returns the server's description of
    it.

    The restore is complete or has no effect. Raises BusError when the server refuses.
    """
    name = config["name"]
    request = json.dumps({"config": config, "state": state}).encode()
    subject = (await _asked(connection, f"$JS.API.STREAM.RESTORE.{name}", request))["deliver_subject"]
    for chunk in chunks:
        await _asked(connection, subject, chunk)
    return await _asked(connection, subject, b"", timeout=UNPACK_SECONDS)


async def described(connection: Connection, stream: str) -> JsonObject | None:
    """The server's description of a stream; None when there is none."""
    try:
        return await connection.api(f"STREAM.INFO.{stream}")
    except ServerRefusalError as error:
        if error.code != NO_STREAM:
            raise
        return None


async def _asked(connection: Connection, subject: str, data: bytes, *, timeout: float = STALL_SECONDS) -> JsonObject:
    """One request that is not repeated where the reply is lost: the server would begin a second time."""
    try:
        reply = await connection.ask(subject, data, timeout=timeout)
    except LostReplyError as error:
        raise BusError(f"the connection went on the way: {error}") from None
    found: JsonObject = json.loads(reply.data or b"{}")
    if (refused := found.get("error")) is not None:
        raise BusError(f"the server refused it: {refused.get('description')}")
    return found
