"""Passes a request on to a server of llama.cpp, and its response back as it comes."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, aclosing
from typing import Any

import httpx2
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from conch.tasks import race

MOST_LINE = 4 * 1024 * 1024
"""Most bytes of a line of an event stream, whose model is renamed; a longer one is passed on as it is."""
_KEPT = ("content-type", "retry-after")


class Relay:
    """The response to a request that a server behind the front answers. Where the client goes, the request ends."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        method: str,
        url: str,
        body: bytes,
        *,
        model: str | None = None,
        counted: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`model`: the name that the response is to bear; None: as the server says. `counted`: entered at once, and
        left when the response is out."""
        self._client, self._method, self._url, self._body = client, method, url, body
        self._model, self._counted = model, counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        begun = False

        async def sent(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        with self._counted():
            try:
                await race({"conch.engine.relay": self._relayed(sent), "conch.engine.client": gone(receive)})
            except httpx2.HTTPError as error:
                if begun:
                    raise  # the connection closes before the reply's end, which a client sees
                said = {"error": {"message": f"the engine is being started: {type(error).__name__}", "code": 503}}
                await JSONResponse(said, 503, headers={"retry-after": "1"})(scope, receive, send)

    async def _relayed(self, send: Send) -> None:
        headers = {"content-type": "application/json"}
        request = self._client.stream(self._method, self._url, content=self._body, headers=headers)
        async with request as response:
            kept = [(name.encode(), response.headers[name].encode()) for name in _KEPT if name in response.headers]
            await send({"type": "http.response.start", "status": response.status_code, "headers": kept})
            async with aclosing(self._parts(response)) as parts:
                async for part in parts:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    async def _parts(self, response: httpx2.Response) -> AsyncGenerator[bytes]:
        if self._model is None or response.status_code != 200:
            async for part in response.aiter_raw():
                yield part
        elif response.headers.get("content-type", "").startswith("text/event-stream"):
            rest = b""
            async for part in response.aiter_bytes():
                *lines, rest = (rest + part).split(b"\n")
                if len(rest) > MOST_LINE:
                    lines, rest = [*lines, rest], b""
                if lines:
                    yield b"".join(_renamed(line, self._model) + b"\n" for line in lines)
            if rest:
                yield _renamed(rest, self._model)
        else:
            yield _renamed_document(await response.aread(), self._model)


async def gone(receive: Receive) -> None:
    """Returns when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _renamed(line: bytes, model: str) -> bytes:
    if not line.startswith(b"data: {"):
        return line
    return b"data: " + _renamed_document(line.removeprefix(b"data: "), model)


def _renamed_document(document: bytes, model: str) -> bytes:
    try:
        found = json.loads(document)
    except ValueError:
        return document
    if not isinstance(found, dict) or "model" not in found:
        return document
    return json.dumps(found | {"model": model}, separators=(",", ":"), ensure_ascii=False).encode()
