"""A nats-server that dies as it starts is started again; one that says why it cannot start is given up at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.server import EmbeddedServer, find_binary
from conch.errors import BusUnreachableError
from conch.processes.supervisor import ChildRecord, keep_server, served, start_server
from conch.retry import MOST_RESTARTS, Backoff

if TYPE_CHECKING:
    from tests.conftest import Until


SUBJECT = "conch.v1.echo.action.taken"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conch.processes.supervisor.PROCESS", Backoff((0.01,)))


@pytest.fixture
def server(tmp_path: Path) -> EmbeddedServer:
    """Not started."""
    return EmbeddedServer(tmp_path / "nats", token="right", strict=False, max_bytes=2**30)


@pytest.fixture
def binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """`binary(script, times)`: for so many starts this shell script is run in the server's place; the log of starts."""

    def make(script: str, times: int) -> Path:
        file, starts = tmp_path / "stand-in", tmp_path / "starts"
        file.write_text(
            f"#!/bin/sh\necho start >> '{starts}'\n"
            f"[ $(wc -l < '{starts}') -gt {times} ] && exec '{find_binary()}' \"$@\"\n{script}\n"
        )
        file.chmod(0o755)
        monkeypatch.setattr("conch.bus.server.find_binary", lambda _: str(file))
        return starts

    return make


async def test_one_that_is_killed_as_it_starts_is_started_again(
    server: EmbeddedServer, binary: Callable[..., Path]
) -> None:
    """Every death is counted and told; the next start succeeds."""
    starts = binary("kill -9 $$", 3)
    watched, changes = ChildRecord("nats-server"), []

    await start_server(server, watched, lambda: changes.append((watched.state, watched.why)))

    assert starts.read_text().count("start") == 4
    assert changes == [("restarting", "SIGKILL")] * 3 + [("up", "SIGKILL")]
    assert (watched.restarts, watched.pid) == (3, server.pid)
    await server.stop()


@pytest.mark.parametrize("window", [60.0, 0.0])
async def test_one_that_dies_at_every_start_is_given_up(
    server: EmbeddedServer, binary: Callable[..., Path], window: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After as many deaths as a run allows, also when they took longer than a minute; the sentence says how it died."""
    monkeypatch.setattr("conch.retry.RESTART_SECONDS", window)
    starts = binary("kill -9 $$", 99)

    with pytest.raises(BusUnreachableError, match=r"the nats-server died 5 times .*\(SIGKILL.*\): see .*\.log"):
        await start_server(server, ChildRecord("nats-server"), lambda: None)

    assert starts.read_text().count("start") == MOST_RESTARTS


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ('echo "nats-server: Parse error on line 8" >&2; exit 1', "did not start: nats-server: Parse error on line 8"),
        ("printf 'fatal error: out of memory\\n\\ngoroutine 1:\\nruntime.x()\\n' >&2; exit 2", "not enough memory"),
    ],
)
async def test_one_that_says_why_it_cannot_start_is_given_up_at_once(
    server: EmbeddedServer, binary: Callable[..., Path], script: str, why: str
) -> None:
    """One start, its reason, and where more of it stands."""
    starts = binary(script, 99)

    with pytest.raises(BusUnreachableError, match=why):
        await start_server(server, ChildRecord("nats-server"), lambda: None)

    assert starts.read_text().count("start") == 1


async def test_one_that_dies_at_a_restart_is_started_again(
    server: EmbeddedServer, binary: Callable[..., Path], until: Until
) -> None:
    """A kill while it runs and two more while it comes back: the third start holds, with the same port."""
    await server.start()
    url, watched = server.url, ChildRecord("nats-server", "up")
    keeping = asyncio.create_task(keep_server(server, watched, lambda: None))
    binary("kill -9 $$", 2)
    assert server.pid is not None

    os.kill(server.pid, signal.SIGKILL)
    await until(lambda: watched.restarts == 3 and watched.state == "up")

    assert server.url == url
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await server.stop()


@pytest.mark.parametrize("sign", ["nats-server.pid", "*.ports", "jetstream"])
async def test_a_kill_at_each_step_of_the_start_loses_nothing(
    server: EmbeddedServer, sign: str, tmp_path: Path
) -> None:
    """After the pid file, after the ports file, while streams are read: who waits for the bus gets it, with all."""
    async with served(server), JetStreamBus(Access(server.url, token="right")) as bus:
        for number in range(200):
            await bus.publish(SUBJECT, b"x" * 1000, id=str(number))
    for old in server.directory.glob("nats-server*.p*"):
        old.unlink()
    killed: list[int] = []

    async def kill() -> None:
        while not list(server.directory.glob(sign)) or server.pid is None:
            await asyncio.sleep(0)
        killed.append(server.pid)
        os.kill(server.pid, signal.SIGKILL)

    killing = asyncio.create_task(kill())
    async with served(server), JetStreamBus(Access(server.url, token="right"), connect_timeout=30) as bus:
        await killing
        state = await bus.state()

    assert state.messages == 200
    assert server.pid is None
    assert len(killed) == 1


async def test_what_is_in_hand_ends_when_the_server_cannot_come_back(
    server: EmbeddedServer, binary: Callable[..., Path]
) -> None:
    """A command that waits for its server does not wait for ever."""

    async def command() -> None:
        async with served(server):
            binary("kill -9 $$", 99)
            os.kill(server.pid or 0, signal.SIGKILL)
            await asyncio.Event().wait()

    with pytest.raises(BusUnreachableError, match="the nats-server died 5 times"):
        await command()

    assert server.pid is None


async def test_a_command_says_that_its_server_died_and_goes_on(server: EmbeddedServer) -> None:
    """One death: a sentence, and the server that was started again answers."""
    told = asyncio.Queue[str]()

    async with served(server, told.put_nowait), JetStreamBus(server.access) as bus:
        os.kill(server.pid or 0, signal.SIGKILL)
        sentence = await told.get()
        await bus.state()

    assert sentence.startswith("the nats-server that this command started died (SIGKILL")
    assert sentence.endswith("; it is started again")


async def test_a_command_whose_server_died_does_not_blame_its_rights_or_its_address(server: EmbeddedServer) -> None:
    """The error that the bus raises for it is the death of the server."""

    async def command() -> None:
        async with served(server):
            os.kill(server.pid or 0, signal.SIGKILL)
            raise BusUnreachableError("no bus at nats://127.0.0.1:1: it hung up (without a word)")

    with pytest.raises(BusUnreachableError, match=r"that this command started died \(SIGKILL.*\.log, and try again"):
        await command()


async def test_a_bus_is_left_in_order_where_its_socket_was_given_up(server: EmbeddedServer) -> None:
    """A task of nats-py that is cancelled in a reconnect cancels the close of the socket, not the task that leaves."""
    async with served(server):
        async with JetStreamBus(server.access) as bus:
            bus._connection.client._transport._io_writer._protocol._closed.cancel()  # type: ignore[union-attr]

        left = bus._connection.connected

    assert not left


async def test_a_refusal_by_a_server_that_lives_stays_what_it_is(server: EmbeddedServer) -> None:
    """Nothing died: the error is the body's."""
    with pytest.raises(BusUnreachableError, match="wrong password"):
        async with served(server):
            raise BusUnreachableError("wrong password")


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("hello\n", 0o755, r"\(Exec format error\): it is no program for this machine"),
        ("#!/nowhere\n", 0o755, r"\(No such file or directory\): it is gone, or the loader"),
        ("#!/bin/sh\n", 0o644, r"\(Permission denied\): make it executable"),
    ],
)
async def test_a_server_that_cannot_be_run_is_one_sentence(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, mode: int, why: str
) -> None:
    """Its file, what the system says of it, and what to do."""
    file = tmp_path / "nats-server"
    file.write_text(text)
    file.chmod(mode)
    monkeypatch.setattr("conch.bus.server.find_binary", lambda _: str(file))

    with pytest.raises(BusUnreachableError, match=rf"{file} cannot be run {why}"):
        await server.start()


@pytest.mark.skipif(sys.platform != "linux", reason="limits a process from outside, on Linux only")
async def test_too_little_address_space_is_told_with_its_limit(
    server: EmbeddedServer, binary: Callable[..., Path]
) -> None:
    """The real server under `ulimit -v`: a sentence, no line of its trace."""
    binary(f"ulimit -v 400000; exec '{find_binary()}' \"$@\"", 99)

    with pytest.raises(BusUnreachableError, match=r"did not start: it had not enough memory \(fatal error: ") as told:
        await server.start()

    assert "runtime/" not in str(told.value)
    assert str(server.directory / "nats-server.err") in str(told.value)
    assert server.pid is None
