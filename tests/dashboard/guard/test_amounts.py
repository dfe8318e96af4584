"""With how much one comes: large bodies, large heads, half a request."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack

import pytest

from conch_services.dashboard.security import TimedHttpProtocol, connection, guard
from conch_services.dashboard.security.guard import MOST_BODY, MOST_HEAD
from tests.dashboard.conftest import Dashboard
from tests.dashboard.guard.conftest import get, raw


async def test_a_body_that_is_too_large_is_refused(dashboard: Dashboard) -> None:
    """By what it says of itself, and by what really comes; one that just fits is read."""

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * (MOST_BODY // 16)

    said = await dashboard.client.post("/login", content=b"x" * (MOST_BODY + 1))
    came = await dashboard.client.post("/login", content=pieces())
    fits = await dashboard.client.post("/login", content=b"x" * MOST_BODY)

    assert (said.status_code, came.status_code, fits.status_code) == (413, 413, 401)
    assert (await dashboard.client.get("/")).status_code == 200


async def test_a_head_that_is_too_large_is_refused(dashboard: Dashboard) -> None:
    """By its line, a cookie, or many headers; also before all of it has come."""
    long = "a" * MOST_HEAD
    for request in (
        get(f"/{long}", dashboard),
        get(f"/?{long}", dashboard),
        get("/", dashboard).replace(b"\r\n\r\n", f"\r\nCookie: {long}\r\n\r\n".encode()),
        get("/", dashboard).replace(b"\r\n\r\n", b"\r\nX-A: 123456" * 2000 + b"\r\n\r\n"),
        get("/", dashboard).replace(b"\r\n\r\n", f"\r\nCookie: {long}".encode()),
    ):
        assert (await raw(dashboard, request)).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))


async def test_a_request_of_two_lengths_is_refused(dashboard: Dashboard) -> None:
    """A proxy before us may go by the other one, and take what follows for a request of somebody else's."""
    own = dashboard.address[7:]
    inner = f"GET /healthz HTTP/1.1\r\nHost: {own}\r\n\r\n"
    lengths = f"Content-Length: {5 + len(inner)}\r\nTransfer-Encoding: chunked\r\n"
    head = f"POST /login HTTP/1.1\r\nHost: {own}\r\n{lengths}\r\n"

    said = await raw(dashboard, f"{head}0\r\n\r\n{inner}".encode())

    assert (said.count(b"HTTP/1.1 "), said[:13]) == (1, b"HTTP/1.1 400 ")


async def test_who_reads_no_answer_is_hung_up_on(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch, until: Callable[..., Awaitable[None]]
) -> None:
    """However much was asked for; others are served meanwhile."""
    lost: list[TimedHttpProtocol] = []
    hear = TimedHttpProtocol.connection_lost

    def told(connection: TimedHttpProtocol, error: Exception | None) -> None:
        lost.append(connection)
        hear(connection, error)

    monkeypatch.setattr(TimedHttpProtocol, "connection_lost", told)
    monkeypatch.setattr(connection, "UNREAD_SECONDS", 1.0)
    asked = get("/static/vendor/uPlot.esm.js", dashboard).replace(b"Connection: close\r\n", b"") * 100
    address = ("127.0.0.1", int(dashboard.address.rpartition(":")[2]))
    with ExitStack() as opened:
        for _ in range(20):
            silent = opened.enter_context(socket.create_connection(address))
            silent.setblocking(False)
            silent.send(asked)

        assert (await dashboard.client.get("/")).status_code == 200
        await until(lambda: len(lost) >= 20, 30)


async def test_who_says_half_a_request_holds_up_nobody(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are served meanwhile; after a while he is hung up on, also in the middle of a second request or a body."""
    port = int(dashboard.address.rpartition(":")[2])
    host = f"Host: {dashboard.address[7:]}\r\n".encode()
    async with AsyncExitStack() as opened:

        async def say(words: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            opened.callback(writer.close)
            writer.write(words)
            return reader, writer

        again = [await say(b"GET /healthz HTTP/1.1\r\n" + host + b"\r\n") for _ in range(20)]
        for reader, _ in again:
            assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 ")
        monkeypatch.setattr(connection, "HEAD_SECONDS", 1.0)
        monkeypatch.setattr(guard, "BODY_SECONDS", 1.0)
        half = [await say(b"GET / HTTP/1.1\r\nHos") for _ in range(20)]
        for _, writer in again:
            writer.write(b"GET / HTTP/1.1\r\nHos")
        body = b"POST /login HTTP/1.1\r\n" + host + b"Content-Length: 100\r\n\r\ntoken="
        slow = [await say(body) for _ in range(20)]

        assert (await dashboard.client.get("/")).status_code == 200
        async with asyncio.timeout(30):
            assert {await reader.read() for reader, _ in (*again, *half)} == {b""}
            assert {(await reader.read())[:13] for reader, _ in slow} == {b"HTTP/1.1 408 "}
