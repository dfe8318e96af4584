"""The version of Conch that wrote a store, and the sentences on a store of a layout that this version does not open."""

from __future__ import annotations

from typing import Final

from conch.experience.schema import SCHEMA_VERSION
from conch.version import describe_writer

NAME_WRITER: Final = """INSERT INTO meta VALUES ('conch', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value
    WHERE meta.value <> excluded.value"""
"""Writes down the version that opens the store to write; no row is written where that stands there."""
WRITER: Final = "SELECT value FROM meta WHERE name = 'conch'"
"""Gone in a store that no version since 0.2.0 has written."""


def describe_newer(store: str, schema: int, named: object) -> str:
    """The sentence on a store of a newer layout. `named`: what the store names as the version that wrote it."""
    writer, advice = describe_writer(named, "a newer Conch")
    return f"The experience store {store} was written by {writer} ({_describe_layouts(schema)}): {advice}."


def describe_older(store: str, schema: int, advice: str) -> str:
    """The sentence on a store of an older layout. `advice`: what to do."""
    return f"The experience store {store} was written by an older Conch ({_describe_layouts(schema)}): {advice}."


def _describe_layouts(schema: int) -> str:
    return f"schema {schema}, this one knows {SCHEMA_VERSION}"
