"""The live stream of a page: server-sent events with the stream sequence as id."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response

from conch_services.dashboard.security.refusals import TOO_MANY_PAGES, problem
from conch_services.dashboard.stream.frames import SHOWN
from conch_services.dashboard.stream.hub import LiveHub

MOST_PAGES = 1000
"""Streams that are open at once; one more is asked to come again."""
AGAIN_SECONDS = "5"
"""Retry-After for a page beyond the limit of connections, in seconds."""
PING_SECONDS = 15
STUCK_SECONDS = 30.0
"""A page that takes nothing for so long is disconnected; it reconnects behind the last sequence that it had."""
AGAIN_MS = 1000
"""Milliseconds after which a browser reconnects."""

TYPES = frozenset(kind.TYPE for kind in SHOWN)

_encode = msgspec.json.Encoder().encode


class LiveStream:
    """`GET /live?after=SEQ&agent=NAME&kinds=TYPE,…`: every frame behind that sequence, then new ones as they come. The
    header Last-Event-ID, which a browser sends when it reconnects, replaces `after`.

    With `kinds` those of these types of events come alone, and most have their kind and cycle alone: for a page whose
    parts the server draws. Names that are no type of an event are passed over.

    Beside frames there are the messages `bus` ({"state": …}), `missed` ({"count": …}: frames were left out, ask the
    history) and `anew` (the stream is another one: draw the page again).
    """

    def __init__(self, hub: LiveHub) -> None:
        self._hub = hub

    async def stream(self, request: Request) -> Response:
        """The stream; without a sequence it begins at the end."""
        if self._hub.pages >= MOST_PAGES:
            return problem(503, TOO_MANY_PAGES, {"Retry-After": AGAIN_SECONDS})
        after = _place(request.headers.get("last-event-id")) or _place(request.query_params.get("after"))
        agent = request.query_params.get("agent") or None
        named = request.query_params.get("kinds")
        kinds = None if named is None else TYPES.intersection(named.split(","))
        messages = self._messages(self._hub.last if after is None else after, agent, kinds)
        return EventSourceResponse(messages, ping=PING_SECONDS, send_timeout=STUCK_SECONDS)

    async def _messages(self, after: int, agent: str | None, kinds: frozenset[str] | None) -> AsyncIterator[bytes]:
        self._hub.pages += 1
        try:
            state = self._hub.state
            yield b"retry: %d\n\n" % AGAIN_MS + _message("bus", {"state": state})
            async for news in self._hub.news(after, agent, kinds):
                said = b""
                if self._hub.state != state:
                    state = self._hub.state
                    said += _message("bus", {"state": state})
                if news.anew:
                    said += _message("anew", {})
                if news.missed:
                    said += _message("missed", {"count": news.missed})
                if said or news.frames:
                    yield said + news.frames
        finally:
            self._hub.pages -= 1


def _message(kind: str, data: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), _encode(data))


def _place(told: str | None) -> int | None:
    return int(told) if told and told.isascii() and told.isdecimal() and len(told) < 19 else None
