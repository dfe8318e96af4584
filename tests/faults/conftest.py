"""Servers to harm, a network to harm, and file systems that fill up or lose their power."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NoReturn, Protocol

import pytest

from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus, connection
from conch.bus.server import EmbeddedServer
from tests.conftest import TOKEN
from tests.faults.load import Counted, Load, counted, loaded
from tests.faults.proxy import Proxy


@pytest.fixture
async def proxy(nats_server: EmbeddedServer) -> AsyncIterator[Proxy]:
    """A network before the test's server."""
    async with Proxy(nats_server.url) as between:
        yield between


@pytest.fixture
def bus_at() -> Callable[[str], JetStreamBus]:
    """A bus at an address, to be entered."""
    return lambda url: JetStreamBus(Access(url, token=TOKEN))


@pytest.fixture
def load_at(request: pytest.FixtureRequest) -> Callable[[str], AbstractAsyncContextManager[Load]]:
    """`async with load_at(url) as load`: see `loaded`; `either_way` says whether it is committed in groups."""
    return lambda url: loaded(url, TOKEN, strict=getattr(request, "param", False))


either_way = pytest.mark.parametrize("load_at", [False, True], ids=["each by itself", "in groups"], indirect=True)


@pytest.fixture
def audit(nats_server: EmbeddedServer) -> Callable[[Load], Awaitable[Counted]]:
    """What became of a load, as the test's server has it."""
    return lambda load: counted(load, nats_server.url, TOKEN)


@pytest.fixture
def quick_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead link is found out ten times as soon as usual."""
    monkeypatch.setattr(connection, "PING_SECONDS", 0.2)


class Kill(Protocol):
    """Ends a server and starts it again."""

    async def __call__(self, server: EmbeddedServer, how: signal.Signals = signal.SIGKILL) -> None:
        """End it by that signal; return when it takes connections again, on the same port."""


class Mount(Protocol):
    """Mounts file systems until the test is over."""

    def __call__(self, *what: str) -> Path:
        """The directory that mount(8) with these arguments was told; skips the test where nothing can be mounted."""


@pytest.fixture
def kill() -> Kill:
    """`await kill(server, how)`: ended by that signal, and up again on its port."""

    async def restart(server: EmbeddedServer, how: signal.Signals = signal.SIGKILL) -> None:
        assert server.pid is not None
        os.kill(server.pid, how)
        await server.wait()
        await server.start()

    return restart


@pytest.fixture
def mounted(tmp_path: Path, lacking: Callable[[str], NoReturn]) -> Iterator[Mount]:
    """`mounted("-t", "tmpfs", …)`: a directory with that mounted on it, until the test is over."""
    places: list[Path] = []

    def mount(*what: str) -> Path:
        place = tmp_path / f"mounted-{len(places)}"
        place.mkdir()
        command = ["mount", *what, str(place)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
            lacking("a file system cannot be mounted here: run the tests as root, in a container that may mount")
        places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)
