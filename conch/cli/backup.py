"""`conch bus snapshot | restore`: write the stream and the bucket into one file, and read them back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from conch.bus.jetstream import BUCKET_STREAM, STREAM
from conch.cli.common import CommonOptions, embedded_server, emit, owned_in_turn, quiet, reach, say, stream_bytes, warn
from conch.cli.memory_archive import put_memories, take_memories
from conch.cli.options import COMMON
from conch.cli.progress import Told, moving
from conch.errors import BusError, ConchError, UsageError
from conch.home import write_whole

if TYPE_CHECKING:
    from conch.bus import ArchivedStream, ArchiveManifest, ArchiveWriter
    from conch.bus.jetstream import Connection, StreamDescription
    from conch.config import Settings
    from conch.home import Home

TAKEN = (BUCKET_STREAM, STREAM)
"""In the order in which they are taken: no position in the bucket may lead the stream."""
_CHOSEN_BY_THE_SERVER = "_nats."

File = Annotated[Path, Parameter(help="The snapshot's file.")]


async def snapshot(file: File, /, *, common: CommonOptions = COMMON) -> None:
    """Write the whole bus into FILE, of one moment, with or without a run: facts under their sequences, places, states;
    and the agents' memories.

    FILE gets its name once it is whole; what stood there is replaced then. The experience store is not in it: it joins
    what the stream holds once more, or has a backup of its own.
    """
    from conch.bus import writing
    from conch.bus.jetstream import Connection

    _refuse_odd(file)
    home, settings = common.existing(), common.settings()
    async with reach(home, settings) as access, Connection(access, name="conch-snapshot") as connection:
        with (
            writing(
                file, version=version("conch-agent"), server=str(connection.said.get("version")), agents=home.agents()
            ) as writer,
            moving() as told,
        ):
            for stream in TAKEN:
                await _take(connection, writer, stream, told)
            await asyncio.to_thread(take_memories, home, writer)
    _tell(common, "snapshot", file, writer.parts[TAKEN.index(STREAM)])


def _refuse_odd(file: Path) -> None:
    """Raises UsageError for a pipe or a device, which would be waited for, and for a directory."""
    if file.is_dir():
        raise UsageError(f"{file} is a directory: name a file in it")
    if file.exists() and not file.is_file():
        raise UsageError(f"{file} is a pipe or a device, no plain file: name another one")


async def _take(connection: Connection, writer: ArchiveWriter, stream: str, told: Told) -> None:
    from conch.bus.jetstream import pack

    with ExitStack() as stack:

        def begin(told_of: StreamDescription) -> Callable[[bytes], None]:
            write, done = stack.enter_context(writer.part(stream, told_of.config, told_of.state)), 0

            def take(chunk: bytes) -> None:
                nonlocal done
                write(chunk)
                done += len(chunk)
                told(f"packing {stream}", done, told_of.state["bytes"])

            return take

        await pack(connection, stream, begin)


async def restore(
    file: File,
    /,
    *,
    force: Annotated[
        bool, Parameter(negative="", help="In place of the stream that is there, which is gone then.")
    ] = False,
    common: CommonOptions = COMMON,
) -> None:
    """Put the bus of FILE back, sequences and all, where there is none; not during a run.

    The agents' ids and memories come back with it. Whatever goes wrong, nothing is half there.
    """
    from conch.bus import read_manifest

    quiet()
    _refuse_odd(file)
    home, settings = common.where(), common.settings()
    if home.running() is not None:
        raise ConchError(f"{home.path} has a run in progress: conch stop, then restore")
    with moving() as told:
        manifest = read_manifest(file, told)
    for stream in TAKEN:
        manifest.part(stream)
    async with owned_in_turn(home):
        _refuse_others(home, manifest, force=force)
        if settings.bus.url is None:
            await _restore_embedded(home, settings, file, manifest, force=force)
        else:
            await _restore_own(home, settings, file, manifest, force=force)
        for agent, agentuid in manifest.agents.items():
            home.agent_dir(agent).mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(home.agent_dir(agent) / "agentuid", f"{agentuid}\n")
        put_memories(home, file, manifest, force=force)
    _tell(common, "restored", file, manifest.part(STREAM))
    _warn_of_newer_store(home, settings, manifest.part(STREAM).state["last_seq"])


def _warn_of_newer_store(home: Home, settings: Settings, last: int) -> None:
    """Say where the home has experiences from behind the snapshot: what is witnessed from now on forks the chain."""
    from conch.experience import store_location

    path = store_location(settings.store.url, home.path)
    if not path.exists():
        return
    with path.reader() as store:
        position = store.position()
    if position > last:
        warn(
            f"{path} has read up to {position}, the snapshot ends at {last}: marks of both will not be one chain; "
            "move that store away, or put one of the snapshot's time there, and it is joined anew"
        )


def _refuse_others(home: Home, manifest: ArchiveManifest, *, force: bool) -> None:
    """Raises ConchError where the home's agents are others than the snapshot's."""
    for agent, agentuid in home.agents().items():
        if not force and manifest.agents.get(agent, agentuid) != agentuid:
            raise ConchError(
                f"{home.path} has another agent {agent} ({agentuid}) than the snapshot "
                f"({manifest.agents[agent]}): choose another --home, or --force"
            )


async def _restore_embedded(
    home: Home, settings: Settings, file: Path, manifest: ArchiveManifest, *, force: bool
) -> None:
    """Replay into a new store file beside the home's, which replaces the home's once it is complete."""
    kept = home.bus / "jetstream"
    # Written to disk message by message it would take minutes: all of it is copied there at the end.
    hurried = settings.model_copy(update={"bus": settings.bus.model_copy(update={"durability": "fast"})})
    if not force and kept.exists():
        async with _server(home.bus, home, settings) as connection:
            await _refuse_existing(connection, f"in {home.path}")
    home.bus.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix="restoring-", dir=home.bus))
    try:
        async with _server(beside, home, hurried) as connection:
            await _put_back(connection, file, manifest, room=stream_bytes(settings), replicas=1)
        await asyncio.to_thread(_sync, beside)
        before = beside / "before"
        if kept.exists():
            kept.rename(before)
        (beside / "jetstream").rename(kept)
    except OSError as error:
        raise ConchError(
            f"{home.bus} cannot be written ({error.strerror}): make room, or choose another --home"
        ) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _sync(directory: Path) -> None:
    """Every file below it is on disk, and every name."""
    for place in (directory, *directory.rglob("*")):
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


async def _restore_own(home: Home, settings: Settings, file: Path, manifest: ArchiveManifest, *, force: bool) -> None:
    """Restore into the home's own server. With `force` the present data are removed first, even if this then fails."""
    from conch.bus import access_to
    from conch.bus.jetstream import Connection

    access = access_to(home, settings)
    assert access is not None
    async with Connection(access, name="conch-restore") as connection:
        if not force:
            await _refuse_existing(connection, f"on {access.shown}")
        await _remove(connection)
        try:
            await _put_back(connection, file, manifest, room=None, replicas=settings.bus.replicas)
        except BaseException:
            with contextlib.suppress(BusError):
                await _remove(connection)
            raise


@asynccontextmanager
async def _server(directory: Path, home: Home, settings: Settings) -> AsyncIterator[Connection]:
    """An embedded server over the store in `directory`, while entered."""
    from conch.bus.jetstream import Connection
    from conch.processes import served

    server = embedded_server(home, settings)
    server.directory = directory
    async with served(server), Connection(server.access, name="conch-restore") as connection:
        yield connection


async def _refuse_existing(connection: Connection, where: str) -> None:
    """Raises ConchError where a stream holds, or held, anything."""
    from conch.bus.jetstream import described

    info = await described(connection, STREAM)
    if info is not None and info["state"]["last_seq"] > 0:
        raise ConchError(
            f"there is a stream {where} already, with {info['state']['messages']} events: choose another --home or "
            "server, or --force to put the snapshot in its place"
        )


async def _remove(connection: Connection) -> None:
    from conch.bus.jetstream import described

    for stream in reversed(TAKEN):
        if await described(connection, stream) is not None:
            await connection.api(f"STREAM.DELETE.{stream}")


async def _put_back(
    connection: Connection, file: Path, manifest: ArchiveManifest, *, room: int | None, replicas: int
) -> None:
    """Both streams, as they were; `room`: bytes that the stream may take from now on."""
    from conch.bus import chunks_of
    from conch.bus.jetstream import unpack

    for name in reversed(TAKEN):
        part = manifest.part(name)
        metadata = part.config.get("metadata") or {}
        ours = {key: value for key, value in metadata.items() if not key.startswith(_CHOSEN_BY_THE_SERVER)}
        config = part.config | {"name": name, "num_replicas": replicas, "metadata": ours}
        if room is not None and name == STREAM:
            config["max_bytes"] = room
        try:
            with chunks_of(file, name) as chunks, moving() as told:
                info = await unpack(connection, config, part.state, _counted(chunks, name, part.size, told))
        except BusError as error:
            raise ConchError(f"{file} could not be put back, nothing of it is there: {name}: {error}") from error
        if info["state"]["last_seq"] != part.state["last_seq"]:
            raise ConchError(f"the server has put {name} back up to {info['state']['last_seq']} alone")


def _counted(chunks: Iterator[bytes], name: str, size: int, told: Told) -> Iterator[bytes]:
    done = 0
    for chunk in chunks:
        yield chunk
        done += len(chunk)
        told(f"restoring {name}", done, size)


def _tell(common: CommonOptions, what: str, file: Path, stream: ArchivedStream) -> None:
    state = stream.state
    figures = {"first": state["first_seq"], "last": state["last_seq"], "events": state["messages"]}
    if common.json:
        from conch.views import SnapshotMade, SnapshotRestored

        made = SnapshotMade if what == "snapshot" else SnapshotRestored
        emit(made(file=str(file), **figures, bytes=file.stat().st_size))
    else:
        size = file.stat().st_size / 2**20
        say(f"{what} {file}: {figures['events']} events, {figures['first']} to {figures['last']}, {size:.1f} MiB")
