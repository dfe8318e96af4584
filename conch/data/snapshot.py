"""A snapshot: a directory of rows sorted by their id, with its manifest, written under another name until it is whole.

Rows are gathered by the first byte of their id, with a file for what is beyond some 32 MB, then sorted by that byte:
memory is bounded by this and by the 256th part of the rows.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

from conch.data.manifest import MANIFEST, FileDigest, Manifest, Tally
from conch.data.row import Format, LeftOut, Row, Split
from conch.data.selection import Selection
from conch.data.tables import ParquetFile, refuse_without_arrow
from conch.errors import ContractError, UsageError

UNFINISHED: Final = ".unfinished-"
"""Begins the name of a directory in which a snapshot is being written. Its writer holds a lock (flock) on it."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SPLITS: Final[tuple[Split, ...]] = ("train", "eval")
_DIGITS: Final = 12
"""Digits of the digest that make the name of a snapshot without one."""
_GROUP_ROWS: Final = 4096
_GROUP_BYTES: Final = 4 * 1024 * 1024
"""Rows and bytes of JSON after which a group is written: finding a row reads one group."""
_BUFFER: Final = 64 * 1024
"""Bytes of rows with the same split and first byte that are gathered before they are written."""
_ID: Final = 64
"""Digits of a row id."""


def write_snapshot(
    answers: Iterable[Row | LeftOut],
    out: Path,
    format: Format,
    selection: Selection,
    *,
    name: str | None = None,
    jsonl: bool = False,
) -> tuple[Path, Manifest]:
    """The snapshot of these rows in the directory `out`, which is made: (its directory, its manifest).

    `name`: of its directory; None: the first 12 digits of its digest. `jsonl`: JSON Lines instead of Parquet. All files
    are on the disk before the directory gets its name; after any error nothing is left. The same rows give the same
    bytes; a snapshot that is there already with this content stays as it is.

    Raises UsageError for a name that is none, or that another snapshot has, and for an `out` that cannot be written in;
    OSError where the disk is full.
    """
    if name is not None and not NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} is no name of a snapshot: letters, digits, `.`, `_` and `-`, at most 64")
    if not jsonl:
        refuse_without_arrow()
    with _working_directory(out) as work:
        manifest = _write_files(answers, work, format, selection, jsonl=jsonl)
        return _published(work, out / (name or manifest.digest[:_DIGITS]), manifest), manifest


def read_manifest(snapshot: Path) -> Manifest:
    """The manifest of a snapshot. Raises UsageError where there is none, CheckError where it was edited."""
    try:
        text = (snapshot / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"there is no snapshot at {snapshot}: conch data export makes one") from error
    return Manifest.decode(text, str(snapshot / MANIFEST))


@contextmanager
def _working_directory(out: Path) -> Iterator[Path]:
    """A locked directory in `out`, which is made, to write in; what is left there at the end is removed."""
    work = out / f"{UNFINISHED}{uuid4().hex}"
    try:
        out.mkdir(parents=True, exist_ok=True)
        work.mkdir(mode=0o700)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise UsageError(
            f"{out} is no directory that can be written in ({error.strerror}): name another one with --out"
        ) from error
    handle = os.open(work, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        os.close(handle)


def _write_files(
    answers: Iterable[Row | LeftOut], work: Path, format: Format, selection: Selection, *, jsonl: bool
) -> Manifest:
    tally, spill = Tally(), Spill(work)
    try:
        for answer in answers:
            if isinstance(answer, LeftOut):
                tally.leave(answer)
            else:
                spill.add(answer)
                tally.take(answer)
        content, files = hashlib.sha256(), {}
        for split in _SPLITS:
            path = work / f"{split}-00000.{'jsonl' if jsonl else 'parquet'}"
            rows = 0
            with path.open("xb") as file:
                rows = (_write_lines if jsonl else _write_parquet)(file, spill.sorted(split), format, content)
                file.flush()
                os.fsync(file.fileno())
            files[path.name] = FileDigest(rows=rows, bytes=path.stat().st_size, sha256=_digest(path))
    finally:
        spill.remove()
    filters = {key: str(value) if isinstance(value, datetime) else value for key, value in asdict(selection).items()}
    manifest = Manifest(
        conch=version("conch-agent"),
        format=format,
        rows_seen=tally.seen,
        rows_in=tally.rows,
        left_out=dict(sorted(tally.left_out.items())),
        splits=dict(tally.splits),
        filters=filters,
        figures=tally.figures(),
        why_empty=tally.why_empty(),
        content=content.hexdigest(),
        files=files,
    ).sealed()
    with (work / MANIFEST).open("xb") as file:
        file.write(manifest.encode())
        file.flush()
        os.fsync(file.fileno())
    return manifest


def _write_lines(file: BinaryIO, lines: Iterator[bytes], format: Format, content: hashlib._Hash) -> int:
    rows = 0
    for line in lines:
        content.update(line + b"\n")
        file.write(line + b"\n")
        rows += 1
    return rows


def _write_parquet(file: BinaryIO, lines: Iterator[bytes], format: Format, content: hashlib._Hash) -> int:
    rows = 0
    with ParquetFile(file, format) as table:
        for group in _groups(lines):
            for line in group:
                content.update(line + b"\n")
            table.write(group)
            rows += len(group)
        if not rows:
            table.write([])
    return rows


def _groups(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    size = 0
    for line in lines:
        group.append(line)
        size += len(line)
        if len(group) >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


class Spill:
    """Rows by split and by the first byte of their id: those that came last in memory, the others in one file."""

    def __init__(self, work: Path) -> None:
        self._path = work / "spill"
        self._file = self._path.open("x+b", buffering=0)
        self._size = 0
        self._buffers: dict[str, bytearray] = {}
        self._written: dict[str, list[tuple[int, int]]] = {}
        """Place and length of what is in the file of a bucket."""

    def add(self, row: Row) -> None:
        """Put the row there."""
        bucket = row.split + row.row_id[:2]
        buffer = self._buffers.get(bucket)
        if buffer is None:
            buffer = self._buffers[bucket] = bytearray()
        buffer += b"%b%b\n" % (row.row_id.encode(), row.line())
        if len(buffer) >= _BUFFER:
            self._write(bucket, buffer)

    def sorted(self, split: Split) -> Iterator[bytes]:
        """The rows of a split as JSON, by their id. Raises ContractError for a row that came twice."""
        for byte in range(256):
            bucket = f"{split}{byte:02x}"
            parts = [os.pread(self._file.fileno(), size, at) for at, size in self._written.pop(bucket, ())]
            lines = b"".join((*parts, self._buffers.pop(bucket, b""))).split(b"\n")[:-1]
            lines.sort()
            if any(line[:_ID] == after[:_ID] for line, after in pairwise(lines)):
                raise ContractError("a row of the data set came twice: each has acts of its own")
            yield from (line[_ID:] for line in lines)

    def remove(self) -> None:
        """Remove the file."""
        self._file.close()
        self._path.unlink(missing_ok=True)

    def _write(self, bucket: str, buffer: bytearray) -> None:
        self._written.setdefault(bucket, []).append((self._size, len(buffer)))
        while buffer:
            written = self._file.write(buffer)
            self._size += written
            del buffer[:written]


def _published(work: Path, final: Path, manifest: Manifest) -> Path:
    """Give the whole directory its name."""
    _sync_directory(work)
    try:
        os.rename(work, final)
    except OSError:
        if not final.exists():
            raise
        if (final / MANIFEST).exists() and read_manifest(final).digest == manifest.digest:
            return final
        raise UsageError(f"there is another snapshot at {final}: choose another name with --snapshot") from None
    _sync_directory(final.parent)
    return final


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
