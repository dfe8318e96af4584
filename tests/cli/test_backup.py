"""`conch bus snapshot | restore`, over real servers."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import Bus, Delivery, OutgoingMessage
from conch.bus.server import EmbeddedServer
from conch.cli import backup
from conch.cli.common import CommonOptions, open_bus
from conch.config import Settings
from conch.consumer.group.lag import report_position, standings
from conch.errors import BusError, ConchError, UsageError
from conch.experience import SqliteStore
from conch.home import Home
from conch.memory import MEMORY_FILE, LongTermMemory
from conch_schemas import ActionTaken
from tests.durables import durable
from tests.memories import made

if TYPE_CHECKING:
    from tests.cli.conftest import InProgress


ACT = "conch.v1.echo.action.taken"
Printed = Callable[[], str]


async def fill(bus: Bus, count: int, begin: int = 0, size: int = 500) -> None:
    """So many events."""
    await bus.publish_many(
        [OutgoingMessage(ACT, b"%d " % n + os.urandom(size), str(n)) for n in range(begin, begin + count)]
    )


async def everything(bus: Bus) -> tuple[list[Delivery], dict[str, bytes], str]:
    """(events, bucket, epoch)."""
    entries = {key: await bus.get(key) for key in await bus.keys()}
    values = {key: entry.value for key, entry in entries.items() if entry is not None}
    return [event async for event in bus.read(["conch.v1.>"])], values, (await bus.state()).epoch


async def held(home: Home) -> Any:
    """What the bus of a home holds."""
    async with open_bus(home, Settings()) as bus:
        return await everything(bus)


@pytest.fixture
async def full(home: Home) -> tuple[list[Delivery], dict[str, bytes], str]:
    """What is on the bus of the home: events that do not begin at 1, places, states."""
    home.agentuid("echo")
    async with open_bus(home, Settings()) as bus:
        await fill(bus, 300)
        await bus.trim(101)
        await bus.put("state/needs/echo", b'{"seq":7}', revision=0)
        await report_position(bus, "needs", [ActionTaken], 250)
        return await everything(bus)


@pytest.fixture
def other(tmp_path: Path) -> Home:
    """Where there is no home yet."""
    return Home(tmp_path / "other")


async def test_what_was_kept_comes_back_under_the_same_sequences(
    home: Home,
    common: CommonOptions,
    full: tuple[list[Delivery], dict[str, bytes], str],
    other: Home,
    tmp_path: Path,
    printed: Printed,
) -> None:
    """Events with place and time, the bucket, the epoch, the agents' ids; and it goes on from there."""
    file = tmp_path / "bus.zip"
    await backup.snapshot(file, common=common)
    assert f"snapshot {file}: 200 events, 101 to 300" in printed()

    await backup.restore(file, common=CommonOptions(home=other.path, json=True))

    told = json.loads(printed())
    assert (told["schema"], told["first"], told["last"], told["events"]) == ("conch.v1.restored", 101, 300, 200)
    assert await held(other) == full
    assert other.agents() == home.agents()
    async with open_bus(other, Settings()) as bus:
        assert [(one.name, one.seq, one.lag) for one in await standings(bus)] == [("needs", 250, 50)]
        assert (await bus.publish(ACT, b"", id="299")).duplicate
        await fill(bus, 1, 300)
        assert (await bus.state()).last == 301
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(other.bus.glob("restoring-*")) == []


async def test_the_memories_of_the_agents_come_back_with_the_bus(
    home: Home,
    common: CommonOptions,
    full: tuple[list[Delivery], dict[str, bytes], str],
    other: Home,
    tmp_path: Path,
) -> None:
    """Also what stands in the write-ahead log alone; a memory that is there stays, unless it is to be replaced."""
    file = tmp_path / "bus.zip"
    agents = LongTermMemory(home.agent_dir("echo") / MEMORY_FILE)
    agents.add([made("The tide is high")])

    await backup.snapshot(file, common=common)
    agents.close()
    options = CommonOptions(home=other.path)
    await backup.restore(file, common=options)

    restored = LongTermMemory(other.agent_dir("echo") / MEMORY_FILE)
    assert [one.memory.text for one in restored.recall("tides", 5, now=0)] == ["The tide is high"]
    assert sorted(path.name for path in home.agent_dir("echo").glob("*snap*")) == []
    restored.add([made("Kelp grows", number=1)])
    restored.close()
    await backup.restore(file, force=True, common=options)
    assert [one.text for one in LongTermMemory(other.agent_dir("echo") / MEMORY_FILE).newest(5)] == ["The tide is high"]


async def test_a_snapshot_during_a_run_is_of_one_moment(
    home: Home,
    common: CommonOptions,
    in_progress: InProgress,
    other: Home,
    tmp_path: Path,
) -> None:
    """Others go on writing; no place in the bucket leads the stream that comes back."""
    file, taken = tmp_path / "bus.zip", asyncio.Event()

    async def write(bus: Bus) -> None:
        begin = 0
        while not taken.is_set():
            await fill(bus, 20, begin)
            begin += 20
            await report_position(bus, "needs", [ActionTaken], begin)

    async with in_progress() as bus:
        writing = asyncio.create_task(write(bus))
        while (await bus.state()).last < 200:
            await asyncio.wait({writing}, timeout=0.01)
        await durable(bus, "theirs", [ACT], after=150)
        await backup.snapshot(file, common=common)
        taken.set()
        await writing
        there, _, epoch = await everything(bus)

    await backup.restore(file, common=CommonOptions(home=other.path))

    events, bucket, same = await held(other)
    assert 200 <= len(events) <= len(there)
    assert (events, same) == (there[: len(events)], epoch)
    # The server may leave a value out that is written anew just then: its reader begins at the stream's start again.
    assert json.loads(bucket.get("position/needs", b'{"seq": 0}'))["seq"] <= len(events)
    async with open_bus(other, Settings()) as bus:
        assert [(one.name, one.acknowledged) for one in await bus.readers()] == [("theirs", 150)]


async def test_a_bus_that_is_there_is_not_replaced_unasked(
    home: Home, common: CommonOptions, full: tuple[list[Delivery], dict[str, bytes], str], tmp_path: Path
) -> None:
    """Refused with what is there; with --force it is replaced; an empty one is in nobody's way."""
    file = tmp_path / "bus.zip"
    await backup.snapshot(file, common=common)
    async with open_bus(home, Settings()) as bus:
        await fill(bus, 5, 1000)

    with pytest.raises(ConchError, match=r"there is a stream in .* already, with 205 events"):
        await backup.restore(file, common=common)
    assert len((await held(home))[0]) == 205
    await backup.restore(file, force=True, common=common)
    assert await held(home) == full

    empty = Home(tmp_path / "empty")
    assert (await held(empty))[0] == []
    await backup.restore(file, common=CommonOptions(home=empty.path))
    assert await held(empty) == full


async def test_a_store_that_goes_on_behind_the_snapshot_is_said(
    home: Home,
    common: CommonOptions,
    full: tuple[list[Delivery], dict[str, bytes], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What it has joined since would be witnessed a second time; one that has not read so far is in order."""
    file = tmp_path / "bus.zip"
    await backup.snapshot(file, common=common)

    async def told(position: int) -> str:
        with SqliteStore(home.path / "store.db") as store:
            store.set_position(position)
        await backup.restore(file, force=True, common=common)
        return capsys.readouterr().err

    assert "store.db has read up to 301, the snapshot ends at 300" in await told(301)
    assert await told(300) == ""


async def test_a_run_in_progress_is_left_alone(
    common: CommonOptions, full: tuple[list[Delivery], dict[str, bytes], str], in_progress: InProgress, tmp_path: Path
) -> None:
    """Restoring needs the bus for itself."""
    file = tmp_path / "bus.zip"
    async with in_progress():
        await backup.snapshot(file, common=common)

        with pytest.raises(ConchError, match="has a run in progress: conch stop"):
            await backup.restore(file, force=True, common=common)


async def test_another_agent_of_that_name_is_not_replaced_unasked(
    common: CommonOptions, full: tuple[list[Delivery], dict[str, bytes], str], other: Home, tmp_path: Path
) -> None:
    """The stream would not be its own."""
    file = tmp_path / "bus.zip"
    await backup.snapshot(file, common=common)
    own = other.agentuid("echo")
    other.make()

    with pytest.raises(ConchError, match=f"has another agent echo \\({own}\\)"):
        await backup.restore(file, common=CommonOptions(home=other.path))
    assert not other.bus.exists()
    await backup.restore(file, force=True, common=CommonOptions(home=other.path))

    assert other.agentuid("echo") != own
    assert await held(other) == full


def _flipped(data: bytes) -> bytes:
    """One bit of an event changed, and the zip's own sum made right: whoever can write the file can do that."""
    import io
    import zlib

    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(out, "w") as after:
        for name in before.namelist():
            body = bytearray(before.read(name))
            if name == "CONCH":
                body[len(body) // 2] ^= 1
            after.writestr(name, bytes(body))
    assert zlib.crc32(out.getvalue()) != zlib.crc32(data)
    return out.getvalue()


def _manifest(change: Callable[[dict[str, Any]], Any]) -> Callable[[bytes], bytes]:
    """The manifest saying something else."""

    def edit(data: bytes) -> bytes:
        import io

        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(out, "w") as after:
            for name in before.namelist():
                body = before.read(name)
                if name == "manifest.json":
                    told = json.loads(body)
                    body = json.dumps(change(told) or told).encode()
                after.writestr(name, body)
        return out.getvalue()

    return edit


BROKEN: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "nothing": (lambda _: b"", "is no snapshot, or not all of one"),
    "something else": (lambda _: b"PK\x03\x04 no zip", "is no snapshot, or not all of one"),
    "cut": (lambda data: data[: len(data) * 2 // 3], "is no snapshot, or not all of one"),
    "damaged": (lambda data: data[:20_000] + b"\x00" * 100 + data[20_100:], "is no snapshot, or not all of one"),
    "changed": (_flipped, "CONCH is not what was written into it"),
    "newer": (_manifest(lambda told: told.update(format=2)), "made by a newer version .format 2, this one knows 1"),
    "no manifest of ours": (_manifest(lambda _: {"hello": 1}), "its manifest says something else"),
    "a list": (_manifest(lambda _: [1]), "its manifest says something else"),
    "a path": (_manifest(lambda told: told.update(agents={"../x": "y"})), "its manifest says something else"),
    "without its stream": (_manifest(lambda told: told.update(parts=told["parts"][:1])), "holds no stream CONCH"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_file_that_is_not_whole_is_one_sentence(
    common: CommonOptions, full: tuple[list[Delivery], dict[str, bytes], str], other: Home, tmp_path: Path, name: str
) -> None:
    """And nothing is made of it."""
    breaks, why = BROKEN[name]
    file = tmp_path / "bus.zip"
    await backup.snapshot(file, common=common)
    file.write_bytes(breaks(file.read_bytes()))

    with pytest.raises(ConchError, match=why) as refusal:
        await backup.restore(file, common=CommonOptions(home=other.path))

    assert str(file) in str(refusal.value) or name == "without its stream"
    assert not other.path.exists()


async def test_a_file_that_is_not_there_is_one_sentence(other: Home, tmp_path: Path) -> None:
    """With its name."""
    with pytest.raises(ConchError, match=r"absent\.zip cannot be read .No such file or directory"):
        await backup.restore(tmp_path / "absent.zip", common=CommonOptions(home=other.path))


@contextmanager
def little_room(size: int) -> Iterator[None]:
    """No file of this process may grow beyond `size` bytes: what a full disk is to a writer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_disk_that_is_full_leaves_the_snapshot_from_before(
    home: Home,
    common: CommonOptions,
    full: tuple[list[Delivery], dict[str, bytes], str],
    in_progress: InProgress,
    tmp_path: Path,
) -> None:
    """One sentence, no half a file, and the older one is as it was."""
    file = tmp_path / "backups" / "bus.zip"
    file.parent.mkdir()
    async with in_progress():
        await backup.snapshot(file, common=common)
        before = file.read_bytes()

        with little_room(50_000), pytest.raises(ConchError, match=r"bus.zip cannot be written \(File too large\)"):
            await backup.snapshot(file, common=common)

    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


async def test_a_restore_that_fails_on_the_way_leaves_what_was_there(
    home: Home,
    common: CommonOptions,
    full: tuple[list[Delivery], dict[str, bytes], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a home's own bus, even where it was to be replaced."""
    from conch.bus.jetstream import transfer

    file = tmp_path / "bus.zip"
    await backup.snapshot(file, common=common)
    async with open_bus(home, Settings()) as bus:
        await fill(bus, 5, 1000)
    whole = transfer.unpack

    async def half(connection: Any, config: dict[str, Any], *rest: Any) -> Any:
        if config["name"] == "KV_conch":
            raise BusError("insufficient storage")
        return await whole(connection, config, *rest)

    monkeypatch.setattr("conch.bus.jetstream.unpack", half)
    with pytest.raises(ConchError, match="nothing of it is there: KV_conch: insufficient storage") as refusal:
        await backup.restore(file, force=True, common=common)

    assert refusal.value.exit_code == 1
    assert len((await held(home))[0]) == 205
    assert list(home.bus.glob("restoring-*")) == []


@pytest.fixture
async def own_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EmbeddedServer]:
    """A NATS server of one's own, which the settings name."""
    server = EmbeddedServer(tmp_path / "own", token="t", strict=False, max_bytes=2**30)
    await server.start()
    monkeypatch.setenv("CONCH_BUS__URL", server.url)
    monkeypatch.setenv("CONCH_BUS__TOKEN", "t")
    yield server
    await server.stop()


async def test_a_server_of_ones_own_is_restored_as_well(
    other: Home, home: Home, tmp_path: Path, own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole or not at all: a failure on the way leaves it without a stream; what is there is not replaced unasked."""
    from conch.bus.jetstream import transfer

    file, common = tmp_path / "bus.zip", CommonOptions(home=home.path)
    async with open_bus(home, common.settings()) as bus:
        await fill(bus, 50)
        await bus.trim(11)
        before = await everything(bus)
    await backup.snapshot(file, common=common)
    with pytest.raises(ConchError, match=r"there is a stream on nats://.* already, with 40 events"):
        await backup.restore(file, common=common)
    whole = transfer.unpack

    async def half(connection: Any, config: dict[str, Any], *rest: Any) -> Any:
        if config["name"] == "KV_conch":
            raise BusError("insufficient storage")
        return await whole(connection, config, *rest)

    with monkeypatch.context() as patch:
        patch.setattr("conch.bus.jetstream.unpack", half)
        with pytest.raises(ConchError, match="nothing of it is there: KV_conch: insufficient storage"):
            await backup.restore(file, force=True, common=common)
    async with open_bus(home, common.settings()) as bus:
        assert (await bus.state()).last == 0
    await backup.restore(file, common=common)

    async with open_bus(home, common.settings()) as bus:
        assert await everything(bus) == before


async def test_a_directory_is_no_file(common: CommonOptions, tmp_path: Path) -> None:
    """Said before anything is started."""
    with pytest.raises(UsageError, match="is a directory: name a file in it"):
        await backup.snapshot(tmp_path, common=common)


def test_on_the_command_line_a_refusal_is_one_sentence(
    tmp_path: Path, conch: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """Exit status 1 and no word on stdout."""
    (tmp_path / "bus.zip").write_bytes(b"no zip")

    result = conch("bus", "restore", str(tmp_path / "bus.zip"))

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
