"""The embedded server: started, ended, killed, and never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from nats.aio.transport import TcpTransport

from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.server import EmbeddedServer, end_stale
from conch.errors import BusError, BusUnreachableError, HomeError
from tests.serving import listening

if TYPE_CHECKING:
    from tests.conftest import Until


SUBJECT = "conch.v1.echo.action.taken"


def server_on(directory: Path, *, strict: bool = True) -> EmbeddedServer:
    """Not started."""
    return EmbeddedServer(directory, token="right", strict=strict, max_bytes=2**30)


def alive(pid: int) -> bool:
    """Whether a process still works."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_it_comes_back_after_a_kill_with_port_token_and_events(tmp_path: Path) -> None:
    """Clients need not be told anything; what was acknowledged is there."""
    server = server_on(tmp_path / "nats")
    await server.start()
    url, pid = server.url, server.pid
    async with JetStreamBus(Access(url, token="right")) as bus:
        await bus.publish(SUBJECT, b"kept", id="1")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert await server.wait() == -signal.SIGKILL
        assert server.pid is None
        await server.start()

        assert server.url == url
        assert server.pid != pid
        found = await bus.at(1)
        assert found is not None
        assert found.data == b"kept"
    await server.stop()


async def test_a_home_may_have_any_name(tmp_path: Path) -> None:
    """Letters beyond ASCII and quotes in its path are no matter to the server."""
    server = server_on(tmp_path / 'Größe "1"')

    await server.start()

    assert server.pid is not None
    await server.stop()


async def test_it_is_gone_after_stop_and_stopping_twice_is_once(tmp_path: Path) -> None:
    """The log is kept, and goes on in the next start."""
    server = server_on(tmp_path / "nats")
    await server.start()
    pid = server.pid
    await server.stop()
    await server.stop()
    assert pid is not None
    assert not alive(pid)
    first = server.log_file.read_text()

    await server.start()
    await server.stop()

    assert server.log_file.read_text().startswith(first)
    assert server.log_file.read_text().count("Server is ready") == 2
    assert not (tmp_path / "nats" / "nats-server.pid").exists()


@pytest.mark.parametrize(
    ("token", "why"), [("wrong", r"refused the token \(bus.token\)"), (None, "lets nobody in without a name")]
)
async def test_without_the_token_nobody_comes_in(token: str | None, why: str, nats_server: EmbeddedServer) -> None:
    """The refusal is one clear sentence, at once."""
    with pytest.raises(BusUnreachableError, match=rf"the bus at nats://127.0.0.1:\d+ {why}"):
        async with JetStreamBus(Access(nats_server.url, token=token), connect_timeout=10):
            pytest.fail("it let us in")


async def test_an_address_where_nobody_is_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when its time ends in the moment in which it refuses, which says that and hides the end."""

    async def refuses(*_: object, **__: object) -> None:
        monkeypatch.undo()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        raise ConnectionRefusedError("nobody is there")

    monkeypatch.setattr(TcpTransport, "connect", refuses)
    with pytest.raises(BusUnreachableError, match=r"no bus at nats://127.0.0.1:9: nobody is there\."):
        async with JetStreamBus(Access("nats://127.0.0.1:9"), connect_timeout=0.05):
            pytest.fail("it let us in")


async def test_nothing_listens_but_on_loopback(nats_server: EmbeddedServer) -> None:
    """One port, 127.0.0.1."""
    listening = [
        connection.laddr.ip
        for connection in psutil.Process(nats_server.pid).net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]

    assert listening == ["127.0.0.1"]


async def test_the_configuration_with_the_token_is_for_the_owner_alone(nats_server: EmbeddedServer) -> None:
    """Nobody else on the machine reads it."""
    assert (nats_server.directory / "nats-server.conf").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("strict", "setting"), [(True, "sync_interval: always"), (False, 'sync_interval: "1s"')])
async def test_durability_is_what_was_asked_for(strict: bool, setting: str, tmp_path: Path) -> None:
    """The setting stands in the configuration that the server says it uses."""
    server = server_on(tmp_path / "nats", strict=strict)
    await server.start()
    [used] = re.findall(r"Using configuration file: (\S+)", server.log_file.read_text())
    await server.stop()

    assert setting in Path(used).read_text()


async def test_strict_means_that_an_acknowledged_event_is_on_disk(tmp_path: Path) -> None:
    """The server writes through before it acknowledges: no acknowledged bytes are waiting to be written."""
    server = server_on(tmp_path / "nats")
    await server.start()
    async with JetStreamBus(Access(server.url, token="right")) as bus:
        await bus.publish(SUBJECT, b"first", id="0")
        before = written(server)
        for number in range(1, 21):
            await bus.publish(SUBJECT, b"x", id=str(number))
        after = written(server)
    await server.stop()

    assert after - before >= 20 * 4096  # a page each, at least: not gathered for later


def written(server: EmbeddedServer) -> int:
    """Bytes that the server has had written to the disk."""
    if sys.platform != "linux":
        pytest.skip("counts what the kernel wrote, on Linux only")
    assert server.pid is not None
    return int(psutil.Process(server.pid).io_counters().write_bytes)


START_ONE = """
import asyncio, sys
from pathlib import Path
from conch.bus.server import EmbeddedServer

async def main():
    server = EmbeddedServer(Path(sys.argv[1]), token="right", strict=False, max_bytes=2**30)
    await server.start()
    print(server.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def start_in_a_process(directory: Path) -> tuple[subprocess.Popen[str], int]:
    """A Conch of its own that has started a server; the server's pid."""
    process = subprocess.Popen([sys.executable, "-c", START_ONE, str(directory)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends the child of a killed parent")
async def test_it_dies_with_a_killed_parent(tmp_path: Path, until: Until) -> None:
    """Nothing is left behind after kill -9 of Conch."""
    parent, pid = start_in_a_process(tmp_path / "nats")
    assert alive(pid)

    parent.kill()
    parent.communicate()

    await until(lambda: not alive(pid))


async def test_a_server_that_was_left_behind_is_ended_by_the_next_start(tmp_path: Path) -> None:
    """Where the system does not end it, the next start does, before it starts its own: never two on one store."""
    directory = tmp_path / "nats"
    first = server_on(directory)
    await first.start()  # nobody stops it: as after a kill on a system without PR_SET_PDEATHSIG
    async with JetStreamBus(Access(first.url, token="right")) as bus:
        await bus.publish(SUBJECT, b"kept", id="1")

    second = server_on(directory)
    await second.start()

    assert first.pid is None or not alive(first.pid)
    async with JetStreamBus(Access(second.url, token="right")) as bus:
        assert (await bus.state()).messages == 1
    await second.stop()
    await first.wait()


async def test_a_stopped_server_that_was_left_behind_is_ended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not answer is ended by force."""
    monkeypatch.setattr("conch.bus.server.STOP_SECONDS", 0.2)
    first = server_on(tmp_path / "nats")
    await first.start()
    assert first.pid is not None
    os.kill(first.pid, signal.SIGSTOP)

    await end_stale(first.directory)

    assert await first.wait() == -signal.SIGKILL


@pytest.mark.parametrize("text", ["", "garbage", "999999999", "own"])
async def test_a_pid_file_that_names_somebody_else_harms_nobody(text: str, tmp_path: Path) -> None:
    """The number may have been given to another program since."""
    (tmp_path / "nats-server.pid").write_text(str(os.getpid()) if text == "own" else text)

    await end_stale(tmp_path)


async def test_a_directory_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    """A file where the directory should be, and a place where nobody may write."""
    (tmp_path / "file").write_text("in the way")

    for place in (tmp_path / "file", Path("/proc/conch")):
        with pytest.raises(HomeError, match=r"cannot be written .*mend that or name another --home"):
            await server_on(place).start()


async def test_a_store_that_cannot_be_opened_is_told_in_the_servers_words(tmp_path: Path) -> None:
    """The last thing that it said, and where its log is; nothing is left running."""
    (tmp_path / "jetstream").write_text("in the way")
    server = server_on(tmp_path)

    with pytest.raises(BusUnreachableError, match=r"did not start: Can't start JetStream.*nats-server\.log"):
        await server.start()
    assert server.pid is None


async def test_a_log_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """What the server says before it has a log is not lost."""
    (tmp_path / "nats-server.log").mkdir()

    with pytest.raises((BusUnreachableError, HomeError), match="is a directory"):
        await server_on(tmp_path).start()


async def test_a_port_that_somebody_took_meanwhile_is_told(tmp_path: Path) -> None:
    """Its clients know that port only; it comes back on it once it is free."""
    server = server_on(tmp_path / "nats")
    await server.start()
    port = int(server.url.rsplit(":", 1)[1])
    await server.stop()

    with socket.create_server(("127.0.0.1", port)), pytest.raises(BusUnreachableError, match="address already in use"):
        await server.start()
    await server.start()

    assert server.url.endswith(f":{port}")
    await server.stop()


async def test_a_client_outlives_a_stranger_on_the_servers_port(tmp_path: Path) -> None:
    """Whatever answers there meanwhile, the client comes back when the server does."""
    server = server_on(tmp_path / "nats", strict=False)
    await server.start()
    port = int(server.url.rsplit(":", 1)[1])
    met = asyncio.Event()

    async def stranger(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for line in (b"INFO {not json}\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\xff" * 10):
            writer.write(line)
        writer.close()
        met.set()

    async with JetStreamBus(Access(server.url, token="right")) as bus:
        await server.stop()
        async with listening(stranger, port):
            await asyncio.wait_for(met.wait(), 30)
        publishing = asyncio.ensure_future(bus.publish(SUBJECT, b"", id="1"))
        await server.start()
        assert (await asyncio.wait_for(publishing, 30)).seq == 1
    await server.stop()


async def test_no_server_is_one_sentence_soon(tmp_path: Path) -> None:
    """The first connection is bounded, whatever it meets."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(BusUnreachableError, match=f"no bus at nats://127.0.0.1:{port}"):
            async with JetStreamBus(Access(f"nats://127.0.0.1:{port}"), connect_timeout=0.3):
                pytest.fail("nobody answers there")


async def test_a_server_that_is_too_old_is_refused(
    nats_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that would ignore what it does not know is not written to."""
    from conch.bus.jetstream.connection import Connection

    async def old(*_: Any, **__: Any) -> dict[str, Any]:
        return {"api": {"total": 0}}

    monkeypatch.setattr(Connection, "api", old)
    with pytest.raises(BusError, match="too old"):
        async with JetStreamBus(Access(nats_server.url, token=nats_server.token)):
            pytest.fail("it was taken")


async def test_a_stream_of_somebody_else_is_refused(nats_server: EmbeddedServer) -> None:
    """One that would drop events is not written to."""
    async with JetStreamBus(Access(nats_server.url, token=nats_server.token)) as bus:
        await bus._connection.api("STREAM.DELETE.CONCH")
        config = {"name": "CONCH", "subjects": ["conch.v1.>"], "discard": "old", "storage": "file"}
        await bus._connection.api("STREAM.CREATE.CONCH", config)

    with pytest.raises(BusError, match="discard 'old'"):
        async with JetStreamBus(Access(nats_server.url, token=nats_server.token)):
            pytest.fail("it was taken")
