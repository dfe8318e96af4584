"""A bus in one file: what the server gave of each stream, with a manifest that says what it is and whether it is whole.

A zip file, nothing in it compressed again: `manifest.json` and one member a stream. The manifest comes last and the
file gets its name last, so that half a file never passes for one.
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
from conch_schemas.envelope import AGENT_PATTERN

FORMAT = 1
"""Version of the file's layout. A newer one is refused."""
CHUNK = 128 * 1024
"""Bytes that are read or written at a time."""
_UUID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_MANIFEST = "manifest.json"
_MOST_MANIFEST = 64 * 2**20

Told = Callable[[str, int, int], None]
"""(what, bytes done, bytes in all or 0): how far it is."""


class ArchivedStream(BaseModel):
    """One stream of the file."""

    model_config = ConfigDict(frozen=True)

    name: str
    """The stream's."""
    config: dict[str, Any]
    """As the server described it."""
    state: dict[str, Any]
    """Sequences, messages and bytes, of the moment that the file is of."""
    size: int = Field(ge=0)
    """Bytes of the member."""
    sha256: str


class ArchiveManifest(BaseModel):
    """What a file says of itself."""

    model_config = ConfigDict(frozen=True)

    format: int
    made: datetime
    version: str
    """Of Conch."""
    server: str
    """Of the nats-server."""
    agents: dict[Annotated[str, Field(pattern=AGENT_PATTERN)], Annotated[str, Field(pattern=_UUID)]]
    """Name -> UUID of the home's agents: the stream is theirs."""
    parts: tuple[ArchivedStream, ...]
    """In the order in which they were taken."""

    def part(self, stream: str) -> ArchivedStream:
        """The one of this stream. Raises ConchError when it is not there."""
        for part in self.parts:
            if part.name == stream:
                return part
        raise ConchError(f"the snapshot holds no stream {stream}: it is not one of Conch's")


class ArchiveWriter:
    """A file that is being made; made by `writing`."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.parts: list[ArchivedStream] = []

    @contextlib.contextmanager
    def part(self, name: str, config: dict[str, Any], state: dict[str, Any]) -> Iterator[Callable[[bytes], None]]:
        """`write(chunk)` while entered; left in order, the stream is part of the file."""
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
    """The file, whole and on disk once this is left in order; else what stood there before, if anything.

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
    """What the file says of itself, every byte of it being held against that first.

    Raises ConchError for a file that is none, not whole, changed, or of a newer format.
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
    """What the server gave of a stream, piece by piece, of a file that was checked."""
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
            if size > part.size:  # packed, it may go on for ever
                break
            told(f"checking {part.name}", size, part.size)
    if (size, digest.hexdigest()) != (part.size, part.sha256):
        raise ConchError(f"{file} is damaged: {part.name} is not what was written into it; name another one")


def _read(member: IO[bytes]) -> bytes:
    return member.read(CHUNK)


def _now() -> tuple[int, int, int, int, int, int]:
    now = datetime.now(UTC)
    return (now.year, now.month, now.day, now.hour, now.minute, now.second)
