"""The agents' memories in a snapshot of the bus: written into its file, and put back."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from conch.cli.common import warn
from conch.errors import ConchError
from conch.memory import MEMORY_FILE, LongTermMemory

if TYPE_CHECKING:
    from conch.bus import ArchiveManifest, ArchiveWriter
    from conch.home import Home

CHUNK = 1024 * 1024
"""Bytes that are read at a time."""


def take_memories(home: Home, writer: ArchiveWriter) -> None:
    """Write the memory of each agent that has one into the archive, of one moment, also while the agent runs.

    To be called once the bucket is in it: what the agents' positions have passed is in their memories then, and the
    rest is read from the stream again. Raises StoreError for a damaged memory.
    """
    for agent in home.agents():
        file = home.agent_dir(agent) / MEMORY_FILE
        if not file.exists():
            continue
        with tempfile.TemporaryDirectory(dir=file.parent, prefix="snapshot-") as folder:
            copy = Path(folder) / MEMORY_FILE
            store = LongTermMemory(file)
            try:
                store.copy(copy)
            finally:
                store.close()
            with copy.open("rb") as stream, writer.part(_part(agent), {}, {}) as write:
                while chunk := stream.read(CHUNK):
                    write(chunk)


def put_memories(home: Home, file: Path, manifest: ArchiveManifest, *, force: bool) -> None:
    """Put the memories of an archive that was checked into the home. One that is there already stays, with a word,
    unless `force`. Raises ConchError where it cannot be written."""
    held = {part.name for part in manifest.parts}
    for agent in manifest.agents:
        if _part(agent) not in held:
            continue
        place = home.agent_dir(agent) / MEMORY_FILE
        if place.exists() and not force:
            warn(f"{place} stays: the snapshot's memory of {agent} is not put in its place without --force")
            continue
        try:
            _put(file, agent, place)
        except OSError as error:
            raise ConchError(f"{place} cannot be written ({error.strerror}): make room, and restore again") from error


def _put(file: Path, agent: str, place: Path) -> None:
    """Write it beside its place first: a kill leaves the old memory or the new one."""
    from conch.bus import chunks_of

    beside = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with chunks_of(file, _part(agent)) as chunks, beside.open("wb") as stream:
            for chunk in chunks:
                stream.write(chunk)
            stream.flush()
            os.fsync(stream.fileno())
        for suffix in ("-wal", "-shm"):
            place.with_name(place.name + suffix).unlink(missing_ok=True)
        beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)


def _part(agent: str) -> str:
    return f"memory/{agent}"
