"""What tests of every area share: a real server, both buses, an act, and waiting for a condition."""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
import signal
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, Protocol

import hypothesis
import pytest
import structlog

from conch.bus import Bus, MemoryBus, MemoryJournal
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.server import EmbeddedServer
from conch.processes import bubblewrap_programs
from conch.testing import make_action_taken
from conch_schemas import ActionTaken
from tests.bubblewraps import MakeBubblewraps, bubblewraps_in
from tests.distribution import (
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_ignore_collect,
)
from tests.postgres import PostgresServer, postgres_server

__all__ = ["pytest_addoption", "pytest_collection_modifyitems", "pytest_configure", "pytest_ignore_collect"]

hypothesis.settings.register_profile("conch", deadline=None)  # speed is measured by ops/bench
hypothesis.settings.load_profile("conch")

TOKEN = "a-token-of-the-tests"
NO_SKIPS = os.environ.get("CONCH_TEST_NO_SKIPS") == "1"
"""Read before any test clears the environment."""
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell leaves it to what runs in its background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # runs that tests start take Ctrl-C as a person's do


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine sets is no part of a test."""
    for name in os.environ:
        if name.startswith(("CONCH_", "OPENAI_")) or name == "PYTHONUNBUFFERED":
            monkeypatch.delenv(name)


@pytest.fixture(scope="session", autouse=True)
def _no_keys_of_a_person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs make their keys in a directory of the tests, not in the person's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(autouse=True)
def _no_logging_of_anothers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """How one test had its lines logged is no part of the next: no logger keeps what it was when it was first used."""
    configure = structlog.configure
    monkeypatch.setattr(structlog, "configure", lambda **how: configure(**how | {"cache_logger_on_first_use": False}))
    yield
    structlog.reset_defaults()


class Until(Protocol):
    """Waits for a condition."""

    async def __call__(self, condition: Callable[[], object | Awaitable[object]], seconds: float = 60.0) -> None:
        """Return once `condition()`, awaited where it is awaitable, is true. Raises TimeoutError after `seconds`."""


class MakeAct(Protocol):
    """Makes acts."""

    def __call__(self, cycle: int = 1, agent: str = "echo", **parts: Any) -> ActionTaken:
        """The `action.taken` of a cycle; keywords replace its parts."""


@pytest.fixture
def until() -> Until:
    """`await until(condition)`: returns when it holds; after `seconds` the test fails."""

    async def wait(condition: Callable[[], object | Awaitable[object]], seconds: float = 60.0) -> None:
        async with asyncio.timeout(seconds):
            while not (await held if inspect.isawaitable(held := condition()) else held):
                await asyncio.sleep(0.002)

    return wait


@pytest.fixture
def act() -> MakeAct:
    """Make the `action.taken` of a cycle; keywords replace its parts."""

    return make_action_taken


@pytest.fixture
async def nats_server(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    """A nats-server of this test's own."""
    server = EmbeddedServer(tmp_path / "nats", token=TOKEN, strict=False, max_bytes=2**30)
    await server.start()
    yield server
    await server.stop()


class World:
    """A journal or a server, and as many buses over it as a test asks for."""

    def __init__(self, server: EmbeddedServer | None) -> None:
        self.server, self.journal = server, MemoryJournal()

    def bus(self, *, room: int = 0) -> MemoryBus | JetStreamBus:
        """A bus, to be entered. `room`: about as many events of 1 KB fit the stream."""
        if self.server is None:
            return MemoryBus(self.journal, most=room or 1_000_000)
        return JetStreamBus(Access(self.server.url, token=TOKEN), max_bytes=room * 1100 or -1)

    async def publish_again(self, bus: Bus, subject: str, data: bytes) -> int:
        """What is stored twice because the server has forgotten the id: the same event, a second time."""
        if isinstance(bus, MemoryBus):
            bus.forget_ids()
        stored = await bus.publish(subject, data, id=str(uuid.uuid4()))
        return int(stored.seq)


@pytest.fixture(params=["memory", "jetstream"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """Both implementations, one after the other."""
    if request.param == "memory":
        yield World(None)
        return
    server = EmbeddedServer(tmp_path / "nats", token=TOKEN, strict=False, max_bytes=2**30)
    await server.start()
    yield World(server)
    await server.stop()


@pytest.fixture
async def bus(world: World) -> AsyncIterator[Bus]:
    """An entered bus of both implementations."""
    async with world.bus() as entered:
        yield entered


@pytest.fixture(scope="session")
def lacking() -> Callable[[str], NoReturn]:
    """Skip for want of a program or privilege, with how to get it; where nothing may be skipped, fail."""

    def give_up(what: str) -> NoReturn:
        if NO_SKIPS:
            pytest.fail(what)
        pytest.skip(what)

    return give_up


@pytest.fixture(scope="session")
def postgres(lacking: Callable[[str], NoReturn]) -> Iterator[PostgresServer]:
    """A PostgreSQL server, for tests that leave it running."""
    with postgres_server(lacking) as server:
        yield server


@pytest.fixture(scope="session")
def needs(lacking: Callable[[str], NoReturn]) -> Callable[[str, str], None]:
    """`needs("bwrap", "install bubblewrap")`: the program is there, or the test gives up with that notice."""

    def look(program: str, how: str) -> None:
        if shutil.which(program) is None and not (program == "bwrap" and bubblewrap_programs()):
            lacking(f"there is no {program}: {how}")

    return look


@pytest.fixture
def bubblewraps(tmp_path_factory: pytest.TempPathFactory) -> MakeBubblewraps:
    """A machine with these bubblewraps alone, for commands that a test starts."""

    def make(*, system: str | None = None, packaged: str | None = None) -> dict[str, str]:
        return bubblewraps_in(tmp_path_factory.mktemp("bubblewraps"), system, packaged)

    return make


@pytest.fixture
def only_bubblewraps(bubblewraps: MakeBubblewraps, monkeypatch: pytest.MonkeyPatch) -> MakeBubblewraps:
    """The same, for the process of the test as well."""

    def make(*, system: str | None = None, packaged: str | None = None) -> dict[str, str]:
        made = bubblewraps(system=system, packaged=packaged)
        monkeypatch.setenv("PATH", made["PATH"])
        monkeypatch.syspath_prepend(made["PYTHONPATH"])
        return made

    return make
