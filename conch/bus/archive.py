"""An archive of the bus in one file: each stream as the server packed it, and a manifest with sizes and digests.

A zip file without further compression: `manifest.json` and one member per stream. The manifest is written last, and the
file is renamed to its final name last, so an incomplete file is never taken for a complete one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conch.errors import ConchError
from conch.files import open_plain
from conch_schemas import JsonObject
from conch_schemas.envelope import AGENT_PATTERN

FORMAT = 1
"""Version of the file's layout. A newer one is refused."""
CHUNK = 128 * 1024
"""Bytes that are read or written at a time."""
_UUID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_MANIFEST = "manifest.json"
_MOST_MANIFEST = 64 * 2**20

Told = Callable[[str, int, int], None]
"""Progress: (what, bytes done, bytes in all, or 0 if not known)."""


class ArchivedStream(BaseModel):
    """One stream of the archive."""

    model_config = ConfigDict(frozen=True)

    name: str
    """The stream's name."""
    config: JsonObject
    """As the server described it."""
    state: JsonObject
    """Sequences, messages and bytes at the moment of the snapshot."""
    size: int = Field(ge=0)
    """Bytes of its zip member."""
    sha256: str


class ArchiveManifest(BaseModel):
    """The manifest: versions, agents and streams of an archive."""

    model_config = ConfigDict(frozen=True)

    format: int
    made: datetime
    version: str
    """Version of Conch."""
    server: str
    """Version of the nats-server."""
    agents: dict[Annotated[str, Field(pattern=AGENT_PATTERN)], Annotated[str, Field(pattern=_UUID)]]
    """Name -> UUID of the home's agents, whose events the stream holds."""
    parts: tuple[ArchivedStream, ...]
    """The streams, in the order in which they were packed."""

    def part(self, stream: str) -> ArchivedStream:
        """The entry of this stream. Raises ConchError when it is not there."""
        for part in self.parts:
            if part.name == stream:
                return part
        raise ConchError(f"the snapshot holds no stream {stream}: it is not one of Conch's")


class ArchiveWriter:
    """An archive that is being written; made by `writing`."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.parts: list[ArchivedStream] = []

    @contextlib.contextmanager
    def part(self, name: str, config: JsonObject, state: JsonObject) -> Iterator[Callable[[bytes], None]]:
        """`write(chunk)` while entered; left without an exception, the stream is part of the file."""
        digest, size = hashlib.sha256(), 0

        def write(chunk: bytes) -> None:
            nonlocal size
            member.write(chunk)
            digest.update(chunk)
            size += len(chunk)

        with self._archive.open(zipfile.ZipInfo(name, _now()), "w", force_zip64=True) as member:
            yield write
        self.parts.append(ArchivedStream(name=name, config=config, state=state, size=size, sha256=digest.hexdigest()))


@contextlib.contextmanager
def writing(file: Path, *, version: str, server: str, agents: dict[str, str]) -> Iterator[ArchiveWriter]:
    """Write an archive: complete and on disk once this is left without an exception; otherwise any earlier file stays.

    Raises ConchError when it cannot be written.
    """
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as stream:
            with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
                writer = ArchiveWriter(archive)
                yield writer
                manifest = ArchiveManifest(
                    format=FORMAT, made=datetime.now(UTC), version=version, server=server, agents=agents,
                    parts=tuple(writer.parts),
                )  # fmt: skip
                archive.writestr(zipfile.ZipInfo(_MANIFEST, _now()), manifest.model_dump_json(indent=2))
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(file)
    except OSError as error:
        raise ConchError(f"{file} cannot be written ({error.strerror}): make room, or name another file") from error
    finally:
        beside.unlink(missing_ok=True)


def read_manifest(file: Path, told: Told) -> ArchiveManifest:
    """The manifest of an archive, after every byte of the file was checked against it.

    Raises ConchError for a file that is no archive, incomplete, changed, or of a newer format.
    """
    try:
        with _reading(file) as archive:
            manifest = _manifest(file, archive)
            for part in manifest.parts:
                _check(file, archive, part, told)
    except (OSError, zipfile.BadZipFile, KeyError, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no snapshot, or not all of one"
        raise ConchError(f"{file} cannot be read ({why or error}): name another one") from error
    return manifest


@contextlib.contextmanager
def chunks_of(file: Path, stream: str) -> Iterator[Iterator[bytes]]:
    """The packed stream, chunk by chunk, from an archive that was checked."""
    with _reading(file) as archive, archive.open(stream) as member:
        yield iter(lambda: member.read(CHUNK), b"")


@contextlib.contextmanager
def _reading(file: Path) -> Iterator[zipfile.ZipFile]:
    with open_plain(file) as stream, zipfile.ZipFile(stream) as archive:
        yield archive


def _manifest(file: Path, archive: zipfile.ZipFile) -> ArchiveManifest:
    with archive.open(_MANIFEST) as member:
        text = member.read(_MOST_MANIFEST)
    found: Any = json.loads(text)
    if isinstance(found, dict) and isinstance(found.get("format"), int) and found["format"] > FORMAT:
        raise ConchError(
            f"{file} was made by a newer version (format {found['format']}, this one knows {FORMAT}): "
            "upgrade conch-agent"
        )
    try:
        return ArchiveManifest.model_validate(found)
    except ValidationError:
        raise ConchError(f"{file} is no snapshot of a bus: its manifest says something else") from None


def _check(file: Path, archive: zipfile.ZipFile, part: ArchivedStream, told: Told) -> None:
    digest, size = hashlib.sha256(), 0
    with archive.open(part.name) as member:
        while chunk := _read(member):
            digest.update(chunk)
            size += len(chunk)
            if size > part.size:  # a compressed member could expand without end
                break
            told(f"checking {part.name}", size, part.size)
    if (size, digest.hexdigest()) != (part.size, part.sha256):
        raise ConchError(f"{file} is damaged: {part.name} is not what was written into it; name another one")


def _read(member: IO[bytes]) -> bytes:
    return member.read(CHUNK)


def _now() -> tuple[int, int, int, int, int, int]:
    now = datetime.now(UTC)
    return (now.year, now.month, now.day, now.hour, now.minute, now.second)
