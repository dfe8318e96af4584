"""Removing the oldest cycles of a store, with sums over them left behind. Within the caller's transaction.

Cycles are removed whole and from an agent's first one on, so that what is gone is always a prefix. Marks are removed as
a prefix of their chain, and only where that prefix verifies: a chain that was tampered with keeps its evidence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby, takewhile
from math import fsum
from operator import attrgetter
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from conch.experience.models import PruneResult
from conch.experience.opened import Database
from conch.experience.queries.bodies import ShownScore, stored_verdict
from conch.experience.queries.forget import forget_records, records_in
from conch.experience.queries.retention import BLOCK
from conch_schemas import Mark

KEPT_CYCLES: Final = 100
"""The newest cycles of each agent, which are never removed: figures and pages are over them."""

_PORTION: Final = 16
"""Cycles that are removed together."""
_MARKS: Final = 256
"""Marks that are removed together with them: more than so many cycles have, so that those left from before go too."""
_PROBED: Final = 50
"""Oldest acts of which the first mark is looked for: an act may have none."""

_FLOOR: Final = "SELECT cycle FROM acts WHERE agent = ? GROUP BY cycle ORDER BY cycle DESC LIMIT 1 OFFSET ?"
_OLDEST: Final = "SELECT started FROM acts WHERE agent = ? ORDER BY cycle, action_id LIMIT 1"
_LAST_OF_PORTION: Final = """
    SELECT max(cycle) FROM (
        SELECT cycle FROM acts WHERE agent = ? AND cycle < ? GROUP BY cycle ORDER BY cycle LIMIT ?) AS portion"""
_ACTS: Final = """
    SELECT act, action_id, seq, cycle, started, due FROM acts WHERE agent = ? AND cycle <= ? ORDER BY cycle"""
_EXPERIENCES: Final = (
    "SELECT seq, cycle, outcome, total, coverage, complete, unpacked(verdict) FROM experiences WHERE act IN"
)
_SCORES: Final = "SELECT component, scorer, version, low, high FROM scores WHERE act IN"
_FIRST_MARK_KEPT: Final = """
    SELECT min(sequence) FROM marks WHERE act IN (
        SELECT act FROM acts WHERE agent = ? ORDER BY cycle, action_id LIMIT ?) AND +agent = ?"""
_PREFIX: Final = """
    SELECT sequence, id, hash, unpacked(body) FROM marks WHERE agent = ? AND sequence < ?
    ORDER BY sequence, id, hash LIMIT ?"""
_REMOVED_MARK: Final = """
    SELECT last_mark, hash FROM removals WHERE agent = ? AND last_mark IS NOT NULL ORDER BY last_mark DESC LIMIT 1"""
_DELETIONS: Final = (
    "DELETE FROM scores WHERE act = ?",
    "DELETE FROM contexts WHERE act = ?",
    "DELETE FROM needs WHERE act = ?",
    "DELETE FROM experiences WHERE act = ?",
    "DELETE FROM acts WHERE act = ?",
)


def _added(table: str, columns: int, key: str, **changes: str) -> str:
    """The statement that puts a row of so many columns there, or changes the one of the same key: each column as SQL
    says it, where `{0}` is the value that is there and `{1}` the one that comes."""
    row = ", ".join("?" * columns)
    change = ", ".join(
        f"{column} = {how.format(f'{table}.{column}', f'excluded.{column}')}" for column, how in changes.items()
    )
    return f"INSERT INTO {table} VALUES ({row}) ON CONFLICT ({key}) DO UPDATE SET {change}"  # noqa: S608


_SUM: Final = "{0} + {1}"
_NEW: Final = "{1}"
_OLD_ELSE_NEW: Final = "coalesce({0}, {1})"
_NEW_ELSE_OLD: Final = "coalesce({1}, {0})"
_LEAST: Final = "CASE WHEN {0} IS NULL OR {1} < {0} THEN {1} ELSE {0} END"
_GREATEST: Final = "CASE WHEN {0} IS NULL OR {1} > {0} THEN {1} ELSE {0} END"

_ADD_TOTALS: Final = _added(
    "removed_totals",
    10,
    "agent, block",
    seq=_GREATEST,
    acts=_SUM,
    total=_SUM,
    squares=_SUM,
    low=_LEAST,
    high=_GREATEST,
    coverage=_SUM,
    incomplete=_SUM,
)
_ADD_OUTCOMES: Final = _added("removed_outcomes", 4, "agent, block, outcome", acts=_SUM)
_ADD_COMPONENTS: Final = _added(
    "removed_components",
    15,
    "agent, block, component, scorer",
    version="coalesce(nullif({1}, ''), {0})",
    weight=_NEW,
    count=_SUM,
    scored=_SUM,
    total=_SUM,
    squares=_SUM,
    low=_LEAST,
    high=_GREATEST,
    errors=_SUM,
    timeouts=_SUM,
    unasked=_SUM,
)
_ADD_SCORES: Final = _added(
    "removed_scores", 7, "agent, component, scorer, version", count=_SUM, low=_LEAST, high=_GREATEST
)
_ADD_REMOVAL: Final = _added(
    "removals",
    12,
    "agent, day, why",
    first_cycle=_LEAST,
    last_cycle=_GREATEST,
    acts=_SUM,
    acted=_GREATEST,
    time=_NEW,
    first_mark=_OLD_ELSE_NEW,
    last_mark=_NEW_ELSE_OLD,
    marks=_SUM,
    hash=_NEW_ELSE_OLD,
)


class _PrunedAct(NamedTuple):
    act: int
    action_id: str
    seq: int
    cycle: int
    started: float
    due: float | None


def oldest(db: Database, agent: str) -> float | None:
    """Time of the agent's first act, in seconds since the epoch; None where all its acts are to stay."""
    if db.execute(_FLOOR, (agent, KEPT_CYCLES)).fetchone() is None:
        return None
    return float(db.execute(_OLDEST, (agent,)).fetchone()[0])


def prune_agent(
    db: Database, agent: str, before: float, why: str, now: datetime, pruned: PruneResult, *, with_marks: bool
) -> int:
    """Remove the agent's first cycles that are older than `before`, a few at a time; how many acts, 0: none is left
    that may go. `with_marks`: whether marks are removed as well. Adds to `pruned`."""
    floor = db.execute(_FLOOR, (agent, KEPT_CYCLES - 1)).fetchone()
    acts = _removable(db, agent, floor[0], before) if floor is not None else []
    if not acts:
        return 0
    numbers = [act.act for act in acts]
    _add_sums(db, agent, numbers)
    for deletion in _DELETIONS:
        db.executemany(deletion, [(number,) for number in numbers])
    db.executemany("DELETE FROM actions WHERE action_id = ?", [(act.action_id,) for act in acts])
    db.execute("DELETE FROM needs WHERE agent = ? AND act = 0 AND seq <= ?", (agent, max(act.seq for act in acts)))
    db.execute("DELETE FROM forks WHERE agent = ? AND cycle <= ?", (agent, acts[-1].cycle))
    marks = _remove_marks(db, agent) if with_marks else []
    if marks is None:
        pruned.unverified.add(agent)
        marks = []
    last = max(act.started for act in acts)
    said = (now.astimezone(UTC).date().isoformat(), why, acts[0].cycle, acts[-1].cycle, len(acts), last)
    chain = (marks[0].sequence, marks[-1].sequence, len(marks), marks[-1].hash) if marks else (None, None, 0, None)
    db.execute(_ADD_REMOVAL, (agent, *said, now.isoformat(), *chain))
    pruned.acts += len(acts)
    pruned.marks += len(marks)
    pruned.actions += [act.action_id for act in acts]
    pruned.upto[agent] = acts[-1].cycle
    return len(acts)


def _removable(db: Database, agent: str, floor: int, before: float) -> list[_PrunedAct]:
    """Of whole cycles, from the first one on, up to one of which something is still waited for."""
    (last,) = db.execute(_LAST_OF_PORTION, (agent, floor, _PORTION)).fetchone()
    if last is None:
        return []
    rows = map(_PrunedAct._make, db.execute(_ACTS, (agent, last)))
    cycles = (list(steps) for _, steps in groupby(rows, key=attrgetter("cycle")))
    whole = takewhile(lambda steps: all(one.due is None and one.started < before for one in steps), cycles)
    return [act for steps in whole for act in steps]


def _add_sums(db: Database, agent: str, numbers: Sequence[int]) -> None:
    """What stays of these acts."""
    blocks: dict[int, list[Any]] = defaultdict(list)
    for row in sorted(db.among(_EXPERIENCES, numbers)):
        blocks[row[1] // BLOCK].append(row)
    for block, rows in blocks.items():
        seqs, _, outcomes, totals, coverages, complete, verdicts = zip(*rows, strict=True)
        squares = fsum(total * total for total in totals)
        spread = (fsum(totals), squares, min(totals), max(totals))
        figures = (max(seqs), len(rows), *spread, fsum(coverages), len(rows) - sum(complete))
        db.execute(_ADD_TOTALS, (agent, block, *figures))
        db.executemany(_ADD_OUTCOMES, [(agent, block, one, outcomes.count(one)) for one in set(outcomes)])
        db.executemany(_ADD_COMPONENTS, [(agent, block, *row) for row in _components(verdicts)])
    ranges: dict[tuple[str, str, str], list[tuple[float, float]]] = defaultdict(list)
    for component, scorer, version, low, high in db.among(_SCORES, numbers):
        ranges[component, scorer, version].append((low, high))
    db.executemany(
        _ADD_SCORES,
        [
            (agent, *key, len(limits), min(low for low, _ in limits), max(high for _, high in limits))
            for key, limits in ranges.items()
        ],
    )


def _components(verdicts: Sequence[bytes]) -> Iterator[tuple[Any, ...]]:
    """The sums over each component that these verdicts, oldest first, show."""
    shown: dict[tuple[str, str], list[ShownScore]] = defaultdict(list)
    for verdict in verdicts:
        for score in stored_verdict(verdict).scores:
            shown[score.component, score.scorer].append(score)
    for key, scores in shown.items():
        values = [score.value for score in scores if score.value is not None]
        version = next((score.version for score in reversed(scores) if score.version), "")
        spread = (fsum(values), fsum(value * value for value in values), min(values, default=None))
        status = [score.status for score in scores]
        counts = (status.count(one) for one in ("error", "timeout", "not_applicable"))
        yield (*key, version, scores[-1].weight, len(scores), len(values), *spread, max(values, default=None), *counts)


def _remove_marks(db: Database, agent: str) -> list[Mark] | None:
    """Remove the marks before the first one of a kept act; those that were, by sequence. None: they do not verify."""
    from conch.witness import GENESIS, ForgottenRecords, mark_hash  # only here: commands that read do without the rules

    forgotten = ForgottenRecords(records_in(db, agent))

    (end,) = db.execute(_FIRST_MARK_KEPT, (agent, _PROBED, agent)).fetchone()
    if end is None:
        return []
    rows = db.execute(_PREFIX, (agent, end, _MARKS + 1)).fetchall()
    after = db.execute(_REMOVED_MARK, (agent,)).fetchone()
    if not rows:
        return []
    # Where marks are missing before the first one there is, `conch mark verify` goes on saying so.
    place, previous = (after[0] + 1, after[1]) if after is not None else (rows[0][0], None)
    if place == 0:
        previous = GENESIS
    marks = []
    for sequence, name, digest, body in rows:
        mark = _mark(body)
        if mark is None or (mark.agent, mark.sequence, mark.id, mark.hash) != (agent, sequence, name, digest):
            return None
        if sequence != place or previous not in (None, mark.previous):
            return None
        if mark_hash(mark) != digest and not forgotten.has(mark):
            return None
        place, previous = place + 1, digest
        marks.append(mark)
    marks = marks[:_MARKS]  # the one beyond was read to see that it is no twin of the last
    db.execute("DELETE FROM marks WHERE agent = ? AND sequence <= ?", (agent, marks[-1].sequence))
    forget_records(db, [mark.event for mark in marks if mark.domain == "forgetting"])
    return marks


def _mark(body: bytes) -> Mark | None:
    try:
        return Mark.model_validate_json(body)
    except ValidationError:
        return None
