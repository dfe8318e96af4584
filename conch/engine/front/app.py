"""The HTTP resources of an engine that serves adapters: chat completions, models, and vLLM's form of loading."""

from __future__ import annotations

import asyncio
import json
import secrets
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from conch.engine.front.engine import MOST_ADAPTERS, AdapterEngine, EngineRefusalError
from conch.log import get_logger
from conch_schemas import JsonObject

log = get_logger(__name__)

MOST_BODY = 16 * 1024 * 1024
"""Most bytes of a request."""
MOST_NAME = 200
"""Most characters of an adapter's name."""


class EngineFront:
    """An ASGI application in front of an engine. Each request needs the bearer key.

    A chat completion's `model` names the adapter; the base's name, an empty one or none means the base. Another name is
    answered 404, never with the base.
    """

    def __init__(self, engine: AdapterEngine, key: str) -> None:
        self._engine, self._key = engine, key
        self._loading = asyncio.Lock()
        self._routes = Starlette(
            routes=[
                Route("/v1/models", self._models, methods=["GET"]),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/load_lora_adapter", self._load, methods=["POST"]),
                Route("/v1/unload_lora_adapter", self._unload, methods=["POST"]),
                Route("/{path:path}", self._other, methods=["GET", "POST"]),
            ],
            exception_handlers={EngineRefusalError: _refused},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        respond: ASGIApp = self._routes
        if scope["type"] == "http" and not self._has_key(Request(scope)):
            respond = _error(401, "the key is missing or not the engine's")
        await respond(scope, receive, send)

    def _has_key(self, request: Request) -> bool:
        given = request.headers.get("authorization", "").encode()
        return secrets.compare_digest(given, f"Bearer {self._key}".encode())

    async def _models(self, _: Request) -> Response:
        listed = [_model(self._engine.base), *(_model(name, self._engine.base) for name in self._engine.names)]
        return JSONResponse({"object": "list", "data": listed})

    async def _chat(self, request: Request) -> ASGIApp:
        asked = await _document(request)
        name = asked.get("model") or self._engine.base
        if name != self._engine.base and name not in self._engine.names:
            raise EngineRefusalError(404, f"there is no model {str(name)[:MOST_NAME]}: load it first")
        return self._engine.chat(asked, None if name == self._engine.base else str(name))

    async def _load(self, request: Request) -> Response:
        asked = await _document(request)
        name, path = asked.get("lora_name"), asked.get("lora_path")
        if not (isinstance(name, str) and 0 < len(name) <= MOST_NAME and isinstance(path, str) and path):
            raise EngineRefusalError(400, "both lora_name and lora_path must be given, as text")
        async with self._loading:
            if name == self._engine.base or name in self._engine.names:
                raise EngineRefusalError(400, f"the adapter {name} has already been loaded: a name keeps its weights")
            if len(self._engine.names) >= MOST_ADAPTERS:
                raise EngineRefusalError(400, f"{MOST_ADAPTERS} adapters are loaded: unload one first")
            await self._engine.load(name, Path(path))
        log.info("adapter.loaded", name=name)
        return PlainTextResponse(f"Success: the adapter {name} is loaded.")

    async def _unload(self, request: Request) -> Response:
        name = (await _document(request)).get("lora_name")
        async with self._loading:
            if not isinstance(name, str) or name not in self._engine.names:
                raise EngineRefusalError(404, f"the adapter {str(name)[:MOST_NAME]} is not loaded")
            await self._engine.unload(name)
        log.info("adapter.unloaded", name=name)
        return PlainTextResponse(f"Success: the adapter {name} is unloaded.")

    async def _other(self, request: Request) -> ASGIApp:
        return self._engine.other(request.method, f"/{request.path_params['path']}", await _body(request))


async def _body(request: Request) -> bytes:
    found = bytearray()
    try:
        async for part in request.stream():
            found += part
            if len(found) > MOST_BODY:
                raise EngineRefusalError(413, f"the request has more than {MOST_BODY // 2**20} MiB")
    except ClientDisconnect:
        raise EngineRefusalError(400, "the request broke off") from None
    return bytes(found)


async def _document(request: Request) -> JsonObject:
    try:
        asked = json.loads(await _body(request))
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        raise EngineRefusalError(400, "the request is no JSON object")
    return asked


def _model(name: str, parent: str | None = None) -> JsonObject:
    return {"id": name, "object": "model", "owned_by": "conch", "parent": parent}


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message, "code": status}}, status)


def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, EngineRefusalError)
    return _error(error.status, str(error))
