"""A page to be measured, in a process of its own: `conch ui` over a home and a nats-server, or its like."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from runs import CONCH

from conch.bus.server import EmbeddedServer
from conch.home import Home

TOKEN = "a-token-of-the-bench"
PATIENCE = 30.0
"""Seconds for the page to answer for the first time."""


@dataclass(frozen=True)
class Shown:
    """A page that answers."""

    port: int
    process: psutil.Process

    @property
    def address(self) -> str:
        """Of its pages."""
        return f"http://127.0.0.1:{self.port}"

    def cpu_seconds(self) -> float:
        """That the process has taken so far."""
        times = self.process.cpu_times()
        return times.user + times.system


def free_port() -> int:
    """A TCP port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@asynccontextmanager
async def server(directory: Path) -> AsyncIterator[EmbeddedServer]:
    """A nats-server with a stream of ordinary durability."""
    made = EmbeddedServer(directory, token=TOKEN, strict=False, max_bytes=2**32)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


def dashboard(home: Path, bus: EmbeddedServer | None) -> AbstractAsyncContextManager[Shown]:
    """`conch ui` over this home; `bus` None: of the run in progress, or without one."""
    Home(home).make()
    port = free_port()
    environment = os.environ | {"CONCH_UI__TOKEN": TOKEN}
    if bus is not None:
        environment |= {"CONCH_BUS__URL": bus.access.address, "CONCH_BUS__DURABILITY": "fast"}
        environment |= {"CONCH_BUS__TOKEN": bus.access.token or ""}
    return shown(port, str(CONCH), "ui", "--home", str(home), "--port", str(port), env=environment)


@asynccontextmanager
async def shown(port: int, *command: str, env: Mapping[str, str] | None = None) -> AsyncIterator[Shown]:
    """A process of this command, which serves pages at the port, while entered; given once it answers.

    `env` None: the environment of this process. Raises TimeoutError when it does not answer within PATIENCE.
    """
    process = await asyncio.create_subprocess_exec(*command, env=env, stdout=asyncio.subprocess.DEVNULL)
    try:
        async with asyncio.timeout(PATIENCE):
            while not await _answers(port):
                await asyncio.sleep(0.05)
        yield Shown(port, psutil.Process(process.pid))
    finally:
        process.terminate()
        await process.wait()


async def _answers(port: int) -> bool:
    """Whether somebody is ready there."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % port)
    told = await reader.read()
    writer.close()
    return b" 200 " in told.split(b"\r\n")[0]
