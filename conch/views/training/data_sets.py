"""The views of data sets, for `conch data … --json` and the dashboard."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from conch.data import Manifest, Row
from conch.experience import ExperienceReader
from conch.views.base import View


class DataSnapshot(View):
    """One snapshot, as `conch data export --json` and `conch data stats SNAPSHOT --json` print it."""

    schema_: Literal["conch.v1.data_snapshot"] = Field(default="conch.v1.data_snapshot", alias="schema")
    name: str
    path: str
    manifest: Manifest


class DataSnapshots(View):
    """The snapshots of a directory, as `conch data stats --json` prints them."""

    schema_: Literal["conch.v1.data_snapshots"] = Field(default="conch.v1.data_snapshots", alias="schema")
    snapshots: tuple[DataSnapshot, ...]
    """The newest last."""
    unread: tuple[str, ...] = ()
    """A sentence for each directory with a manifest that is no data set's, or was edited."""


class DataPruned(View):
    """Removed snapshots, as `conch data prune --json` prints them."""

    schema_: Literal["conch.v1.data_pruned"] = Field(default="conch.v1.data_pruned", alias="schema")
    removed: tuple[str, ...]


class RowScore(View):
    """A score of an act, as it counts now."""

    component: str
    value: float | None
    status: str
    scorer: str
    version: str
    """Of the rule."""


class RowMark(View):
    """A mark of an act."""

    sequence: int
    hash: str


class RowAct(View):
    """An act that a row was made of, as the store has it now."""

    action_id: str
    cycle: int | None
    """None where the store does not have the act: retention removed it, or it is another home's."""
    outcome: str | None = None
    total: float | None = None
    revision: int | None = None
    """Of the experience now; one that is greater than the row's has other scores than the row was made with."""
    weights: str | None = None
    scores: tuple[RowScore, ...] = ()
    marks: tuple[RowMark, ...] = ()


class DataRow(View):
    """A row with its acts, as `conch data why --json` prints it."""

    schema_: Literal["conch.v1.data_row"] = Field(default="conch.v1.data_row", alias="schema")
    row_id: str
    snapshot: str
    format: str
    row: dict[str, JsonValue]
    """All columns."""
    acts: tuple[RowAct, ...]


def row_acts(store: ExperienceReader, row: Row) -> tuple[RowAct, ...]:
    """The acts of a row with their scores and marks as of now."""
    return tuple(_act(store, row.agent, action) for action in row.action_ids)


def _act(store: ExperienceReader, agent: str, action: str) -> RowAct:
    cycle = store.cycles.cycle_of(action)
    found = None if cycle is None else store.cycles.get(agent, cycle)
    if found is None or found.action_id != action:
        return RowAct(action_id=action, cycle=cycle)
    return RowAct(
        action_id=action,
        cycle=cycle,
        outcome=found.outcome.status,
        total=found.total,
        revision=found.revision,
        weights=found.weights,
        scores=tuple(
            RowScore(
                component=one.component, value=one.value, status=one.status, scorer=one.scorer, version=one.version
            )
            for one in found.scores
        ),
        marks=tuple(RowMark(sequence=mark.sequence, hash=mark.hash) for mark in store.chain.marks_of(agent, action)),
    )
