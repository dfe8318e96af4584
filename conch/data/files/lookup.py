"""Snapshots that are there: found, verified, searched for a row, removed."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from conch.data.files.manifest import MANIFEST, Manifest
from conch.data.files.snapshot import UNFINISHED, read_manifest
from conch.data.row import Row, read_row
from conch.errors import CheckError, UsageError

_ROW: Final = re.compile(r"[0-9a-f]{12,64}")


def snapshots_in(out: Path) -> list[Path]:
    """The snapshots in a directory, the newest last; none where there is no such directory."""
    found = (path.parent for path in out.glob(f"*/{MANIFEST}") if not path.parent.name.startswith("."))
    return sorted(found, key=lambda path: ((path / MANIFEST).stat().st_mtime_ns, path.name))


def trained_states(snapshot: Path, manifest: Manifest) -> frozenset[str]:
    """The state keys of the rows in train. Raises CheckError where a file of the snapshot cannot be read."""
    found = set[str]()
    for name in manifest.files:
        for state, split in _splits(snapshot / name):
            if split == "train" and state:
                found.add(state)
    return frozenset(found)


def find_row(out: Path, row: str) -> tuple[Path, Row]:
    """(the newest snapshot in `out` that has the row, the row). `row`: its id, or 12 digits of its beginning.

    A directory whose manifest is no data set's, or was edited, is passed over, and so is one with a file that is
    missing or cannot be read.

    Raises UsageError where no snapshot has it, or two rows begin so; CheckError where the row was edited, and where no
    snapshot has it and one was passed over.
    """
    if not _ROW.fullmatch(row):
        raise UsageError(f"{row[:80]!r} is no row id: 64 hexadecimal digits, or at least the first 12")
    passed: CheckError | None = None
    for snapshot in reversed(snapshots_in(out)):
        try:
            manifest = read_manifest(snapshot)
            found = [one for name in manifest.files for one in _rows(snapshot / name, row)]
        except CheckError as error:
            passed = passed or error
            continue
        if len(found) > 1:
            raise UsageError(f"{len(found)} rows of {snapshot} begin with {row}: give more digits")
        if found:
            return snapshot, read_row(manifest.format, found[0])
    if passed is not None:
        raise passed
    raise UsageError(f"no snapshot in {out} has a row {row}: --out names another directory of snapshots")


def rows_between(snapshot: Path, manifest: Manifest, skip: int, most: int) -> list[Row]:
    """`most` rows of a snapshot behind the first `skip`, in the order of its files. Raises CheckError where a file
    cannot be read, or a row was edited."""
    found: list[Row] = []
    for name, about in manifest.files.items():
        if skip < about.rows:
            found += [read_row(manifest.format, one) for one in _documents(snapshot / name, skip, most - len(found))]
        skip = max(0, skip - about.rows)
        if len(found) == most:
            break
    return found


def prune_snapshots(out: Path, keep: int) -> list[Path]:
    """Remove all snapshots but the newest `keep`, and what killed exports left; returns what was removed.

    A directory without a whole manifest of a data set stays and does not count, as does that of an export in progress.
    """
    there = [path for path in snapshots_in(out) if _is_snapshot(path)]
    old = there[: max(0, len(there) - keep)]
    gone = [*old, *(path for path in sorted(out.glob(f"{UNFINISHED}*")) if _is_left(path))]
    for path in gone:
        shutil.rmtree(path)
    return gone


def _is_snapshot(path: Path) -> bool:
    """Whether a directory is a snapshot that Conch wrote: other programs have files named `manifest.json` too."""
    try:
        read_manifest(path)
    except (CheckError, UsageError, OSError):
        return False
    return not path.is_symlink()


def _is_left(work: Path) -> bool:
    """Whether the export that wrote here has ended: the lock on its directory is free."""
    try:
        handle = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False  # it has got its name meanwhile, or is no directory of an export
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False  # the lock is held, or the file system has none
    finally:
        os.close(handle)
    return True


def _splits(path: Path) -> Iterator[tuple[str, str]]:
    """State key and split of each row of a file."""
    if path.suffix != ".parquet":
        try:
            with path.open("rb") as file:
                yield from ((str(one["state_key"]), str(one["split"])) for one in map(json.loads, file))
        except (OSError, ValueError, KeyError) as error:
            raise CheckError(f"{path} cannot be read ({type(error).__name__}): export the snapshot again") from error
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, columns=["state_key", "split"])
    except (OSError, pa.ArrowInvalid, ValueError) as error:
        raise CheckError(f"{path} cannot be read ({type(error).__name__}): export the snapshot again") from error
    yield from zip(table["state_key"].to_pylist(), table["split"].to_pylist(), strict=True)


def _rows(path: Path, row: str) -> Iterator[Mapping[str, JsonValue]]:
    """The rows of a file whose id begins so. Raises CheckError for a file that cannot be read."""
    if not path.is_file():
        raise CheckError(f"{path} is missing: export the snapshot again")
    if path.suffix == ".parquet":
        yield from _rows_of_parquet(path, row)
        return
    begins = f'"row_id":"{row}'.encode()
    try:
        with path.open("rb") as file:
            there = [_document(line) for line in file if begins in line]
    except (OSError, ValueError) as error:
        raise CheckError(f"{path} cannot be read ({type(error).__name__}): export the snapshot again") from error
    yield from (one for one in there if str(one.get("row_id")).startswith(row))


def _document(line: bytes) -> Mapping[str, JsonValue]:
    """The object on a line. Raises ValueError for any other."""
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


def _documents(path: Path, skip: int, most: int) -> list[Mapping[str, JsonValue]]:
    """`most` rows of a file behind the first `skip`. Raises CheckError for a file that cannot be read."""
    try:
        if path.suffix != ".parquet":
            with path.open("rb") as file:
                return [_document(line) for line in islice(file, skip, skip + most)]
        import pyarrow.parquet as pq

        found: list[Mapping[str, JsonValue]] = []
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if skip < rows and len(found) < most:
                    found += file.read_row_group(group).slice(skip, most - len(found)).to_pylist()
                skip = max(0, skip - rows)
        return found
    except (OSError, ValueError) as error:  # that of pyarrow is a ValueError
        raise CheckError(f"{path} cannot be read ({type(error).__name__}): export the snapshot again") from error


def _rows_of_parquet(path: Path, row: str) -> Iterator[Mapping[str, JsonValue]]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            leaf = next(at for at in range(len(file.schema.names)) if file.schema.column(at).path == "row_id")
            for group in range(file.num_row_groups):
                about = file.metadata.row_group(group).column(leaf).statistics
                if about is not None and about.has_min_max and not about.min[: len(row)] <= row <= about.max:
                    continue
                ids = file.read_row_group(group, columns=["row_id"]).column(0)
                places = pc.indices_nonzero(pc.starts_with(ids, row))
                if len(places):
                    yield from file.read_row_group(group).take(places).to_pylist()
    except (pa.ArrowInvalid, OSError, StopIteration, ValueError) as error:
        raise CheckError(f"{path} cannot be read ({type(error).__name__}): export the snapshot again") from error
