"""A server of a test's own, nothing of which outlives its test."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager


@asynccontextmanager
async def listening(
    serve: Callable[[StreamReader, StreamWriter], Awaitable[None]], port: int = 0
) -> AsyncIterator[int]:
    """`serve` answers each connection to this port of loopback (0: a free one), which is given, while entered.

    Left, what is still being answered is cancelled and every connection closed: one that is left to the garbage
    collector is told as a warning, in whatever test runs then.
    """
    answering: dict[asyncio.Future[None], StreamWriter] = {}

    def accept(reader: StreamReader, writer: StreamWriter) -> None:
        answering[asyncio.ensure_future(serve(reader, writer))] = writer

    server = await asyncio.start_server(accept, "127.0.0.1", port)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)
        for writer in answering.values():
            writer.transport.abort()
        await asyncio.sleep(0)
