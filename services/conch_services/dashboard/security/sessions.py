"""Sessions of browsers: which one a request shows, and their end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from weakref import WeakValueDictionary

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

from conch.passes import Passes, admits

STREAM = "/live"
"""The answer that goes on for as long as its page is open."""


class Sessions:
    """Those that a home's key has signed for one cookie, until their time is over or they are ended."""

    def __init__(self, passes: Passes, key: bytes, cookie: str) -> None:
        self._passes, self._key, self._cookie = passes, key, cookie
        self._streams: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()
        """Session -> set when it is ended; of sessions that a stream is open of."""

    def shown(self, headers: Headers) -> str | None:
        """The session that lets this request in. Raises HomeError where it cannot be seen whether it was ended."""
        now = time.time()
        return next((one for one in _cookies(headers, self._cookie) if self._admits(one, now)), None)

    def _admits(self, session: str, now: float) -> bool:
        return admits(self._key, self._cookie, session, now) and not self._passes.is_ended(session)

    async def end(self, session: str) -> None:
        """Have it let nobody in any more, and hang up on the streams that it has open.

        Raises HomeError where it cannot be written down: then it goes on.
        """
        await asyncio.to_thread(self._passes.end, session, time.time())
        if (over := self._streams.get(session)) is not None:
            over.set()

    def watched(self, scope: Scope, receive: Receive) -> Receive:
        """`receive`; of a stream whose session is ended it says that nobody is there any more."""
        session = self.shown(Headers(scope=scope)) if scope["path"] == STREAM else None
        if session is None:
            return receive
        over = self._streams.setdefault(session, asyncio.Event())

        async def until_over() -> Message:
            coming, ending = asyncio.ensure_future(receive()), asyncio.ensure_future(over.wait())
            try:
                await asyncio.wait((coming, ending), return_when=asyncio.FIRST_COMPLETED)
                return {"type": "http.disconnect"} if ending.done() else coming.result()
            finally:
                coming.cancel()
                ending.cancel()

        return until_over


def _cookies(headers: Headers, name: str) -> Iterator[str]:
    """Every cookie of this name: another server on this machine may have set one beside ours."""
    for line in headers.getlist("cookie"):
        for part in line.split(";"):
            key, _, value = part.strip().partition("=")
            if key == name:
                yield value
