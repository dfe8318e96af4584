"""The rows that are trained on: read out of verified snapshots, chosen for replay, refused where they teach nothing."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from conch.data import Manifest, read_manifest, verify_files
from conch.errors import CheckError
from conch.training.child.failures import TrainingRefusedError
from conch.training.job import ReplaySource
from conch_schemas import JsonObject, TrainingMethod

Messages = list[dict[str, str]]
REPLIES: Final[Mapping[TrainingMethod, tuple[str, ...]]] = {
    "sft": ("completion",),
    "dpo": ("chosen", "rejected"),
    "kto": ("completion",),
    "grpo": (),
}
"""Columns that hold a reply, by the method that reads them."""


@dataclass(frozen=True)
class TrainingRow:
    """A row of a snapshot."""

    row_id: str
    state_key: str
    prompt: Messages
    replies: tuple[str, ...] = ()
    """By REPLIES."""
    label: bool = True
    """Of KTO."""


@dataclass(frozen=True)
class SnapshotRows:
    """The rows of a verified snapshot, by their ids."""

    manifest: Manifest
    train: tuple[TrainingRow, ...]
    eval: tuple[TrainingRow, ...] = field(repr=False)


def read_rows(snapshot: Path, method: TrainingMethod) -> SnapshotRows:
    """The rows of a snapshot in the format of the method.

    Raises UsageError where there is no snapshot, CheckError where it was edited, TrainingRefusedError where it has
    another format.
    """
    manifest = read_manifest(snapshot)
    if manifest.format != method:
        raise TrainingRefusedError(
            f"{snapshot} has rows of {manifest.format}, and {method} is to be trained: conch data export --format "
            f"{method} makes such a snapshot"
        )
    verify_files(snapshot, manifest)
    rows: dict[str, list[TrainingRow]] = {"train": [], "eval": []}
    for name in sorted(manifest.files):
        for document in _documents(snapshot / name):
            rows[document["split"]].append(_row(document, method))
    return SnapshotRows(manifest, tuple(rows["train"]), tuple(rows["eval"]))


def _documents(path: Path) -> Iterator[JsonObject]:
    if path.suffix == ".jsonl":
        with path.open("rb") as file:
            yield from map(json.loads, file)
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                yield from file.read_row_group(group).to_pylist()
    except (pa.ArrowInvalid, ValueError) as error:
        raise CheckError(f"{path} cannot be read ({type(error).__name__}): export the snapshot again") from error


def _row(document: JsonObject, method: TrainingMethod) -> TrainingRow:
    if document["weight"] != 1.0:
        raise TrainingRefusedError(f"row {document['row_id'][:12]} has the weight {document['weight']:g}: all have 1")
    replies = tuple(document[name][0]["content"] for name in REPLIES[method])
    label = bool(document.get("label", True))
    return TrainingRow(document["row_id"], document["state_key"], document["prompt"], replies, label)


def replayed(
    source: ReplaySource, method: TrainingMethod, new: SnapshotRows, seed: int
) -> tuple[list[TrainingRow], int]:
    """(rows of an earlier snapshot that are trained on again, how many were held back).

    A row is held back that the new snapshot has, and one of a state that is in its eval: what is measured there was
    never trained on. Which rows are taken follows from their ids and the seed.
    """
    earlier = read_rows(source.snapshot, method)
    known = {row.row_id for row in (*new.train, *new.eval)}
    measured = {row.state_key for row in new.eval if row.state_key}
    free = [row for row in earlier.train if row.row_id not in known and row.state_key not in measured]
    free.sort(key=lambda row: hashlib.sha256(f"{seed} {row.row_id}".encode()).digest())
    return free[: math.ceil(source.share * len(new.train))], len(earlier.train) - len(free)


def refuse_untrainable(rows: Sequence[TrainingRow], method: TrainingMethod, snapshot: Path) -> None:
    """Raises TrainingRefusedError where there are no rows, and where they hold no difference to learn from."""
    if not rows:
        raise TrainingRefusedError(f"{snapshot} has no rows to train on: its manifest says what was left out and why")
    if method == "dpo":
        if all(row.replies[0] == row.replies[1] for row in rows):
            raise TrainingRefusedError(
                f"all {len(rows)} pairs of {snapshot} have two equal replies: nothing is preferred"
            )
    elif method == "kto" and len({row.label for row in rows}) == 1:
        kind = "good" if rows[0].label else "bad"
        raise TrainingRefusedError(f"all {len(rows)} rows of {snapshot} are {kind}: KTO learns from the difference")
    if method != "grpo" and len(rows) > 1 and len({row.replies for row in rows}) == 1:
        raise TrainingRefusedError(
            f"all {len(rows)} rows of {snapshot} have equal replies: the model would learn one answer to every prompt"
        )
