"""The live stream of a page: server-sent events whose id is the place in the stream."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response

from conch_services.dashboard.world import World


async def live(request: Request) -> Response:
    """`GET /live?after=SEQ` (or the header Last-Event-ID): every frame behind that place, then as they come."""
    world: World = request.app.state.world
    told = request.headers.get("last-event-id") or request.query_params.get("after") or ""
    after = int(told) if told.isdecimal() and len(told) < 19 else 0
    return EventSourceResponse(_frames(world, after), ping=15)


async def _frames(world: World, after: int) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    async for frames in world.hub.frames(after):
        yield frames
