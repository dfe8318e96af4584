"""The way that sse-starlette's guide shows: each page has a queue, and what is put there is encoded for it. A process
of its own, which reads the same stream and decodes the same facts.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import uvicorn
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.server import EmbeddedServer
from conch_schemas import ActionTaken, decode
from ui.shown import Shown, free_port, shown

MOST_WAITING = 100
"""Messages that wait for one page."""


def peer(nats: EmbeddedServer) -> AbstractAsyncContextManager[Shown]:
    """It answers while entered."""
    port = free_port()
    return shown(port, sys.executable, "-m", "ui.peer", str(port), nats.access.address, nats.access.token or "")


async def _main(port: int, url: str, token: str) -> None:
    queues: set[asyncio.Queue[dict[str, Any]]] = set()

    async def live(_: Request) -> Response:
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(MOST_WAITING)
        queues.add(queue)

        async def messages() -> AsyncIterator[dict[str, Any]]:
            try:
                while True:
                    yield await queue.get()
            finally:
                queues.discard(queue)

        return EventSourceResponse(messages())

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok")

    app = Starlette(routes=[Route("/live", live), Route("/healthz", healthz)])
    serving = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, access_log=False))
    async with JetStreamBus(Access(url, token=token), name="peer") as bus, asyncio.TaskGroup() as group:
        group.create_task(serving.serve())
        after = (await bus.state()).last
        async with bus.follow(["conch.v1.>"], after=after) as reader:
            while True:
                for delivery in await reader.get():
                    event = decode(delivery.data)
                    if isinstance(event, ActionTaken):
                        said = {
                            "kind": event.TYPE,
                            "seq": delivery.seq,
                            "cycle": event.cycle,
                            "text": event.action.text,
                        }
                        for queue in queues:
                            if not queue.full():
                                queue.put_nowait({"id": str(delivery.seq), "data": json.dumps(said)})


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
