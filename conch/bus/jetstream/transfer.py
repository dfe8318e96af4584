"""A stream as the server packs and unpacks it: its messages under their sequences, its description, its durables."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

from conch.bus.jetstream.connection import Connection, LostReplyError, ServerRefusalError
from conch.bus.jetstream.wire import frame
from conch.errors import BusError

CHUNK = 128 * 1024
STALL_SECONDS = 30.0
"""A server that sends nothing for so long sends nothing more."""
UNPACK_SECONDS = 900.0
"""Time for the server to read what it was sent."""
NO_STREAM = 10059


async def pack(
    connection: Connection, stream: str, begin: Callable[[dict[str, Any], dict[str, Any]], Callable[[bytes], None]]
) -> None:
    """Have the server send all of a stream, as of one moment, while others go on reading and writing.

    `begin(config, state)` gives what takes the chunks. Raises BusError when the server refuses or stops on the way,
    and what the taker raises.
    """
    subject = connection.client.new_inbox()
    waiting: asyncio.Queue[tuple[bytes, bytes, bytes]] = asyncio.Queue()  # bounded by the server's window
    subscription = await connection.subscribe(
        subject, lambda _, reply, header, data: waiting.put_nowait((reply, header, data))
    )
    try:
        request = {"deliver_subject": subject, "chunk_size": CHUNK, "no_consumers": False}
        told = await _asked(connection, f"$JS.API.STREAM.SNAPSHOT.{stream}", json.dumps(request).encode())
        take = begin(told["config"], told["state"])
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


async def unpack(
    connection: Connection, config: dict[str, Any], state: dict[str, Any], chunks: Iterable[bytes]
) -> dict[str, Any]:
    """Make a stream of what `pack` brought, where there is none of that name; what the server says of it then.

    It is there whole or not at all. Raises BusError when the server refuses.
    """
    name = config["name"]
    request = json.dumps({"config": config, "state": state}).encode()
    subject = (await _asked(connection, f"$JS.API.STREAM.RESTORE.{name}", request))["deliver_subject"]
    for chunk in chunks:
        await _asked(connection, subject, chunk)
    return await _asked(connection, subject, b"", timeout=UNPACK_SECONDS)


async def described(connection: Connection, stream: str) -> dict[str, Any] | None:
    """What the server says of a stream; None when there is none."""
    try:
        return await connection.api(f"STREAM.INFO.{stream}")
    except ServerRefusalError as error:
        if error.code != NO_STREAM:
            raise
        return None


async def _asked(
    connection: Connection, subject: str, data: bytes, *, timeout: float = STALL_SECONDS
) -> dict[str, Any]:
    """Not asked again where the reply is lost: the server would begin a second time."""
    try:
        reply = await connection.ask(subject, data, timeout=timeout)
    except LostReplyError as error:
        raise BusError(f"the connection went on the way: {error}") from None
    found: dict[str, Any] = json.loads(reply.data or b"{}")
    if (refused := found.get("error")) is not None:
        raise BusError(f"the server refused it: {refused.get('description')}")
    return found
