"""Serves an ASGI application in a running event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager

import uvicorn
from starlette.types import ASGIApp

from conch.errors import ConchError
from conch.tasks import background

BACKLOG = 64
"""Connections that wait to be accepted."""


class _LoopServer(uvicorn.Server):
    """uvicorn's server without its signal handlers: signals belong to the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Installs no signal handlers."""
        yield


@asynccontextmanager
async def serving(app: ASGIApp, port: int = 0) -> AsyncIterator[str]:
    """The address at which `app` is served on loopback while entered. `port`: 0 for a free one.

    Left, open replies are cut. Raises ConchError where the port is taken.
    """
    try:
        bound = socket.create_server(("127.0.0.1", port), backlog=BACKLOG)
    except OSError as error:
        raise ConchError(f"port {port} of 127.0.0.1 cannot be had ({error.strerror})") from None
    with closing(bound) as listening:
        config = uvicorn.Config(
            app,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        server = _LoopServer(config)
        async with background(server.serve(sockets=[listening]), name="conch.engine.serve") as serving_task:
            try:
                yield f"http://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                server.should_exit = True
                await asyncio.wait([serving_task])
