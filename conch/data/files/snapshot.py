"""A snapshot: a directory of sorted rows with its manifest, written under another name until it is whole."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO, Final
from uuid import uuid4

from conch.data.files.manifest import MANIFEST, FileDigest, Manifest, Tally
from conch.data.files.spill import Spill, SpilledRows, sorted_rows
from conch.data.files.tables import ParquetFile, refuse_without_arrow
from conch.data.redact import REDACTOR
from conch.data.row import SPLITS, Format, LeftOut, Row, Split
from conch.data.selection import Selection
from conch.errors import CheckError, UsageError

UNFINISHED: Final = ".unfinished-"
"""Begins the name of a directory in which a snapshot is being written. Its writer holds a lock (flock) on it."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DIGITS: Final = 12
"""Digits of the digest that make the name of a snapshot without one."""
_GROUP_ROWS: Final = 4096
_GROUP_BYTES: Final = 4 * 1024 * 1024
"""Rows and bytes of JSON after which a group is written: finding a row reads one group."""
_AHEAD: Final = 2
"""Groups that are sorted before one is written."""


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
    bytes; a snapshot that is there already with this content stays as it is, or is mended where it was damaged.

    Raises UsageError for a name that is none, or that another snapshot has, and for an `out` that cannot be written in;
    OSError where the disk is full.
    """
    return write_gathered(lambda work: _gathered(answers, work), out, format, selection, name=name, jsonl=jsonl)


@dataclass(frozen=True)
class Gathered:
    """All rows of a snapshot, counted, in no order."""

    tally: Tally
    spilled: Sequence[SpilledRows]
    part: Callable[[bytes], Split] = {}.__getitem__  # type: ignore[assignment]
    """The split of what stands for a state."""


def write_gathered(
    gather: Callable[[Path], Gathered],
    out: Path,
    format: Format,
    selection: Selection,
    *,
    name: str | None = None,
    jsonl: bool = False,
) -> tuple[Path, Manifest]:
    """As `write_snapshot`, of rows that `gather` puts into the directory that it is given."""
    if name is not None and not NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} is no name of a snapshot: letters, digits, `.`, `_` and `-`, at most 64")
    if not jsonl:
        refuse_without_arrow()
    with _working_directory(out) as work:
        manifest = _write_files(gather(work), work, format, selection, jsonl=jsonl)
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
    except OSError as error:
        error.filename = error.filename or str(out)  # a full disk names none
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
        os.close(handle)


def _gathered(answers: Iterable[Row | LeftOut], work: Path) -> Gathered:
    tally = Tally()
    with Spill(work / "spill") as spill:
        for answer in answers:
            if isinstance(answer, LeftOut):
                tally.leave(answer)
            else:
                spill.add(answer)
                tally.take(answer)
    return Gathered(tally, [spill.rows()])


def _write_files(gathered: Gathered, work: Path, format: Format, selection: Selection, *, jsonl: bool) -> Manifest:
    tally, content, files = gathered.tally, hashlib.sha256(), {}
    write, suffix = (_write_lines, "jsonl") if jsonl else (_write_parquet, "parquet")
    with (work / "later").open("x+b") as later:
        for split in SPLITS:
            path = work / f"{split}-00000.{suffix}"
            lines = _train_lines(gathered, later) if split == "train" else _lines_of(later)
            with path.open("xb") as file:
                rows = write(file, lines, format, content)
                file.flush()
                os.fsync(file.fileno())
            files[path.name] = FileDigest(rows=rows, bytes=path.stat().st_size, sha256=_digest(path))
    for used in (later.name, *(one.path for one in gathered.spilled)):
        os.unlink(used)
    filters = {key: str(value) if isinstance(value, datetime) else value for key, value in asdict(selection).items()}
    manifest = Manifest(
        conch=version("conch-agent"),
        redactor=REDACTOR,
        format=format,
        rows_seen=tally.seen,
        rows_in=tally.rows,
        left_out=dict(sorted(tally.left_out.items())),
        splits=tally.splits(),
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


def _train_lines(gathered: Gathered, later: BinaryIO) -> Iterator[bytes]:
    """The rows of train; those of eval are put into `later` on the way."""
    for split, line in sorted_rows(gathered.spilled, gathered.part):
        if split == "train":
            yield line
        else:
            later.write(line + b"\n")


def _lines_of(later: BinaryIO) -> Iterator[bytes]:
    later.seek(0)
    for line in later:
        yield line[:-1]


def _write_lines(file: BinaryIO, lines: Iterator[bytes], format: Format, content: hashlib._Hash) -> int:
    rows = 0
    for group in _groups(lines):
        block = b"\n".join(group) + b"\n"
        content.update(block)
        file.write(block)
        rows += len(group)
    return rows


def _write_parquet(file: BinaryIO, lines: Iterator[bytes], format: Format, content: hashlib._Hash) -> int:
    """A thread reads the JSON of a group, and another one writes the group before, while the next rows are sorted."""
    rows = 0
    with (
        ParquetFile(Path(file.name), format) as table,
        ThreadPoolExecutor(1) as reading,
        ThreadPoolExecutor(1) as writing,
    ):
        given: deque[Future[None]] = deque()
        for group in _groups(lines):
            block = b"\n".join(group) + b"\n"
            read = reading.submit(table.read, block)
            given.append(writing.submit(table.write, read))
            content.update(block)
            rows += len(group)
            if len(given) > _AHEAD:
                given.popleft().result()
        for one in given:
            one.result()
        if not rows:
            table.write_empty()
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


def _published(work: Path, final: Path, manifest: Manifest) -> Path:
    """Give the whole directory its name, in the place of the same snapshot where that was damaged."""
    _sync_directory(work)
    try:
        os.rename(work, final)
    except OSError:
        if not final.exists():
            raise
        if _is_there(final, manifest):
            return final
        damaged = work.with_name(f"{UNFINISHED}{uuid4().hex}")
        os.rename(final, damaged)
        os.rename(work, final)
        shutil.rmtree(damaged, ignore_errors=True)
    _sync_directory(final.parent)
    return final


def _is_there(final: Path, manifest: Manifest) -> bool:
    """Whether the snapshot is there as it was written; False where it was damaged. Raises UsageError for another."""
    try:
        if not (final / MANIFEST).exists() or read_manifest(final).digest != manifest.digest:
            raise UsageError(f"there is another snapshot at {final}: choose another name with --snapshot")
        verify_files(final, manifest)
    except CheckError as error:
        if (final / MANIFEST).read_bytes() != manifest.encode() and final.name != manifest.digest[:_DIGITS]:
            raise UsageError(
                f"the manifest of the snapshot at {final} was edited: choose another name with --snapshot"
            ) from error
        return False
    return True


def verify_files(snapshot: Path, manifest: Manifest) -> None:
    """Raises CheckError where a file of the snapshot is missing or has other bytes than the manifest says."""
    for name, about in manifest.files.items():
        path = snapshot / name
        if not path.is_file():
            raise CheckError(f"{path} is missing: export the snapshot again")
        if _digest(path) != about.sha256:
            raise CheckError(f"{path} was edited: its digest is not that of the manifest; export it again")


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
