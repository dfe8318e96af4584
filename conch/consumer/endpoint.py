"""A small HTTP server for programs that ask one thing: GET and HEAD, one request a connection, no body.

Everything that a stranger could stretch is bounded: the head of a request, the time of an exchange, the connections.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Self

import structlog

from conch.errors import ConchError

log = structlog.get_logger(__name__)

MOST_HEAD = 16 * 1024
"""Bytes of a request's head; a longer one is refused."""
MOST_CONNECTIONS = 64
"""At once; one more, and the oldest is closed."""
EXCHANGE_SECONDS = 5.0
"""From the connection to its end; then it is closed as it is."""


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    method: str
    path: str
    """Without the query."""
    accept: str = ""


@dataclass(frozen=True)
class Response:
    """What is answered."""

    body: bytes
    status: int = 200
    type: str = "text/plain; charset=utf-8"


def parse(head: bytes) -> Request | None:
    """The request whose head this is, or None where it is no HTTP/1 request."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return None
    headers = {name.strip().lower(): value for name, _, value in (line.partition(":") for line in lines)}
    return Request(words[0], words[1].partition("?")[0], headers.get("accept", ""))


def listen(host: str, port: int, advice: str) -> socket.socket:
    """A socket that listens at `port` of `host`, a name or an address of this machine; 0: at a free port.

    Raises ConchError when it cannot be had, which ends with `advice`.
    """
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be had ({error.strerror})"
        raise ConchError(f"port {port} of {host} {why}: {advice}") from None


def health_of(path: str, ready: bool) -> Response | None:
    """What /healthz and /readyz answer, which say nothing but that; None for another path."""
    match path:
        case "/healthz":
            return Response(b"ok\n")
        case "/readyz":
            return Response(b"ready\n") if ready else Response(b"not ready\n", 503)
    return None


class Endpoint:
    """The server. Entered, it answers with `answer`; left, every connection and `listening` are closed."""

    def __init__(self, listening: socket.socket, answer: Callable[[Request], Response]) -> None:
        self._listening, self._answer = listening, answer
        host, port = listening.getsockname()[:2]
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        self._open: dict[asyncio.Task[None], None] = {}
        """One task a connection, the oldest first."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, sock=self._listening, limit=MOST_HEAD)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MOST_CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.cancel()
        task = asyncio.create_task(self._exchange(reader, writer), name="conch.endpoint.request")
        self._open[task] = None
        # Not in the task itself: one that is cancelled before its first step runs no `finally`.
        task.add_done_callback(partial(self._over, writer))

    def _over(self, writer: asyncio.StreamWriter, task: asyncio.Task[None]) -> None:
        self._open.pop(task, None)
        writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=0)  # drained means: the kernel has all of it
        try:
            async with asyncio.timeout(EXCHANGE_SECONDS):
                writer.write(await self._reply(reader))
                await writer.drain()
                await _linger(reader, writer)
        except (OSError, EOFError) as error:  # a timeout is an OSError
            log.debug("endpoint.connection_lost", error=f"{type(error).__name__}: {error}")

    async def _reply(self, reader: asyncio.StreamReader) -> bytes:
        try:
            request = parse(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            return render(None, Response(b"the head of the request is too long\n", 431))
        if request is None:
            return render(None, Response(b"this is no HTTP/1 request\n", 400))
        if request.method not in ("GET", "HEAD"):
            return render(request, Response(b"GET or HEAD\n", 405))
        try:
            return render(request, self._answer(request))
        except Exception:
            log.exception("endpoint.answer_failed")
            return render(request, Response(b"this failed here; the log says why\n", 500))


async def _linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say that we are done, and read on a little: closing on unread bytes resets the connection, the answer with it."""
    writer.write_eof()
    for _ in range(64):
        if not await reader.read(MOST_HEAD):
            return


def render(request: Request | None, response: Response) -> bytes:
    """The bytes of a response."""
    lines = [
        f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}",
        f"Content-Type: {response.type}",
        f"Content-Length: {len(response.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    if response.status == 405:
        lines.append("Allow: GET, HEAD")
    head = "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"
    return head if request is not None and request.method == "HEAD" else head + response.body
