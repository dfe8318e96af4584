"""The databases and text files of a home: which of them hold the words, and their removal.

The store, the stream and the configuration are not among them: the first two have owners of their own, and the last is
the user's.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from conch.errors import HomeError
from conch.experience import StoreLocation
from conch.forgetting.needle import Needle
from conch.forgetting.request import REPORT
from conch.home import Home
from conch.snapshots import SNAPSHOTS, SnapshotShelf

CHUNK = 1 << 20
"""Bytes of a file that are looked through at a time."""
_SQLITE = b"SQLite format 3\x00"
_BESIDE = ("-wal", "-shm", "-journal")
"""Ends of the names of the files that SQLite keeps beside a database."""
_SHADOWS = ("_data", "_idx", "_content", "_docsize", "_config")
"""Ends of the names of the tables in which SQLite keeps a full-text index."""
BUSY_SECONDS = 5.0


class HeldFile(NamedTuple):
    """A file that holds the words, or the directory of an agent's kept workspaces, which is removed whole."""

    path: Path
    number: int
    """Rows, lines or kept contents that hold them."""
    is_database: bool


def held_files(home: Home, store: StoreLocation, needle: Needle) -> Iterator[HeldFile]:
    """The files of the home that hold the words, the agents' workspace among them where it lies there. Raises
    HomeError."""
    for file in _files(home, store):
        if _is_database(file):
            count = _rows(file, needle) or int(any(_holds(one, needle) for one in _with_log(file)))  # deleted before
        else:
            count = sum(needle.held(line) for line in _lines(file)) if _is_text(file) else 0
        if count:
            yield HeldFile(file, count, _is_database(file))
    for agent in home.agents():
        shelf = SnapshotShelf(home.agent_dir(agent) / SNAPSHOTS)
        if count := shelf.held(needle.held):
            yield HeldFile(shelf.folder, count, is_database=False)


def remove_from(home: Home, held: HeldFile, needle: Needle) -> None:
    """Remove the rows or the lines with the words. Killed in between, a file is as it was or as it is to be; a log
    keeps its place and length, as a run has it open. Raises HomeError."""
    try:
        if held.path.is_dir():
            SnapshotShelf(held.path).clear()
        elif held.is_database:
            _remove_rows(held.path, needle)
        elif home.logs in held.path.parents:
            _blank_lines(held.path, needle)
        else:
            _rewrite(held.path, needle)
    except (OSError, sqlite3.Error) as error:
        raise HomeError(f"{held.path} cannot be written ({error}): mend that, and run conch forget again") from None


def files_left(home: Home, needle: Needle) -> list[str]:
    """Every file below the home in whose bytes a text stands, the request itself apart; relative paths, sorted."""
    plain = (one for one in sorted(home.path.rglob("*")) if one.is_file() and not one.is_symlink())
    return [str(one.relative_to(home.path)) for one in plain if one != home.forget_file and _holds(one, needle)]


def _files(home: Home, store: StoreLocation) -> Iterator[Path]:
    """The files that may be changed."""
    apart = {home.bus, home.keys, home.path / ".git", home.path / "data"}  # data sets are exports
    own = (home.path / name for name in (REPORT, "lock", "format"))
    stay = {
        home.config_file,
        home.run_file,
        home.forget_file,
        store.file,
        *own,
    }
    for folder, folders, names in os.walk(home.path):
        here = Path(folder)
        folders[:] = sorted(name for name in folders if here / name not in apart and name not in (".git", SNAPSHOTS))
        for name in sorted(names):
            file = here / name
            is_beside = name.endswith(_BESIDE) and here / name.rpartition("-")[0] != file
            if file not in stay and not file.is_symlink() and file.is_file() and not is_beside:
                yield file


def _with_log(file: Path) -> tuple[Path, Path]:
    return file, file.with_name(f"{file.name}-wal")


def _is_database(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(len(_SQLITE)) == _SQLITE


def _is_text(file: Path) -> bool:
    with file.open("rb") as stream:
        return b"\0" not in stream.read(CHUNK)


def _holds(file: Path, needle: Needle) -> bool:
    """Whether a text stands in the bytes of the file, also across two chunks."""
    before = b""
    overlap = 12 * max((len(text.encode()) for text in needle.texts), default=0)
    with contextlib.suppress(OSError), file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            if needle.text_in(before + chunk):
                return True
            before = chunk[-overlap:] if overlap else b""
    return False


def _lines(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        yield from stream


def _rewrite(file: Path, needle: Needle) -> None:
    """Put a file without them in the file's place: a JSON document with its strings replaced, else without the
    lines."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    text = _document(file, needle)
    try:
        with beside.open("wb") as stream:
            os.fchmod(stream.fileno(), file.stat().st_mode & 0o7777)
            stream.writelines([text] if text is not None else (one for one in _lines(file) if not needle.held(one)))
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)


def _document(file: Path, needle: Needle) -> bytes | None:
    """The JSON document of the file without the words; None: it is no such file."""
    if file.suffix != ".json":
        return None
    try:
        return json.dumps(needle.without(json.loads(file.read_bytes())), ensure_ascii=False).encode()
    except ValueError:
        return None


def _blank_lines(file: Path, needle: Needle) -> None:
    with file.open("r+b") as stream:
        at = 0
        for line in _lines(file):
            if needle.held(line):
                stream.seek(at)
                stream.write(b" " * len(line.rstrip(b"\r\n")))
            at += len(line)
        stream.flush()
        os.fsync(stream.fileno())


def _connect(file: Path, needle: Needle) -> sqlite3.Connection:
    where = f"file:{quote(str(file))}?mode=rw"
    db = sqlite3.connect(where, uri=True, timeout=BUSY_SECONDS, isolation_level=None)

    def held(value: object) -> bool:
        return isinstance(value, bytes | str) and needle.held(value if isinstance(value, bytes) else value.encode())

    db.create_function("held", 1, held)
    return db


def _rows(file: Path, needle: Needle) -> int:
    try:
        with closing(_connect(file, needle)) as db:
            return sum(db.execute(f"SELECT count(*) FROM {one}").fetchone()[0] for one in _holding(db))  # noqa: S608
    except sqlite3.Error as error:
        raise HomeError(f"{file} cannot be read ({error}): mend it, or move it away") from None


def _remove_rows(file: Path, needle: Needle) -> None:
    """Delete the rows, make full-text indexes anew, and rewrite the file: no page of it holds what was deleted."""
    with closing(_connect(file, needle)) as db:
        db.execute("BEGIN IMMEDIATE")
        with db:
            for one in _holding(db):
                db.execute(f"DELETE FROM {one}")  # noqa: S608
            for name in _indexes(db):
                db.execute(f'INSERT INTO "{name}" ("{name}") VALUES (\'rebuild\')')  # noqa: S608
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _holding(db: sqlite3.Connection) -> list[str]:
    """Each table with the condition that its row holds the words."""
    shadows = {name + end for name in _indexes(db) for end in _SHADOWS}
    tables = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").fetchall()
    found = []
    for (name,) in tables:
        if name in shadows or name in _indexes(db):
            continue
        columns = [row[1] for row in db.execute("SELECT * FROM pragma_table_info(?)", (name,))]
        found.append(f'"{name}" WHERE ' + " OR ".join(f'held("{column}")' for column in columns))
    return found


def _indexes(db: sqlite3.Connection) -> list[str]:
    """The full-text tables."""
    rows = db.execute("SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL TABLE%fts5%'")
    return [name for (name,) in rows]
