"""Bytes that a run holds on the disk: the stream, the files of the bus, the store by table."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from conch.bus.access import access_to
from conch.bus.jetstream import JetStreamBus
from conch.bus.protocol import StreamState
from conch.config import Settings
from conch.home import Home

_PAGES = """
SELECT coalesce(tbl_name, name), sum(pgsize) FROM dbstat LEFT JOIN sqlite_master USING (name) GROUP BY 1"""


@dataclass(frozen=True)
class Sizes:
    """Of a run that goes on, at one time."""

    stream: StreamState
    files: int
    """Bytes of the files under HOME/bus."""
    tables: dict[str, int]
    """Bytes of the store's pages by table, its indexes with it; `store.db` alone, the file's size, where this SQLite
    counts no pages."""
    stored: int
    """Experiences in the store; read in the same transaction as `tables`."""


def sizes(home: Path) -> Sizes:
    """Now."""
    pages, stored = tables(home / "store.db")
    files = 0
    for path in (home / "bus").rglob("*"):
        try:
            files += path.stat().st_size
        except FileNotFoundError:  # the server replaced it meanwhile
            continue
    return Sizes(asyncio.run(_stream(home)), files, pages, stored)


async def _stream(home: Path) -> StreamState:
    access = access_to(Home(home), Settings())
    assert access is not None
    async with JetStreamBus(access, name="bench") as bus:
        return await bus.state()


def tables(store: Path) -> tuple[dict[str, int], int]:
    """Bytes by table, each with its indexes; the number of experiences. Both of one transaction."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=30)) as database:
        database.execute("BEGIN")
        stored = database.execute("SELECT count(*) FROM experiences").fetchone()[0]
        try:
            found = database.execute(_PAGES).fetchall()
        except sqlite3.OperationalError:  # SQLite was compiled without dbstat
            found = [(store.name, store.stat().st_size)]
        return dict(found), stored
