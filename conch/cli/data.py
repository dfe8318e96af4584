"""`conch data export | stats | why | prune`: data sets for training."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from conch.cli.common import CommonOptions, emit, open_store, say, table
from conch.cli.options import COMMON
from conch.data import Format
from conch.errors import CheckError, NoStoreError

if TYPE_CHECKING:
    from conch.data import Manifest
    from conch.experience import ExperienceReader
    from conch.views import DataSnapshot

app = App(name="data", help="Data sets: export, import, stats, why, prune.")
app.command(
    "conch.cli.data_import:import_", name="import", help="Copy a store, of SQLite or PostgreSQL, into an empty one."
)

Out = Annotated[Path | None, Parameter(help="Directory of the snapshots; default `data` in the home.")]
BARS = ("by_skill", "by_status", "by_origin", "by_reward", "by_length", "pairs_by_tier", "pairs_by_margin")
SHOWN = 12
"""Digits of a row id that are printed, and keys of a figure."""


@app.command
def export(
    *,
    format: Annotated[Format, Parameter(help="Columns by the reader: a trainer of TRL, tables, Minari.")],
    out: Out = None,
    snapshot: Annotated[str | None, Parameter(help="Name; default the first 12 digits of its digest.")] = None,
    jsonl: Annotated[bool, Parameter(negative="", help="JSON Lines instead of Parquet.")] = False,
    agent: Annotated[str | None, Parameter(help="Acts of this agent alone.")] = None,
    role: Annotated[str | None, Parameter(help="Acts of this role of a team alone.")] = None,
    policy: Annotated[str | None, Parameter(help="Acts of this policy alone: its digest or its beginning.")] = None,
    since: Annotated[datetime | None, Parameter(help="Acts from this time on, UTC.")] = None,
    until: Annotated[datetime | None, Parameter(help="Acts before this time, UTC.")] = None,
    coverage: Annotated[float, Parameter(help="Least coverage of an experience, 0 to 1.")] = 0.5,
    positive: Annotated[float, Parameter(help="Least reward of a reply for sft.")] = 0.3,
    margin: Annotated[float, Parameter(help="Least difference of the totals of a pair.")] = 0.25,
    per_state: Annotated[int, Parameter(help="Most pairs of one state.")] = 64,
    eval_share: Annotated[float, Parameter(help="Share of states, and of the newest acts, in eval; 0 to 0.5.")] = 0.1,
    near: Annotated[float, Parameter(help="Similarity from which texts count as the same, 0 to 1.")] = 0.9,
    review: Annotated[str, Parameter(help="Rows that need an approval: all, none or sample:N%.")] = "none",
    synthetic: Annotated[bool, Parameter(negative="", help="For sft: rows from the registry of tools too.")] = False,
    common: CommonOptions = COMMON,
) -> None:
    """Write the experiences as a data set: a directory with train and eval, and a manifest."""
    from conch.config import Masker
    from conch.data import Selection, redactor, rows_of, survey_of, write_cycles, write_snapshot
    from conch.experience import store_location
    from conch.review import REVIEWED_FORMATS, ReviewDecisions, ReviewPolicy, corrections_of, reviewed

    home, settings = common.existing(), common.settings()
    selection = Selection(
        agent, policy, _utc(since), _utc(until), coverage, positive, margin, eval_share, per_state, near, role
    )
    masker, asked, folder = Masker.of(settings), ReviewPolicy.of(review), out or home.path / "data"
    store = _store(common)
    try:
        if format == "cycles":
            location = store_location(settings.store.url, home.path)
            place, manifest = write_cycles(location, store, folder, selection, masker, name=snapshot, jsonl=jsonl)
        else:
            redact = redactor(masker)
            survey = survey_of(store.examples.marks(), selection.eval_share)
            answers = rows_of(store, format, selection, redact=redact, synthetic=synthetic, survey=survey)
            if format in REVIEWED_FORMATS:
                decisions = ReviewDecisions(store.reviews.walk())
                corrections = corrections_of(store, format, decisions, selection, redact=redact, survey=survey)
                answers = reviewed(answers, decisions, asked, corrections)
            place, manifest = write_snapshot(answers, folder, format, selection, name=snapshot, jsonl=jsonl)
    finally:
        store.close()
    if common.json:
        emit(_shown(place, manifest))
        return
    _say_counts(place, manifest)


@app.command
def stats(
    snapshot: str | None = None,
    /,
    *,
    out: Out = None,
    whole: Annotated[
        bool, Parameter(name="--all", negative="", help=f"All keys of a figure, not the first {SHOWN}.")
    ] = False,
    common: CommonOptions = COMMON,
) -> None:
    """What a snapshot holds, with its files checked against their digests; without a name, all snapshots.

    A directory whose manifest is no data set's, or was edited, is named and passed over.

    Parameters
    ----------
    snapshot
        Its name.
    """
    from conch.data import read_manifest, snapshots_in, verify_files
    from conch.views import DataSnapshots

    folder = out or common.existing().path / "data"
    if snapshot is None:
        found, unread = [], []
        for path in snapshots_in(folder):
            try:
                found.append(_shown(path, read_manifest(path)))
            except CheckError as error:
                unread.append(str(error))
        if common.json:
            emit(DataSnapshots(snapshots=tuple(found), unread=tuple(unread)))
            return
        rows = [(one.name, one.manifest.format, one.manifest.rows_in, one.manifest.rows_seen) for one in found]
        table(("snapshot", "format", "rows", "seen"), rows)
        for sentence in unread:
            say(sentence)
        return
    manifest = read_manifest(folder / snapshot)
    verify_files(folder / snapshot, manifest)
    if common.json:
        emit(_shown(folder / snapshot, manifest))
        return
    _say_counts(folder / snapshot, manifest)
    for name in BARS:
        counts: Mapping[str, int] = getattr(manifest.figures, name)
        if counts:
            most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: None if whole else SHOWN]
            more = f" and {len(counts) - len(most)} more (--all)" if len(most) < len(counts) else ""
            say(f"{name.replace('_', ' ')}: " + ", ".join(f"{key} {count}" for key, count in most) + more)
    if manifest.figures.longer_by is not None:
        say(f"chosen replies are {manifest.figures.longer_by:+.0f} characters longer than rejected ones")


@app.command
def why(row: str, /, *, out: Out = None, common: CommonOptions = COMMON) -> None:
    """From a row to its acts, their scores by rule and version, and their marks.

    Parameters
    ----------
    row
        Its row_id, or at least the first 12 digits of it.
    """
    from conch.data import find_row
    from conch.views import DataRow, row_acts

    home, settings = common.existing(), common.settings()
    place, found = find_row(out or home.path / "data", row)
    store = open_store(home, settings)
    try:
        acts = row_acts(store, found)
    finally:
        store.close()
    if common.json:
        shown = DataRow(row_id=found.row_id, snapshot=place.name, format=found.format, row=found.document(), acts=acts)
        emit(shown)
        return
    say(f"row {found.row_id[:SHOWN]} of {place.name} ({found.format}), {found.origin}, {found.split}")
    say(f"revision {found.revision}, weights {found.weights[:SHOWN] or '-'}, state {found.state_key or '-'}")
    for act in acts:
        if act.total is None:
            say(f"act {act.action_id}: not in the store any more")
            continue
        say(f"act {act.action_id}: cycle {act.cycle}, {act.outcome}, total {act.total:+.3f}, revision {act.revision}")
        cells = [(one.component, _number(one.value), one.status, f"{one.scorer} {one.version}") for one in act.scores]
        table(("component", "value", "status", "rule"), cells)
        say("marks: " + (", ".join(f"{mark.sequence} {mark.hash[:SHOWN]}" for mark in act.marks) or "none"))


@app.command
def prune(
    *,
    keep: Annotated[int, Parameter(validator=Number(gte=0), help="Newest snapshots that stay.")],
    out: Out = None,
    common: CommonOptions = COMMON,
) -> None:
    """Remove all but the newest snapshots, and what exports left that were killed."""
    from conch.data import prune_snapshots
    from conch.views import DataPruned

    removed = prune_snapshots(out or common.existing().path / "data", keep)
    if common.json:
        emit(DataPruned(removed=tuple(path.name for path in removed)))
        return
    for path in removed:
        say(f"removed {path}")
    say(f"{len(removed)} removed")


def _store(common: CommonOptions) -> ExperienceReader:
    """The home's experiences; an empty store where no agent has acted: it gives an empty data set, which says so."""
    from conch.experience import MemoryStore

    try:
        return open_store(common.existing(), common.settings())
    except NoStoreError:
        return MemoryStore()


def _utc(time: datetime | None) -> datetime | None:
    """A time without a zone is UTC."""
    return time if time is None or time.tzinfo else time.replace(tzinfo=UTC)


def _shown(place: Path, manifest: Manifest) -> DataSnapshot:
    from conch.views import DataSnapshot

    return DataSnapshot(name=place.name, path=str(place), manifest=manifest)


def _say_counts(place: Path, manifest: Manifest) -> None:
    train, evaluated = manifest.splits["train"], manifest.splits["eval"]
    share = f", {evaluated / manifest.rows_in:.1%} of them" if manifest.rows_in else ""
    say(f"{place}: {manifest.rows_in} rows of {manifest.format} ({train} train, {evaluated} eval{share})")
    say(f"{manifest.rows_seen} acts and pairs seen, {manifest.rows_seen - manifest.rows_in} left out")
    for reason, count in sorted(manifest.left_out.items(), key=lambda item: (-item[1], item[0])):
        say(f"  {count}  {reason}")
    if manifest.why_empty:
        say(manifest.why_empty)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"
