"""A small HTTP server for scrapes and health checks: GET and HEAD, one request a connection, no body.

Everything that a client could make large or slow is bounded: the head of a request, the time of an exchange, the
connections. On loopback it answers only requests that name this machine in Host.

uvicorn, which serves the dashboard, and the WSGI server of prometheus-client were looked at. Neither limits the time of
an exchange nor makes room for a new connection when old ones say nothing; uvicorn adds 30 ms to the start of each
process of consumers.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from threading import Thread
from typing import Self

from conch.config.model import is_loopback
from conch.errors import ConchError
from conch.log import get_logger
from conch.tasks import OwnedTasks

log = get_logger(__name__)

MOST_HEAD = 16 * 1024
"""Bytes of a request's head; a longer one is refused."""
MOST_CONNECTIONS = 64
"""At once; one more, and the oldest is closed."""
EXCHANGE_SECONDS = 5.0
"""Longest time in which a request comes, and in which its answer is taken; then the connection is closed as it is."""
ANSWER_SECONDS = 30.0
"""Longest time in which an answer is made: a scrape with the labels of 1,000 agents takes seconds on a busy machine."""
FOREIGN_HOST = b"this address is not known here: ask by 127.0.0.1 or localhost, or by the host that the settings name\n"

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+))(?::\d{1,5})?")
"""A host, perhaps a port, and nothing else."""


@dataclass(frozen=True)
class HttpRequest:
    """A parsed request: method, path and the headers that are used."""

    method: str
    path: str
    """Without the query."""
    accept: str = ""
    host: str | None = None
    """The header Host, in small letters; None where there is none, which browsers always send."""


@dataclass(frozen=True)
class HttpResponse:
    """The response to one request."""

    body: bytes
    status: int = 200
    type: str = "text/plain; charset=utf-8"


def parse(head: bytes) -> HttpRequest | None:
    """The parsed request, or None where `head` is no HTTP/1 request or has two Host headers."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return None
    named = [(name.strip().lower(), value) for name, _, value in (line.partition(":") for line in lines)]
    headers = dict(named)
    if sum(name == "host" for name, _ in named) > 1:
        return None
    host = headers["host"].strip().lower() if "host" in headers else None
    return HttpRequest(words[0], words[1].partition("?")[0], headers.get("accept", ""), host)


def names_loopback(host: str) -> bool:
    """Whether this header Host, a name or an address and perhaps a port, means this machine and cannot mean another."""
    found = _HOST.fullmatch(host)
    return found is not None and is_loopback(found[1] or found[2])


def listen(host: str, port: int, advice: str) -> socket.socket:
    """A socket that listens at `port` of `host`, a name or an address of this machine; 0: at a free port.

    Raises ConchError when it cannot be had, which ends with `advice`.
    """
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be had ({error.strerror})"
        raise ConchError(f"port {port} of {host} {why}: {advice}") from None


def health_of(path: str, ready: bool) -> HttpResponse | None:
    """The response to /healthz and /readyz, without any other information; None for another path."""
    match path:
        case "/healthz":
            return HttpResponse(b"ok\n")
        case "/readyz":
            return HttpResponse(b"ready\n") if ready else HttpResponse(b"not ready\n", 503)
    return None


class HttpServer:
    """An HTTP server on one port. Entered, it answers with `answer`; left, every connection and `listening` are
    closed."""

    def __init__(
        self, listening: socket.socket, answer: Callable[[HttpRequest], Awaitable[HttpResponse]], *, named: str
    ) -> None:
        """`named`: what the settings call the host that it listens at, which requests may name as well."""
        self._listening, self._answer, self._named = listening, answer, named.lower()
        host, port = listening.getsockname()[:2]
        self._is_open = not is_loopback(host)
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        self._tasks = OwnedTasks()
        self._open: dict[asyncio.Task[None], None] = {}
        """One task a connection, the oldest first."""
        self._left = False

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, sock=self._listening, limit=MOST_HEAD)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._left = True
        self._server.close()
        await _turns()  # a connection that was just accepted is not among the open ones yet
        await self._tasks.close()
        await _turns()  # the loop may end with the endpoint: by then the sockets are closed
        await self._server.wait_closed()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._left:  # it was accepted in the moment in which the server was left
            writer.transport.abort()
            return
        if len(self._open) >= MOST_CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.cancel()
        task = self._tasks.start(self._exchange(reader, writer), name="conch.endpoint.request")
        self._open[task] = None
        # Not in the task itself: one that is cancelled before its first step runs no `finally`.
        task.add_done_callback(partial(self._over, writer))

    def _over(self, writer: asyncio.StreamWriter, task: asyncio.Task[None]) -> None:
        self._open.pop(task, None)
        writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=0)  # drained means: the kernel has all of it
        try:
            async with asyncio.timeout(EXCHANGE_SECONDS) as limit:
                writer.write(await self._reply(reader, limit))
                limit.reschedule(asyncio.get_running_loop().time() + EXCHANGE_SECONDS)
                await writer.drain()
                await _linger(reader, writer)
        except (OSError, EOFError) as error:  # a timeout is an OSError
            log.debug("endpoint.connection_lost", error=f"{type(error).__name__}: {error}")

    async def _reply(self, reader: asyncio.StreamReader, limit: asyncio.Timeout) -> bytes:
        try:
            request = parse(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            return render(None, HttpResponse(b"the head of the request is too long\n", 431))
        if request is None:
            return render(None, HttpResponse(b"this is no HTTP/1 request\n", 400))
        if not self._is_meant(request.host):
            return render(request, HttpResponse(FOREIGN_HOST, 421))
        if request.method not in ("GET", "HEAD"):
            return render(request, HttpResponse(b"GET or HEAD\n", 405))
        limit.reschedule(asyncio.get_running_loop().time() + ANSWER_SECONDS)
        try:
            return render(request, await self._answer(request))
        except Exception:
            log.exception("endpoint.answer_failed")
            return render(request, HttpResponse(b"this failed here; the log says why\n", 500))

    def _is_meant(self, host: str | None) -> bool:
        """Whether a request with this Host is meant for us.

        On loopback, Host has to name this machine: with DNS rebinding, a foreign page sends its own name. Open to other
        machines, a request with any Host is answered.
        """
        if host is None or self._is_open:
            return True
        return names_loopback(host) or re.sub(r":\d{1,5}$", "", host) == self._named


class ThreadedEndpoint:
    """An endpoint in a thread and an event loop of its own: what fills the caller's loop holds up no answer, and no
    answer holds up the caller's loop. Its `answer` runs in that thread.

    Entered, it answers; left, every connection and the port are closed and the thread has ended. Cancelled while it is
    left, it returns at once, without waiting for the thread.
    """

    def __init__(self, endpoint: HttpServer) -> None:
        self.endpoint = endpoint
        self._started, self._leaving, self._ended = Future[None](), Future[None](), Future[None]()

    async def __aenter__(self) -> Self:
        Thread(target=self._run, name="conch.endpoint", daemon=True).start()
        try:
            await asyncio.shield(asyncio.wrap_future(self._started))
        except asyncio.CancelledError:
            self._leaving.set_result(None)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._leaving.set_result(None)
        # Bounded: the thread is a daemon, and no shutdown may hang on it.
        await asyncio.wait([asyncio.wrap_future(self._ended)], timeout=EXCHANGE_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._started.done():
                log.exception("endpoint.broke")
            else:
                self._started.set_exception(error)
        finally:
            self._ended.set_result(None)

    async def _serve(self) -> None:
        async with self.endpoint:
            self._started.set_result(None)
            await asyncio.wrap_future(self._leaving)


async def _turns() -> None:
    """Let the loop do what it has begun: accepting a connection, and closing one, take it a few turns."""
    for _ in range(5):
        await asyncio.sleep(0)


async def _linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say that we are done, and read on a little: closing on unread bytes resets the connection, the answer with it."""
    writer.write_eof()
    for _ in range(64):
        if not await reader.read(MOST_HEAD):
            return


def render(request: HttpRequest | None, response: HttpResponse) -> bytes:
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
