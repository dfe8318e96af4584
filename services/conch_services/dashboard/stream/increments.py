"""Sends what changed of a part of a page: the pieces of its drawing that the browser does not have.

A drawing is cut behind each line's end, `>`, `,`, `"` and space. A browser that asks for a part again names the digest
of its last drawing in the header `Conch-Drawn` (`none`: it has none). The answer tells the digest of the new one in
`Conch-Digest`; where the last is still known here it is JSON of type `TYPE`: a list of new text and of
`[first, behind]`, the pieces that stay. `increments.js` puts it together.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TYPE: Final = "application/vnd.conch.increment+json"
MOST_BYTES: Final = 32 * 1024 * 1024
"""Of the drawings that are kept for all pages, the oldest forgotten first."""
RUN: Final = 3
"""Pieces that have to be alike one after the other to be worth a reference."""
DIGEST_BYTES: Final = 8
_PIECE: Final = re.compile(r'[^\n>," ]*[\n>," ]|[^\n>," ]+')


def pieces(text: str) -> list[str]:
    """The pieces of a drawing; together they are the drawing."""
    return _PIECE.findall(text)


def increment(old: Sequence[str], new: Sequence[str]) -> list[str | tuple[int, int]]:
    """What makes `new` of `old`: text, and (first, behind) of the pieces of `old` that stand there. Linear in both."""
    places = {tuple(old[at : at + RUN]): at for at in range(len(old) - RUN, -1, -1)}
    made: list[str | tuple[int, int]] = []
    text: list[str] = []
    at = 0
    while at < len(new):
        first = places.get(tuple(new[at : at + RUN]))
        if first is None:
            text.append(new[at])
            at += 1
            continue
        if text:
            made.append("".join(text))
            text = []
        behind = first + RUN
        at += RUN
        while at < len(new) and behind < len(old) and old[behind] == new[at]:
            at, behind = at + 1, behind + 1
        made.append((first, behind))
    return [*made, "".join(text)] if text else made


class Increments:
    """ASGI middleware: answers to requests with the header `Conch-Drawn` are increments."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._drawn: OrderedDict[str, bytes] = OrderedDict()
        """Drawings by their digest, the one asked for last at the end."""
        self._size = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        had = Headers(scope=scope).get("conch-drawn") if scope["type"] == "http" and scope["method"] == "GET" else None
        if had is None:
            await self._app(scope, receive, send)
            return
        start: Message = {}
        body = bytearray()

        async def gathered(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            body.extend(message.get("body", b""))
            if not message.get("more_body", False):
                sent = self._told(had, start, bytes(body))
                await send(start)
                await send({"type": "http.response.body", "body": sent})

        await self._app(scope, receive, gathered)

    def _told(self, had: str, start: Message, body: bytes) -> bytes:
        """The body that is sent; headers of `start` are changed to fit it."""
        headers = MutableHeaders(raw=start["headers"])
        if start["status"] != 200 or not headers.get("content-type", "").startswith("text/html"):
            return body
        digest = hashlib.blake2b(body, digest_size=DIGEST_BYTES).hexdigest()
        headers["conch-digest"] = digest
        old = self._drawn.get(had)
        self._keep(digest, body)
        if old is None:
            return body
        made = json.dumps(increment(pieces(old.decode()), pieces(body.decode())), separators=(",", ":")).encode()
        headers["content-type"] = TYPE
        headers["content-length"] = str(len(made))
        return made

    def _keep(self, digest: str, body: bytes) -> None:
        if digest not in self._drawn:
            self._drawn[digest] = body
            self._size += len(body)
        self._drawn.move_to_end(digest)
        while self._size > MOST_BYTES and len(self._drawn) > 1:
            _, oldest = self._drawn.popitem(last=False)
            self._size -= len(oldest)
