"""Stores as earlier versions left them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

SINCE_6 = (
    "DROP INDEX experiences_by_change",
    "ALTER TABLE experiences DROP COLUMN changed",
    "DELETE FROM meta WHERE name = 'changes'",
    "DROP TABLE forks",
    "DROP TABLE reviews",
)
"""What takes away all that schema 6 added."""


def age(path: Path, schema: int) -> None:
    """Make a store of the present schema one of this schema, with the rows that it has."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in SINCE_6 if schema < 6 else ():
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {schema}")
