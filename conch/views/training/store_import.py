"""The view of an import from one store into another, for `conch data import --json`."""

from __future__ import annotations

from conch.views.base import View


class ImportedTable(View):
    """A table of the store."""

    table: str
    rows: int
    """Counted in both stores once all are copied."""


class StoreImport(View):
    """An import that is complete."""

    source: str
    """Path, or address without its password, as `target`."""
    target: str
    tables: tuple[ImportedTable, ...]
