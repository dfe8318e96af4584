"""The HTTP server: whole answers for those that ask, nothing for the rest, whatever they send."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
import urllib.request
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.consumer.operations import http as module
from conch.consumer.operations.http import HttpRequest, HttpResponse, HttpServer, ThreadedEndpoint, listen, parse
from conch.errors import ConchError

HOST = "127.0.0.1"


async def _answer(request: HttpRequest) -> HttpResponse:
    if request.path == "/broken":
        raise ZeroDivisionError
    return HttpResponse(f"you asked for {request.path}".encode() + b" " * (20_000_000 if request.path == "/big" else 0))


@pytest.fixture
async def endpoint() -> AsyncIterator[HttpServer]:
    """The server on a free port."""
    async with HttpServer(listen(HOST, 0, ""), _answer, named=HOST) as endpoint:
        yield endpoint


async def _open(endpoint: HttpServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(HOST, int(endpoint.address.rpartition(":")[2]))


async def _say(endpoint: HttpServer, *pieces: bytes) -> bytes:
    """What comes back for these bytes; empty when the connection is reset."""
    reader, writer = await _open(endpoint)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_a_request_is_answered_and_the_connection_closed(endpoint: HttpServer) -> None:
    """One exchange: the head says what the body is, then the end."""
    reply = await _say(endpoint, b"GET /metrics?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")

    head, _, body = reply.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Connection: close" in head
    assert b"Content-Length: %d\r\n" % len(body) in head
    assert body == b"you asked for /metrics"


async def test_a_head_may_come_in_pieces(endpoint: HttpServer) -> None:
    """A scraper that sends byte by byte is a scraper."""
    pieces = [bytes([byte]) for byte in b"GET /slow HTTP/1.1\r\n\r\n"]

    assert (await _say(endpoint, *pieces)).endswith(b"you asked for /slow")


async def test_head_gets_no_body(endpoint: HttpServer) -> None:
    """HEAD is GET without its body."""
    reply = await _say(endpoint, b"HEAD /x HTTP/1.1\r\n\r\n")

    assert b"Content-Length: 16" in reply
    assert reply.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", b"405 Method Not Allowed"),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"400 Bad Request"),
        (b"GET /metrics SMTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"\r\n\r\n", b"400 Bad Request"),
        (b"GET /broken HTTP/1.1\r\n\r\n", b"500 Internal Server Error"),
        (b"GET / HTTP/1.1\r\nCookie: " + b"c" * 40_000 + b"\r\n\r\n", b"431 Request Header Fields Too Large"),
    ],
)
async def test_what_cannot_be_answered_is_refused_with_its_status(
    endpoint: HttpServer, sent: bytes, status: bytes
) -> None:
    """And the next one is served as if nothing had been."""
    assert (await _say(endpoint, sent)).startswith(b"HTTP/1.1 " + status)

    assert (await _say(endpoint, b"GET /next HTTP/1.1\r\n\r\n")).endswith(b"/next")


async def test_a_body_after_the_head_does_not_cost_the_answer(endpoint: HttpServer) -> None:
    """What nobody asked for is read away before the connection is closed: else the answer would be lost with it."""
    reply = await _say(endpoint, b"GET /x HTTP/1.1\r\n\r\n" + b"b" * 300_000)

    assert reply.endswith(b"you asked for /x")


async def test_who_stops_sending_early_still_gets_the_whole_answer(endpoint: HttpServer) -> None:
    """As `nc -N` does: the request, the end of what it says, and only then does it read, at its leisure."""
    reader, writer = await _open(endpoint)
    writer.write(b"GET /big HTTP/1.1\r\n\r\n")
    writer.write_eof()

    reply = await reader.read()

    writer.close()
    assert len(reply.partition(b"\r\n\r\n")[2]) == 20_000_000 + len("you asked for /big")


async def test_random_bytes_end_nothing(endpoint: HttpServer) -> None:
    """Noise of any length, from many at once, and then a request."""
    draw = random.Random(7)
    noise = [draw.randbytes(draw.randrange(1, 60_000)) + b"\r\n\r\n" for _ in range(100)]

    replies = await asyncio.gather(*(_say(endpoint, sent) for sent in noise))

    assert all(reply == b"" or reply.startswith(b"HTTP/1.1 4") for reply in replies)
    assert (await _say(endpoint, b"GET /x HTTP/1.1\r\n\r\n")).endswith(b"/x")


@given(st.one_of(st.binary(), st.text().map(lambda text: f"GET /{text} HTTP/1.1\r\nAccept: {text}".encode())))
def test_any_head_is_a_request_or_none(head: bytes) -> None:
    """Reading a head raises nothing."""
    request = parse(head)

    assert request is None or isinstance(request, HttpRequest)


def test_what_a_scraper_accepts_is_read_whatever_its_case() -> None:
    """Names of headers have no case."""
    assert parse(b"GET /m?a=b HTTP/1.0\r\nACCEPT:  text/plain\r\n") == HttpRequest("GET", "/m", "  text/plain")


async def test_half_open_connections_leave_room_for_a_scraper(endpoint: HttpServer) -> None:
    """However many connect and say nothing: the oldest of them gives way."""
    silent = [await _open(endpoint) for _ in range(module.MOST_CONNECTIONS * 2)]

    async with asyncio.timeout(module.EXCHANGE_SECONDS / 2):
        reply = await _say(endpoint, b"GET /x HTTP/1.1\r\n\r\n")
        first = await silent[0][0].read()

    assert reply.endswith(b"/x")
    assert first == b""
    for _, writer in silent:
        writer.transport.abort()


async def test_who_is_slow_is_hung_up_on(endpoint: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that does not come to its end, and an answer that nobody fetches, end with the time there is."""
    monkeypatch.setattr(module, "EXCHANGE_SECONDS", 0.05)
    reader, writer = await _open(endpoint)
    writer.write(b"GET /metr")
    _, deaf = await _open(endpoint)
    deaf.write(b"GET /big HTTP/1.1\r\n\r\n")

    async with asyncio.timeout(30):
        assert await reader.read() == b""
        while endpoint._open:
            await asyncio.sleep(0)

    writer.close()
    deaf.transport.abort()


async def test_an_answer_that_takes_longer_than_a_client_may_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of an exchange is the client's; an answer has a longer time of its own."""
    monkeypatch.setattr(module, "EXCHANGE_SECONDS", 0.5)

    async def late(_: HttpRequest) -> HttpResponse:
        await asyncio.sleep(2 * module.EXCHANGE_SECONDS)
        return HttpResponse(b"late\n")

    async with HttpServer(listen(HOST, 0, ""), late, named=HOST) as endpoint:
        assert (await _say(endpoint, b"GET /x HTTP/1.1\r\n\r\n")).endswith(b"late\n")


async def test_leaving_closes_every_connection_and_the_port() -> None:
    """Nobody who hangs on keeps the server open, not even for the time that an exchange may take."""
    async with (
        asyncio.timeout(module.EXCHANGE_SECONDS / 2),
        HttpServer(listen(HOST, 0, ""), _answer, named=HOST) as endpoint,
    ):
        reader, writer = await _open(endpoint)
        writer.write(b"GET /never")
        port = int(endpoint.address.rpartition(":")[2])
        while not endpoint._open:
            await asyncio.sleep(0)

    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(HOST, port)


async def test_a_connection_that_is_accepted_while_the_server_is_left_is_closed() -> None:
    """The loop hands it over after the open ones were closed."""
    async with HttpServer(listen(HOST, 0, ""), _answer, named=HOST) as endpoint:
        pass
    async with await asyncio.start_server(endpoint._connected, HOST, 0) as late:
        reader, writer = await asyncio.open_connection(*late.sockets[0].getsockname())
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        with contextlib.suppress(ConnectionResetError):
            await writer.wait_closed()


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("::1", "[::1]")])
async def test_it_listens_where_it_is_told_and_says_where(host: str, shown: str) -> None:
    """By name, by either kind of address; and nowhere else."""
    async with HttpServer(listen(host, 0, ""), _answer, named=host) as endpoint:
        assert endpoint.address.startswith(f"http://{shown}:")
        assert [bound.getsockname()[0] for bound in endpoint._server.sockets] == [shown.strip("[]")]


def test_a_port_that_is_taken_is_an_error() -> None:
    """One sentence: which port, and what to do; exit code 1."""
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ConchError, match=rf"port {port} of 127\.0\.0\.1 is taken: have another") as caught:
            listen(HOST, port, "have another")

    assert caught.value.exit_code == 1


def test_a_port_that_is_forbidden_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the reason is another one: the system says which."""

    def forbid(_address: object, **_: object) -> socket.socket:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module.socket, "create_server", forbid)

    with pytest.raises(ConchError, match=r"port 80 of 127\.0\.0\.1 cannot be had \(Permission denied\): have another"):
        listen(HOST, 80, "have another")


def test_a_host_that_is_not_of_this_machine_is_an_error() -> None:
    """An address of another one, and a name that nobody knows."""
    for host in ("192.0.2.1", "nowhere.invalid"):
        with pytest.raises(ConchError, match=f"port 0 of {host} cannot be had .*: have another"):
            listen(host, 0, "have another")


@pytest.mark.parametrize(
    "host", ["127.0.0.1:9464", "127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:9464", "[::1]", "127.8.9.1:9464"]
)
async def test_who_names_this_machine_is_answered(endpoint: HttpServer, host: str) -> None:
    """At whatever port: through a tunnel it is another one."""
    assert b"HTTP/1.1 200 " in await _say(endpoint, f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())


@pytest.mark.parametrize(
    "host",
    ["evil.example:9464", "evil.example", "127.0.0.1.nip.io:9464", "localhost.evil.example", "10.1.2.3:9464", "0.0.0.0",
     "me@127.0.0.1", "127.0.0.1:9464, evil.example", "localhost:80:80", "[::1", "[evil.example]", " x", "\xe4"],
)  # fmt: skip
async def test_who_names_another_is_told_nothing(endpoint: HttpServer, host: str) -> None:
    """A page elsewhere has had its name lead to this machine, and reads what its own address answers."""
    for line in ("GET /metrics", "HEAD /metrics", "GET /healthz", "GET /broken"):
        reply = await _say(endpoint, f"{line} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("latin-1"))

        assert reply.startswith(b"HTTP/1.1 421 Misdirected Request\r\n"), line
        assert b"you asked" not in reply


async def test_of_two_hosts_neither_counts(endpoint: HttpServer) -> None:
    """Whichever stands first."""
    for hosts in (("127.0.0.1", "evil.example"), ("evil.example", "127.0.0.1")):
        lines = "".join(f"Host: {host}\r\n" for host in hosts)

        assert b"HTTP/1.1 400 " in await _say(endpoint, f"GET /metrics HTTP/1.1\r\n{lines}\r\n".encode())


async def test_open_to_other_machines_it_goes_by_any_name() -> None:
    """Prometheus scrapes a container by the name of its service, a probe by the number of its pod."""
    async with HttpServer(listen("0.0.0.0", 0, ""), _answer, named="0.0.0.0") as endpoint:
        for host in ("metrics:9464", "metrics.conch.svc:9464", "10.1.2.3:8080"):
            assert b"HTTP/1.1 200 " in await _say(endpoint, f"GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())


async def test_the_name_that_it_was_given_is_its_own() -> None:
    """Also one of this machine that leads to loopback, as /etc/hosts often has it."""
    async with HttpServer(listen(HOST, 0, ""), _answer, named="Agents-Box") as endpoint:
        for host, status in (("agents-box:9464", 200), ("another-box:9464", 421)):
            reply = await _say(endpoint, f"GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert reply.startswith(f"HTTP/1.1 {status} ".encode())


async def test_an_endpoint_in_a_thread_answers_while_its_callers_loop_stands_still() -> None:
    """And its answers run in that thread."""
    threads: list[int] = []

    async def answer(_: HttpRequest) -> HttpResponse:
        threads.append(threading.get_ident())
        return HttpResponse(b"here\n")

    async with ThreadedEndpoint(HttpServer(listen(HOST, 0, ""), answer, named=HOST)) as served:
        with urllib.request.urlopen(f"{served.endpoint.address}/x", timeout=30) as told:  # blocks this loop
            assert told.read() == b"here\n"

    assert threads != [threading.get_ident()]


async def test_leaving_an_endpoint_in_a_thread_ends_its_thread_and_its_port() -> None:
    """Also where it is cancelled as it is entered."""
    before = threading.active_count()
    async with ThreadedEndpoint(HttpServer(listen(HOST, 0, ""), _answer, named=HOST)) as served:
        assert await _say(served.endpoint, b"GET /x HTTP/1.1\r\n\r\n")
    with pytest.raises(ConnectionRefusedError):
        await _open(served.endpoint)

    entering = asyncio.create_task(ThreadedEndpoint(HttpServer(listen(HOST, 0, ""), _answer, named=HOST)).__aenter__())
    await asyncio.sleep(0)
    entering.cancel()
    await asyncio.wait([entering])

    async with asyncio.timeout(30):
        while threading.active_count() > before:
            await asyncio.sleep(0)
