"""`conch data import`: the experiences of one store into another."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

from cyclopts import Parameter

from conch.cli.common import CommonOptions, emit, say, table
from conch.cli.options import COMMON
from conch.errors import ConfigError, HomeBusyError, UsageError


def import_(
    *,
    source: Annotated[str, Parameter(name="--from", help="The store that is read, as in store.url.")],
    target: Annotated[str, Parameter(name="--to", help="The store that is filled: empty, or half filled by this.")],
    common: CommonOptions = COMMON,
) -> None:
    """Copy a store, of SQLite or PostgreSQL, into an empty one.

    Ended half-way, the same command goes on. The rows of both are counted at the end. Then name the new store in
    store.url; the old one stays as it is.
    """
    from conch.cli.progress import counting
    from conch.experience import copy_store, store_location
    from conch.views import ImportedTable, StoreImport

    home = common.existing()
    if home.running() is not None:
        raise HomeBusyError(f"{home.path} has a run in progress: conch stop, then import")
    try:
        read, filled = (store_location(url, home.path) for url in (source, target))
    except ConfigError as error:
        raise UsageError(str(error).replace("store.url", "the address")) from None
    with closing(read.opened(writes=False)) as one, closing(filled.opened(writes=True)) as other, counting() as bar:
        task = bar.add_task("rows", total=None)
        counts = copy_store(one, other, lambda rows: bar.advance(task, rows))
    found = StoreImport(
        source=str(read),
        target=str(filled),
        tables=tuple(ImportedTable(table=count.table, rows=count.rows) for count in counts),
    )
    if common.json:
        emit(found)
        return
    table(("table", "rows"), [(row.table, str(row.rows)) for row in found.tables])
    say(f"{found.source} is in {found.target}, and both were counted: name that one in store.url")
