"""The tool `http`: fetches a page of an allowed host, connected to an address that was checked.

The name is resolved once for each request, all addresses that it has are checked, and the connection goes to one of
those that were checked: a name that resolves to something else a moment later has no effect. Every redirect is a new
request, checked in the same way. No cookie is kept, and no proxy or password file of the environment is used.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from urllib.parse import urljoin

import httpx2

from conch.clients import tls_context
from conch.config import HttpToolSettings
from conch.errors import ToolError
from conch.text import begins_with_mark, decoded, safe_text
from conch.tools.declare import Tool, ToolResult, tool
from conch.tools.web.address import RefusedError, Target, refuse_private, target_of

MOST_REDIRECTS = 5
"""Redirects that are followed: browsers follow 20, and a page that needs more than some is none for an agent."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
TEXTS = ("text/", "application/json", "application/xml", "application/xhtml", "application/javascript")
"""Beginnings of the types of content that are shown; `+json` and `+xml` are, too."""
AGENT = "conch"
"""What the requests call themselves."""
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host and port, in the order to be tried. Raises OSError."""
Check = Callable[[str], object]
"""Raises RefusedError for an address that must not be reached."""


async def resolved(host: str, port: int) -> list[str]:
    """The addresses of a host by the system's resolver. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def http_tools(settings: HttpToolSettings, resolve: Resolve = resolved, check: Check = refuse_private) -> list[Tool]:
    """The tool `http`; none where no host is allowed. Raises ClientEnvironmentError where the environment's
    certificates or key log cannot be used."""
    if not settings.allow:
        return []
    tls = tls_context()

    @tool(effects="read")
    async def http(url: str) -> ToolResult:
        """Fetches a page of an allowed host with GET.

        url: http:// or https://, e.g. https://example.org/page
        """
        try:
            async with asyncio.timeout(settings.timeout):
                return await _fetched(url, settings, resolve, check, tls)
        except TimeoutError:
            error = f"the fetch took longer than {settings.timeout:g} seconds (tools.http.timeout)"
            return ToolResult(status="timeout", error=error)
        except RefusedError as refused:
            return ToolResult(status="blocked", error=str(refused))

    # A second for the tool's own word on its time-out.
    return [Tool(http.spec, http.function, http.wants_context, timeout=settings.timeout + 1)]


async def _fetched(
    url: str, settings: HttpToolSettings, resolve: Resolve, check: Check, tls: ssl.SSLContext
) -> ToolResult:
    target = target_of(url, settings.allow)
    for _ in range(MOST_REDIRECTS + 1):
        response, data = await _request(target, settings.size_kib * 1024, resolve, check, tls)
        place = response.headers.get("location")
        if response.status_code not in REDIRECTS or place is None:
            return _result(response, data)
        target = target_of(urljoin(target.url, place), settings.allow)
    raise ToolError(f"the page redirects more than {MOST_REDIRECTS} times")


async def _request(
    target: Target, most: int, resolve: Resolve, check: Check, tls: ssl.SSLContext
) -> tuple[httpx2.Response, bytes]:
    """One request, to an address that was checked. Raises ToolError."""
    try:
        addresses = await resolve(target.host, target.port)
    except (OSError, UnicodeError):
        raise ToolError(f"the host {target.host} is not known to the resolver") from None
    if not addresses:
        raise ToolError(f"the host {target.host} has no address")
    for address in addresses:  # all of them: the one that is public may not be the one that answers
        check(address)
    # The connection goes to the address, TLS and the Host header to the name.
    host = f"[{addresses[0]}]" if ":" in addresses[0] else addresses[0]
    url = httpx2.URL(f"{target.scheme}://{host}:{target.port}{target.path}")
    headers = {"Host": target.authority, "User-Agent": AGENT, "Accept-Encoding": "identity"}
    try:
        async with (
            httpx2.AsyncHTTPTransport(verify=tls, trust_env=False) as transport,
            httpx2.AsyncClient(transport=transport, trust_env=False, follow_redirects=False, timeout=None) as client,
            client.stream("GET", url, headers=headers, extensions={"sni_hostname": target.host}) as response,
        ):
            return response, await _read(response.aiter_raw(), most)
    except httpx2.HTTPError as error:
        why = safe_text(str(error) or type(error).__name__, one_line=True)[:200]
        raise ToolError(f"{target.host} cannot be fetched: {why}") from None


async def _read(pieces: AsyncIterator[bytes], most: int) -> bytes:
    data = bytearray()
    async for piece in pieces:
        data += piece
        if len(data) > most:
            raise ToolError(f"the page is longer than {most // 1024} KiB (tools.http.size_kib)")
    return bytes(data)


def _result(response: httpx2.Response, data: bytes) -> ToolResult:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.headers.get("content-encoding", "identity") != "identity":
        return ToolResult(status="error", error="the page is compressed, though that was not asked for")
    if kind and not kind.startswith(TEXTS) and not kind.endswith(("+json", "+xml")):
        shown = safe_text(kind, one_line=True)[:60]
        return _outcome(response, f"[{shown}, {len(data)} bytes: it is no text and is left out]")
    return _outcome(response, _text(data, response.charset_encoding))


def _outcome(response: httpx2.Response, text: str) -> ToolResult:
    if response.status_code < 400:
        return ToolResult(text)
    return ToolResult(text, "error", f"HTTP status {response.status_code}")


def _text(data: bytes, charset: str | None) -> str:
    if charset is None or begins_with_mark(data):  # a byte order mark is right, whatever the header says
        return decoded(data)
    try:
        return data.decode(charset, errors="replace")
    except LookupError:  # a name that is no encoding
        return decoded(data)
