"""Connect to a bus: of a server, of a run, or of an embedded server that runs as long as the program needs it."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from conch.bus import Access, Bus, EmbeddedServer, access_to
from conch.bus.jetstream import JetStreamBus
from conch.config import load
from conch.errors import BusUnreachableError
from conch.home import Home
from conch.processes import served

LARGEST = 2**34
"""Bytes that the stream of an embedded server may take (16 GiB); then publishers wait."""


@asynccontextmanager
async def connect(
    url: str | None = None, *, home: Path | str | None = None, token: str | None = None, credentials: str | None = None
) -> AsyncIterator[Bus]:
    """The JetStream bus at `url`, else the one of a home: of its run in progress, or the server that its settings name.

    `url`: `nats://[user:password@]host:port`, several with commas between them. `token`, `credentials` (a .creds file):
    how to sign in at `url`. TLS and nkeys are settings of a home. Entered, it makes stream and bucket where they are
    missing; left, it flushes and closes.

    Raises BusUnreachableError where no server answers or it refuses us, and where the home has neither a run nor a
    server; ConfigError for settings or an address that cannot be used.

    ```python
    import conch

    async with conch.local_bus("server") as local:  # a server, for this example
        url, token = local.url, local.token
        async with conch.connect(url, token=token) as bus:
            print((await bus.state()).last)
    ```
    """
    async with JetStreamBus(_access(url, home, token, credentials), name="conch-library") as bus:
        yield bus


def _access(url: str | None, home: Path | str | None, token: str | None, credentials: str | None) -> Access:
    if url is not None:
        return Access(url, token=token, credentials=credentials)
    where = Home.at(home)
    found = access_to(where, load(None, where, {}))
    if found is None:
        raise BusUnreachableError(
            f"no run is in progress in {where.path} and bus.url names no server: start conch run, or name an address"
        )
    return found


class LocalBus(JetStreamBus):
    """The bus of an embedded server; see `local_bus`."""

    url: str
    """The server's address, for other programs of this machine."""
    token: str
    """The token for connections to it."""


@asynccontextmanager
async def local_bus(directory: Path | str) -> AsyncIterator[LocalBus]:
    """A JetStream bus with a nats-server of its own, on a free port of loopback, its store in `directory`.

    The server starts on entry, is started again where it dies, and stops on exit; the events stay in `directory` for
    the next time. An acknowledged event is on disk (`bus.durability: strict`). One process at a time uses a directory.
    Raises BusUnreachableError when the server cannot be started, or not again: the block is cancelled then.

    ```python
    import conch
    from conch.testing import make_action_taken

    async with conch.local_bus("server") as bus:
        await conch.publish(bus, make_action_taken())

    async with conch.local_bus("server") as bus:  # later: the stream is still there
        assert (await bus.state()).last == 1
    ```
    """
    server = EmbeddedServer(Path(directory), token=secrets.token_urlsafe(24), strict=True, max_bytes=LARGEST)
    async with served(server), LocalBus(server.access, name="conch-library", max_bytes=LARGEST, strict=True) as bus:
        bus.url, bus.token = server.url, server.token
        yield bus
