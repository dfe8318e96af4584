"""Browser sessions: finding the session of a request, and ending sessions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from weakref import WeakValueDictionary

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

from conch.auth import LoginTokens, admits, same, session_audience, session_cookie, session_prefix
from conch.tasks import race

STREAM = "/live"
"""The answer that goes on for as long as its page is open."""


class Sessions:
    """The sessions that a home's key has signed for the page at one port, until they expire or are ended.

    A request proves its session by the cookie and by the secret path prefix of its URL: the cookie alone, which another
    server on this machine may have received, is not accepted.
    """

    def __init__(self, login_tokens: LoginTokens, key: bytes, port: int) -> None:
        self._login_tokens, self._key = login_tokens, key
        self._audience = session_audience(key, port)
        self.cookie, self.prefix = session_cookie(port), session_prefix(key, port)
        self._streams: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()
        """Session -> set when it is ended; of sessions that a stream is open of."""

    def within(self, scope: Scope) -> Scope:
        """A copy of the request, with its path below the prefix, which `prefix_of` then returns; "" without one of
        ours."""
        raw: bytes = scope["raw_path"]
        head, slash, rest = raw[1:].partition(b"/")
        if not same(f"/{head.decode('latin-1')}", self.prefix):
            return {**scope, "state": {**scope.get("state", {}), "prefix": ""}}
        below = {"path": scope["path"][len(self.prefix) :] or "/", "raw_path": (slash + rest) or b"/"}
        return {**scope, **below, "state": {**scope.get("state", {}), "prefix": self.prefix}}

    def shown(self, scope: Scope) -> str | None:
        """The session that lets this request in. Raises HomeError where it cannot be seen whether it was ended."""
        if not prefix_of(scope):
            return None
        now = time.time()
        return next((one for one in _cookies(Headers(scope=scope), self.cookie) if self._admits(one, now)), None)

    def _admits(self, session: str, now: float) -> bool:
        return admits(self._key, self._audience, session, now) and not self._login_tokens.is_ended(session)

    async def end(self, session: str) -> None:
        """Revoke it, and close the streams that it has open.

        Raises HomeError where the revocation cannot be stored: then the session goes on.
        """
        await asyncio.to_thread(self._login_tokens.end, session, time.time())
        if (over := self._streams.get(session)) is not None:
            over.set()

    def watched(self, scope: Scope, receive: Receive) -> Receive:
        """`receive`, which reports a disconnect once the session of a stream has ended."""
        session = self.shown(scope) if scope["path"] == STREAM else None
        if session is None:
            return receive
        over = self._streams.setdefault(session, asyncio.Event())

        async def disconnect() -> Message:
            await over.wait()
            return {"type": "http.disconnect"}

        async def take() -> Message:
            return await receive()

        async def until_over() -> Message:
            return await race({"conch.dashboard.over": disconnect(), "conch.dashboard.receive": take()})

        return until_over


def prefix_of(scope: Scope) -> str:
    """The prefix of this request's path, which its links begin with; "" for a program's request."""
    return str(scope["state"]["prefix"])


def is_let_in(scope: Scope) -> bool:
    """Whether the guard found a session or the token, or no login is needed; False for public files."""
    return bool(scope["state"].get("let_in"))


def _cookies(headers: Headers, name: str) -> Iterator[str]:
    """Every cookie of this name: another server on this machine may have set one beside ours."""
    for line in headers.getlist("cookie"):
        for part in line.split(";"):
            key, _, value = part.strip().partition("=")
            if key == name:
                yield value
