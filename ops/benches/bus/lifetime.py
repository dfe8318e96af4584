"""A child's side: say that it is ready, live until its input ends."""

from __future__ import annotations

import asyncio
import sys


async def until_told() -> None:
    """Say `ready`, then wait for the end of the input."""
    print("ready", flush=True)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
