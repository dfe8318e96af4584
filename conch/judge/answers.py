"""Cache of a judge's answers and count of its requests: one SQLite file, one writer, bounded, safe against a kill."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote

from conch.errors import JudgeError
from conch.judge.answer import Judgement
from conch.log import get_logger
from conch_schemas import PromptMessage

log = get_logger(__name__)
T = TypeVar("T")

APPLICATION_ID: Final = 0x434E434A
"""`CNCJ` in the file's header: marks a judge's cache made by Conch."""
FORMAT: Final = 1
HOUR: Final = 3600.0
"""Seconds for which a request counts towards the limit."""
PROMPTS: Final = 4096
"""Most prompts kept until their act is judged; beyond, the oldest are dropped."""
BUSY_SECONDS: Final = 10.0
"""Seconds to wait for another process that writes the file."""

_TABLES: Final = (
    "CREATE TABLE answer (key TEXT PRIMARY KEY, score REAL NOT NULL, explanation TEXT NOT NULL, used INTEGER NOT NULL)"
    " WITHOUT ROWID",
    "CREATE INDEX answer_used ON answer (used)",
    "CREATE TABLE tally (answers INTEGER NOT NULL)",
    "INSERT INTO tally VALUES (0)",
    "CREATE TRIGGER answer_added AFTER INSERT ON answer BEGIN UPDATE tally SET answers = answers + 1; END",
    "CREATE TRIGGER answer_gone AFTER DELETE ON answer BEGIN UPDATE tally SET answers = answers - 1; END",
    "CREATE TABLE question (at REAL NOT NULL)",
    "CREATE INDEX question_at ON question (at)",
    "CREATE TABLE prompt (number INTEGER PRIMARY KEY AUTOINCREMENT, action TEXT UNIQUE NOT NULL, messages TEXT NOT"
    " NULL)",
)


class JudgeCache:
    """The cache file of one judge. Its calls never block the event loop: they run in a thread, one at a time.

    What is written survives the end of this process; a power cut may lose the last seconds, and then those questions
    are asked again. Several processes may share the file. A file that is damaged, or is not such a cache, is renamed
    and replaced.
    """

    def __init__(
        self,
        file: Path,
        entries: int,
        *,
        clock: Callable[[], float] = time.time,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`entries`: most answers kept, 0: none; `clock`: wall-clock seconds, as the count continues after a restart;
        `warn` is called with a sentence, in any thread."""
        self._file, self._entries, self._clock, self._warn = file, entries, clock, warn
        self._thread: ThreadPoolExecutor | None = None
        self._opened: sqlite3.Connection | None = None

    async def get(self, key: str) -> Judgement | None:
        """The cached judgement, marked as used now."""
        return await self._do(lambda db: _get(db, key), whole=False)

    async def put(self, key: str, judgement: Judgement) -> None:
        """Cache a judgement; the least recently used one is dropped for it. A second call changes nothing. A full disk
        only costs the entry."""
        if not self._entries:
            return
        try:
            await self._do(lambda db: _put(db, key, judgement, self._entries))
        except JudgeError as error:
            log.warning("judge.answer_not_kept", why=str(error))

    async def count(self, most: int) -> None:
        """Count a request that is about to be sent. Raises JudgeError where `most` were sent in the last hour."""
        free = await self._do(lambda db: _count(db, self._clock(), most))
        if free is not None:
            at = f", until {time.strftime('%H:%M', time.localtime(free))}" if most else ""
            raise JudgeError(f"its budget of {most} questions an hour is used up{at}: see calls_per_hour")

    async def put_prompts(self, prompts: Sequence[tuple[str, Sequence[PromptMessage]]]) -> None:
        """Store the mind's prompts, by action id, until the act is judged. Raises JudgeError."""
        rows = [(action, json.dumps([[one.role, one.content] for one in said])) for action, said in prompts]
        await self._do(lambda db: _put_prompts(db, rows))

    async def prompt(self, action: str) -> list[tuple[str, str]]:
        """(role, content) of the mind's prompt for this act; empty: not known. Raises JudgeError."""
        return await self._do(lambda db: _prompt(db, action), whole=False)

    async def close(self) -> None:
        """Close the file; the next call opens it again. A second call does nothing."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._close)
            thread.shutdown()

    # -- in the worker thread ----------------------------------------------------------------------------------------

    async def _do(self, work: Callable[[sqlite3.Connection], T], *, whole: bool = True) -> T:
        """`whole`: in one transaction; otherwise each statement by itself."""
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="conch.judge")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._done, work, whole)

    def _done(self, work: Callable[[sqlite3.Connection], T], whole: bool) -> T:
        try:
            try:
                return self._within(work, whole)
            except sqlite3.DatabaseError as error:
                if type(error) is not sqlite3.DatabaseError:  # its subclasses are errors of use, in a sound file
                    raise
                self._set_aside(str(error))
                return self._within(work, whole)
        except (sqlite3.Error, OSError) as error:
            self._close()
            raise JudgeError(f"{self._file} cannot be used ({error}): make room or mend its permissions") from None

    def _within(self, work: Callable[[sqlite3.Connection], T], whole: bool) -> T:
        if self._opened is None:
            self._opened = _open(self._file)
        db = self._opened
        if not whole:
            return work(db)
        db.execute("BEGIN IMMEDIATE")
        try:
            found = work(db)
            db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            raise
        return found

    def _set_aside(self, why: str) -> None:
        self._close()
        number = 1
        while (aside := self._file.with_name(f"{self._file.name}.damaged-{number}")).exists():
            number += 1
        for end in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                Path(f"{self._file}{end}").rename(f"{aside}{end}")
        log.error("judge.answers_set_aside", file=str(self._file), aside=str(aside), why=why)
        self._warn(
            f"{self._file} cannot be read ({why}): it was set aside as {aside.name}, its answers are asked again"
        )

    def _close(self) -> None:
        db, self._opened = self._opened, None
        if db is not None:
            with suppress(sqlite3.Error):
                db.close()


def _open(file: Path) -> sqlite3.Connection:
    """Raises sqlite3.DatabaseError (not OperationalError) for a file that is damaged or not such a cache."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    where = f"file:{quote(str(file.absolute()))}?mode=rwc"
    db = sqlite3.connect(where, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        # Not FULL: a killed process loses nothing, and no answer waits for an fsync.
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("BEGIN IMMEDIATE")
        _make(db)
        db.execute("COMMIT")
        if (found := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(found)
    except BaseException:
        db.close()
        raise
    return db


def _make(db: sqlite3.Connection) -> None:
    owner, version = (db.execute(f"PRAGMA {what}").fetchone()[0] for what in ("application_id", "user_version"))
    if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
        for statement in _TABLES:
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {FORMAT}")
    elif (owner, version) != (APPLICATION_ID, FORMAT):
        raise sqlite3.DatabaseError("it holds something else than this version's answers")


def _get(db: sqlite3.Connection, key: str) -> Judgement | None:
    row = db.execute("SELECT score, explanation FROM answer WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    db.execute("UPDATE answer SET used = (SELECT max(used) + 1 FROM answer) WHERE key = ?", (key,))
    return Judgement(*row)


def _put(db: sqlite3.Connection, key: str, judgement: Judgement, entries: int) -> None:
    db.execute(
        "INSERT INTO answer SELECT ?, ?, ?, coalesce(max(used), 0) + 1 FROM answer WHERE true"
        " ON CONFLICT (key) DO NOTHING",
        (key, judgement.score, judgement.explanation),
    )
    over = db.execute("SELECT answers FROM tally").fetchone()[0] - entries
    if over > 0:
        db.execute("DELETE FROM answer WHERE key IN (SELECT key FROM answer ORDER BY used LIMIT ?)", (over,))


def _count(db: sqlite3.Connection, now: float, most: int) -> float | None:
    """None, and the request is counted; or the time at which the next one is allowed."""
    # After the clock was set back, requests in its future count as sent now.
    db.execute("UPDATE question SET at = ? WHERE at > ?", (now, now))
    db.execute("DELETE FROM question WHERE at <= ?", (now - HOUR,))
    full = (
        db.execute("SELECT at FROM question ORDER BY at DESC LIMIT 1 OFFSET ?", (most - 1,)).fetchone()
        if most
        else (now,)
    )
    if full is not None:
        return float(full[0]) + HOUR
    db.execute("INSERT INTO question VALUES (?)", (now,))
    return None


def _put_prompts(db: sqlite3.Connection, rows: Sequence[tuple[str, str]]) -> None:
    db.executemany("INSERT INTO prompt (action, messages) VALUES (?, ?) ON CONFLICT (action) DO NOTHING", rows)
    db.execute("DELETE FROM prompt WHERE number <= (SELECT max(number) FROM prompt) - ?", (PROMPTS,))


def _prompt(db: sqlite3.Connection, action: str) -> list[tuple[str, str]]:
    row = db.execute("SELECT messages FROM prompt WHERE action = ?", (action,)).fetchone()
    return [(str(role), str(content)) for role, content in json.loads(row[0])] if row is not None else []
