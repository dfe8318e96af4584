"""Connections to MCP servers with bounds: a line, a reply and a number of messages that a server may send.

The transports of the package `mcp` read a line of any length, and a JSON reply of any length. The process of a server
is one of `conch.processes`: it ends with this one, and all that it started with it.
"""

from __future__ import annotations

import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import mcp_types
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from pydantic import JsonValue, RootModel

from conch.clients import http_tls
from conch.processes import PluginProcess, WorkerGoneError
from conch_schemas import JsonObject

MOST_MESSAGES, MESSAGES_SECONDS = 1000, 1.0
"""Messages within so many seconds beyond which a server floods. A listing and a call's progress take some 10."""
Streams = tuple[anyio.abc.ObjectReceiveStream[SessionMessage | Exception], anyio.abc.ObjectSendStream[SessionMessage]]


_UNREAD = "unread:"
"""Before a method: its result comes as it was sent."""


class _UnreadResult(RootModel[dict[str, JsonValue]]):
    """Any object."""


class UnreadDispatcher(JSONRPCDispatcher[Any]):
    """Sends requests for `unread_result`. A session checks the result of every method that it knows as a whole, so that
    one wrong entry of a list would take the list."""

    async def send_raw_request(self, method: str, *args: Any, **kwargs: Any) -> JsonObject:
        """See JSONRPCDispatcher."""
        return await super().send_raw_request(method.removeprefix(_UNREAD), *args, **kwargs)


async def unread_result(
    session: ClientSession, method: str, params: dict[str, JsonValue] | None
) -> dict[str, JsonValue]:
    """The result of a request as the server sent it. The session's dispatcher is an UnreadDispatcher."""
    request = mcp_types.Request[dict[str, JsonValue] | None, str](method=_UNREAD + method, params=params)
    return (await session.send_request(request, _UnreadResult)).root


class FloodGuard:
    """Counts what a server sends."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._times = clock, deque[float](maxlen=MOST_MESSAGES)

    def count(self) -> bool:
        """Count a message; whether the server floods."""
        now = self._clock()
        is_full = len(self._times) == MOST_MESSAGES and now - self._times[0] < MESSAGES_SECONDS
        self._times.append(now)
        return is_full


@asynccontextmanager
async def process_streams(process: PluginProcess, ended: Callable[[str], None]) -> AsyncIterator[Streams]:
    """The messages of a server that is a process; `ended` is called with the reason when it sends no more."""
    read_in, read_out = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_in, write_out = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        guard = FloodGuard()
        try:
            while True:
                line = await process.line()
                if guard.count():
                    raise WorkerGoneError(f"it sent more than {MOST_MESSAGES} messages in {MESSAGES_SECONDS:g} s")
                try:
                    message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    continue  # a line of a log, as some servers write to stdout
                await read_in.send(SessionMessage(message))
        except WorkerGoneError as gone:
            if process.returncode is None:
                ended(str(gone))
            else:
                await process.heard_all()
                ended(f"{gone}{process.last_words()}")
        except ValueError:
            ended("it sent a message that is longer than output_kib allows")
        finally:
            read_in.close()

    async def write() -> None:
        async for message in write_out:
            data = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.tell(data.encode() + b"\n")

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(write)
        try:
            yield read_out, write_in
        finally:
            group.cancel_scope.cancel()
            for stream in (read_in, read_out, write_in, write_out):
                stream.close()


@asynccontextmanager
async def http_streams(url: str, headers: Mapping[str, str], seconds: float, most: int) -> AsyncIterator[Streams]:
    """The messages of a server at an address; a reply may have `most` bytes. No proxy of the environment is used.

    Raises ClientEnvironmentError."""
    async with (
        httpx2.AsyncClient(
            headers=dict(headers),
            timeout=httpx2.Timeout(seconds, read=None),
            trust_env=False,
            transport=_BoundedTransport(most, http_tls(url)),
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=most) as streams,
    ):
        yield streams  # type: ignore[misc]


class _BoundedTransport(httpx2.AsyncHTTPTransport):
    """Ends a JSON reply that is longer than `most` bytes; streams of events are bounded by their reader."""

    def __init__(self, most: int, tls: ssl.SSLContext) -> None:
        super().__init__(verify=tls, trust_env=False)
        self._most = most

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Bounded(response.stream, self._most)
        return response


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream, self._left = stream, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._left -= len(piece)
            if self._left < 0:
                raise httpx2.ReadError("the reply is longer than output_kib allows")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()
