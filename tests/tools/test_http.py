"""The tool `http`: pages of allowed hosts, from real servers, and nothing of the own network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import HttpToolSettings
from conch.errors import ToolError
from conch.tools import ToolResult, http_tools
from conch.tools.web.address import RefusedError, refuse_private, target_of

PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 5\r\nSet-Cookie: a=b\r\n\r\nhello"


class Server:
    """A real server on 127.0.0.1 that answers each request with the next of some replies, the last one for ever."""

    def __init__(self) -> None:
        self.replies: list[bytes] = [PAGE]
        self.requests: list[str] = []
        self.port = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        writer.write(reply.replace(b"{port}", str(self.port).encode()))
        if b"\r\n" in reply:  # else it never answers
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = listening.sockets[0].getsockname()[1]
    yield made
    listening.close()
    for writer in made.writers:
        writer.close()
        await writer.wait_closed()


def of_tests(address: str) -> None:
    """The check of an address, but that the server of the tests counts as a public one."""
    if address != "127.0.0.1":
        refuse_private(address)


class Names:
    """A resolver: the addresses of each name, one answer after the other."""

    def __init__(self, **names: Sequence[Sequence[str]]) -> None:
        self.names = {name.replace("_", "."): list(answers) for name, answers in names.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self.names:
            raise OSError("unknown")
        answers = self.names[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]


async def fetch(url: str, names: Names, check: Callable[[str], Any] = of_tests, **settings: Any) -> ToolResult:
    """What the tool answers."""
    [tool] = http_tools(HttpToolSettings.model_validate(settings), names, check)
    try:
        result = await tool.function(url=url)  # type: ignore[misc]
    except ToolError as error:
        return ToolResult(status="error", error=str(error))
    assert isinstance(result, ToolResult)
    return result


def test_without_a_host_there_is_no_tool() -> None:
    """It is off until the settings allow a host."""
    assert http_tools(HttpToolSettings()) == []


async def test_a_page_of_an_allowed_host(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name in the request, past a proxy of the environment; a cookie is not sent back."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    names, allow = Names(page_test=[["127.0.0.1"]]), [f"page.test:{server.port}"]
    url = f"http://page.test:{server.port}/a?b=c"
    results = [await fetch(url, names, allow=allow) for _ in range(2)]

    assert [(one.status, one.output) for one in results] == [("success", "hello")] * 2
    assert server.requests[0].startswith("GET /a?b=c HTTP/1.1\r\n")
    assert f"Host: page.test:{server.port}\r\n" in server.requests[0]
    assert "cookie" not in server.requests[1].lower()


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "224.0.0.1", "240.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1",
        "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::",
        "2001:0:7f00:1::", "fec0::1",
    ],
)  # fmt: skip
async def test_a_name_that_resolves_to_the_own_network_is_refused(address: str) -> None:
    """However the address is written; also where another of the name's addresses is public."""
    for answer in ([address], ["93.184.215.14", address]):
        result = await fetch("http://page.test/", Names(page_test=[answer]), refuse_private, allow=["page.test"])
        assert result.status == "blocked"
        assert "is not a public one" in (result.error or "")


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"])
def test_a_public_address_is_fetched(address: str) -> None:
    """Of both kinds."""
    assert str(refuse_private(address)) == address


async def test_the_name_is_resolved_once_for_a_request(server: Server) -> None:
    """What was checked is what is connected to: a name that changes meanwhile changes nothing."""
    names = Names(page_test=[["127.0.0.1"], ["169.254.169.254"]])
    result = await fetch(f"http://page.test:{server.port}/", names, allow=[f"page.test:{server.port}"])

    assert (result.output, names.asked) == ("hello", ["page.test"])


@pytest.mark.parametrize(
    ("place", "says"),
    [
        (b"http://127.0.0.1:{port}/", "the host '127.0.0.1' (port {port}) is not allowed"),
        (b"http://inside.test:{port}/", "the address 169.254.169.254 is not a public one"),
        (b"//inside.test:{port}/", "the address 169.254.169.254 is not a public one"),
        (b"file:///etc/passwd", "only http and https are fetched"),
        (b"http://user:word@page.test:{port}/", "names a user"),
        (b"/again", "the page redirects more than 5 times"),
    ],
)
async def test_every_redirect_is_checked(server: Server, place: bytes, says: str) -> None:
    """Its host, its address, its scheme; and there are not many of them."""
    server.replies = [b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + place + b"\r\n\r\n"]
    names = Names(page_test=[["127.0.0.1"]], inside_test=[["169.254.169.254"]])
    allow = [f"page.test:{server.port}", f"inside.test:{server.port}"]
    result = await fetch(f"http://page.test:{server.port}/", names, allow=allow)

    assert result.status in ("blocked", "error")
    assert says.format(port=server.port) in (result.error or "")
    assert len(server.requests) == (6 if place == b"/again" else 1)


async def test_a_redirect_is_followed(server: Server) -> None:
    """To an allowed host, as a new request."""
    server.replies = [b"HTTP/1.1 301 Moved\r\nContent-Length: 0\r\nLocation: /there\r\n\r\n", PAGE]
    names = Names(page_test=[["127.0.0.1"]])
    result = await fetch(f"http://page.test:{server.port}/", names, allow=[f"page.test:{server.port}"])

    assert (result.output, names.asked) == ("hello", ["page.test"] * 2)
    assert server.requests[1].startswith("GET /there ")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://page.test/", "only http and https are fetched"),
        ("file:///etc/passwd", "only http and https are fetched"),
        ("http://other.test/", "the host 'other.test' (port 80) is not allowed"),
        ("http://page.test:22/", "the host 'page.test' (port 22) is not allowed"),
        ("http://page.test.other.test/", "is not allowed"),
        ("http://page.test@other.test/", "names a user"),
        ("http://page.test\\@other.test/", "is no address that can be fetched"),
        ("http://2130706433/", "is not allowed"),
        ("http://0x7f000001/", "is not allowed"),
        ("http://[::1]/", "is not allowed"),
        ("http://page.test/\r\nHost: other", "is no address that can be fetched"),
        ("http://page.test:99999/", "is no address that can be fetched"),
        ("page.test", "only http and https are fetched"),
        ("http:///", "is not allowed"),
    ],
)
async def test_an_address_that_is_not_allowed_is_refused(url: str, says: str) -> None:
    """Before anything is resolved; however it is written."""
    names = Names(page_test=[["127.0.0.1"]])
    result = await fetch(url, names, allow=["page.test"])

    assert (result.status, names.asked) == ("blocked", [])
    assert says in (result.error or "")


@pytest.mark.parametrize("number", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1"])
async def test_a_number_for_an_address_is_checked_as_what_it_stands_for(number: str) -> None:
    """Even where a person allows it: the system's resolver says what it is."""
    [tool] = http_tools(HttpToolSettings(allow=(number,)))
    result = await asyncio.gather(tool.function(url=f"http://{number}/"), return_exceptions=True)  # type: ignore[arg-type]
    said = str(getattr(result[0], "error", result[0]))

    assert "is not a public one" in said or "is not known to the resolver" in said


def test_a_star_allows_what_is_below_a_name() -> None:
    """Not the name itself, and no other that ends in the same letters."""
    assert target_of("https://a.b.example.org/x", ["*.example.org"]).host == "a.b.example.org"
    for host in ("example.org", "badexample.org", "example.org.evil.test"):
        with pytest.raises(RefusedError):
            target_of(f"https://{host}/", ["*.example.org"])


@given(st.text(max_size=200))
def test_any_text_is_an_address_or_refused(url: str) -> None:
    """Nothing else is raised, and what is fetched is of the host that is allowed."""
    try:
        target = target_of(url, ["page.test"])
    except RefusedError:
        return
    assert (target.host, target.scheme in ("http", "https")) == ("page.test", True)


@pytest.mark.parametrize(
    ("reply", "status", "says"),
    [
        (b"HTTP/1.1 404 No\r\nContent-Length: 4\r\n\r\ngone", "error", "HTTP status 404"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2048\r\n\r\n" + b"x" * 2048, "error", "longer than 1 KiB"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", "error", "compressed"),
        (b"hello", "timeout", "took longer than 0.5 seconds"),
        (b"nonsense\r\n\r\n", "error", "cannot be fetched"),
    ],
)
async def test_what_goes_wrong_is_one_sentence(server: Server, reply: bytes, status: str, says: str) -> None:
    """An error of the server, a page beyond the cap, a bomb, a server that does not answer."""
    server.replies = [reply]
    names, allow = Names(page_test=[["127.0.0.1"]]), [f"page.test:{server.port}"]
    result = await fetch(f"http://page.test:{server.port}/", names, allow=allow, size_kib=1, timeout=0.5)

    assert (result.status, says in (result.error or "")) == (status, True)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (b"text/plain", b"\xef\xbb\xbfh\xc3\xa9llo"),
        (b"text/plain; charset=iso-8859-1", b"\xef\xbb\xbfh\xc3\xa9llo"),
        (b"text/plain; charset=iso-8859-1", b"h\xe9llo"),
        (b"application/json", "héllo".encode("utf-16")),
        (b"text/plain; charset=no-such", b"h\xc3\xa9llo"),
    ],
)
async def test_a_byte_order_mark_says_the_encoding(server: Server, kind: bytes, data: bytes) -> None:
    """Before the header's charset, and is no part of the page."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: " + kind
    server.replies = [head + b"\r\nContent-Length: %d\r\n\r\n" % len(data) + data]
    names = Names(page_test=[["127.0.0.1"]])
    result = await fetch(f"http://page.test:{server.port}/", names, allow=[f"page.test:{server.port}"])

    assert result.output == "héllo"


async def test_what_is_no_text_is_named_and_left_out(server: Server) -> None:
    """An image is no output."""
    server.replies = [b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 3\r\n\r\n\x89PN"]
    names = Names(page_test=[["127.0.0.1"]])
    result = await fetch(f"http://page.test:{server.port}/", names, allow=[f"page.test:{server.port}"])

    assert result.output == "[image/png, 3 bytes: it is no text and is left out]"
