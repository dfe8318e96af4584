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
SINCE_7 = ("DROP TABLE training",)
"""The same of schema 7."""
SINCE_8 = ("DROP INDEX scores_of_goals",)
"""The same of schema 8."""


def age(path: Path, schema: int) -> None:
    """Make a store of the present schema one of this schema, with the rows that it has."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for since, statements in ((8, SINCE_8), (7, SINCE_7), (6, SINCE_6)):
            for statement in statements if schema < since else ():
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {schema}")
