"""The reading half of the SQLite store: any process, while a writer runs or when none does."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import groupby, islice
from math import fsum
from operator import itemgetter
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from conch.errors import CheckError
from conch.experience.assemble import ExperienceVerdict, assemble
from conch.experience.join_case import JoinCase
from conch.experience.opened import stored_event
from conch.experience.queries.backfill import PROMPT, ScoredSince
from conch.experience.queries.bodies import ShownScore, stored_verdict
from conch.experience.queries.charts import LARGEST, ChartReader, CycleFilter, in_64_bits
from conch.experience.queries.removed import RemovedComponent
from conch.experience.store import ComponentStats, ExperienceSummary, PendingActs, StreamLoss
from conch_schemas import (
    ActionTaken,
    Claim,
    ExperienceRecorded,
    Mark,
    NeedsChanged,
    Part,
    WeightsSet,
)

_CONTEXTS: Final[dict[str, Callable[[Any], Any]]] = {
    "thought": str,
    "claims": TypeAdapter(tuple[Claim, ...]).validate_json,
    "messages": PROMPT.validate_json,
    "reflection": json.loads,
}
"""What is in the body of a row of context, by its kind."""

_PAGE: Final = 1000
"""Rows of one read in a walk over all of them."""
_EXPERIENCES: Final = 100
"""Experiences of one read in a walk: each may take some 200 KiB."""

_EXPERIENCE: Final = """
    SELECT e.act, e.seq, e.revision, e.recorded, e.verdict, a.body FROM experiences e JOIN acts a ON a.act = e.act """
_ONE: Final = _EXPERIENCE + "WHERE e.agent = ? AND e.cycle = ? ORDER BY e.seq DESC LIMIT 1"
_OF_ACT: Final = _EXPERIENCE + "WHERE e.act = ?"
_LAST_OF_ONE: Final = _EXPERIENCE + "WHERE e.agent = ? AND e.cycle < ? ORDER BY e.cycle DESC, e.seq DESC LIMIT ?"
_LAST_OF_ALL: Final = _EXPERIENCE + "WHERE e.seq < ? ORDER BY e.seq DESC LIMIT ?"
_NEXT_OF_ONE: Final = (
    _EXPERIENCE
    + """WHERE e.agent = ? AND e.cycle >= ? AND (e.cycle, e.seq) > (?, ?) AND e.acted >= ?
    ORDER BY e.cycle, e.seq LIMIT ?"""
)
_NEXT_OF_ALL: Final = _EXPERIENCE + "WHERE e.seq > ? AND e.cycle >= ? AND e.acted >= ? ORDER BY e.seq LIMIT ?"
_NTH_OF_ONE: Final = "SELECT cycle, seq FROM experiences WHERE agent = ? ORDER BY cycle DESC, seq DESC LIMIT 1 OFFSET ?"
_NTH_OF_ALL: Final = "SELECT 0, seq FROM experiences ORDER BY seq DESC LIMIT 1 OFFSET ?"
_FIGURES: Final = "SELECT outcome, total, coverage, complete FROM experiences"
_VERDICTS: Final = "SELECT verdict FROM experiences"
_OF_ONE: Final = "WHERE agent = ? ORDER BY cycle DESC, seq DESC LIMIT ?"
_OF_ALL: Final = "ORDER BY seq DESC LIMIT ?"
_ACTS: Final = """
    SELECT action_id, cycle FROM acts
    WHERE agent = ? AND (cycle, action_id) > (?, ?) ORDER BY cycle, action_id LIMIT ?"""
_SCORE_SETS: Final = """
    SELECT DISTINCT action_id, scorer FROM scores JOIN acts USING (act) WHERE agent = ? ORDER BY cycle, scorer"""
_MARKS: Final = """
    SELECT agent, id, hash, sequence, seq, body FROM marks
    WHERE agent = ? AND (sequence, id, hash) > (?, ?, ?) ORDER BY sequence, id, hash LIMIT ?"""
_MARKS_OF: Final = """
    SELECT agent, id, hash, sequence, seq, body FROM marks
    WHERE act = (SELECT act FROM actions WHERE action_id = ?) AND +agent = ?"""
_BEFORE: Final = """
    SELECT (SELECT max(cycle) FROM acts WHERE agent = ?1 AND seq <= ?2),
           (SELECT max(sequence) FROM marks WHERE agent = ?1 AND seq <= ?2)"""
_WEIGHTS: Final = "SELECT body FROM weights WHERE agent = ? ORDER BY seq"
_NEEDS: Final = "SELECT body FROM needs WHERE agent = ? ORDER BY seq DESC LIMIT ?"

_AWAITED: Final = "SELECT count(*) FROM acts WHERE due IS NOT NULL AND +started <= ?"
_AWAITED_FIRST: Final = """
    SELECT a.act, (SELECT body FROM weights w WHERE w.agent = a.agent AND w.seq < a.seq ORDER BY w.seq DESC LIMIT 1)
    FROM acts a WHERE a.due IS NOT NULL AND +a.started <= ? ORDER BY a.due LIMIT 100"""
_SCORED: Final = "SELECT component, scorer FROM scores WHERE act = ?"


class SqliteReader(ChartReader):
    """An `ExperienceReader` over a SQLite file; closed by leaving the context or by `close`."""

    def position(self) -> int:
        return int(self._meta("position") or 0)

    def epoch(self) -> str | None:
        value = self._meta("epoch")
        return None if value is None else str(value)

    def agents(self) -> tuple[str, ...]:
        names: list[str] = []
        # One step through the index a name: DISTINCT would read all of it.
        while row := self._row(
            "SELECT agent FROM acts WHERE agent > ? ORDER BY agent LIMIT 1", names[-1] if names else ""
        ):
            names.append(row[0])
        return tuple(names)

    def cycles(self, agent: str | None, limit: int, before: int | None = None) -> list[ExperienceRecorded]:
        bound = LARGEST if before is None else before
        with self._snapshot():
            if agent is None:
                rows = self._rows(_LAST_OF_ALL, bound, limit)
            else:
                rows = self._rows(_LAST_OF_ONE, agent, bound, limit)
            return [self._experience(row) for row in reversed(rows)]

    def walk(self, agent: str | None, since: ScoredSince, last: int | None = None) -> Iterator[ExperienceRecorded]:
        cycle, seq = -1, 0
        if last is not None:
            nth = (_NTH_OF_ALL, last) if agent is None else (_NTH_OF_ONE, agent, last)
            if (row := self._row(*nth)) is not None:
                cycle, seq = row
        while True:
            with self._snapshot():
                if agent is None:
                    rows = self._rows(_NEXT_OF_ALL, seq, since.cycle, since.stamp, _EXPERIENCES)
                else:
                    rows = self._rows(_NEXT_OF_ONE, agent, since.cycle, cycle, seq, since.stamp, _EXPERIENCES)
                page = [self._experience(row) for row in rows]
            if not page:
                return
            yield from page
            cycle, seq = page[-1].cycle or 0, page[-1].seq

    def find(self, agent: str, filters: CycleFilter, limit: int, before: int | None = None) -> list[ExperienceRecorded]:
        conditions, named = filters.where()
        where = " AND ".join(filter(None, ("e.agent = :agent AND e.cycle < :before", conditions)))
        named |= {"agent": agent, "before": LARGEST if before is None else in_64_bits(before), "limit": limit}
        with self._snapshot():
            if not filters.text:
                rows = self._named(f"{_EXPERIENCE} WHERE {where} ORDER BY e.cycle DESC, e.seq DESC LIMIT :limit", named)
            else:
                acts = islice(self._holding(where, named, filters.text), limit)
                rows = [self._row(_OF_ACT, act) for act in acts]
            return [self._experience(row) for row in rows]

    def cycle(self, agent: str, number: int) -> ExperienceRecorded | None:
        with self._snapshot():
            row = self._row(_ONE, agent, number)
            return None if row is None else self._experience(row)

    def pending(self, agent: str | None = None) -> int:
        waiting = "SELECT count(*) FROM acts WHERE due IS NOT NULL"
        row = self._row(waiting) if agent is None else self._row(waiting + " AND +agent = ?", agent)
        return int(row[0]) if row else 0

    def awaited(self, until: datetime) -> PendingActs:
        with self._snapshot():
            acts = self._row(_AWAITED, until.timestamp())[0]
            sets: dict[bytes, tuple[Part, ...]] = {}
            missing: dict[str, None] = {}
            for act, body in self._rows(_AWAITED_FIRST, until.timestamp()):
                if body is None:
                    continue
                if body not in sets:
                    sets[body] = stored_event(WeightsSet, body).parts
                there = set(self._rows(_SCORED, act))
                missing |= {part.component: None for part in sets[body] if (part.component, part.scorer) not in there}
            order = {part.component: None for parts in sets.values() for part in parts}
        return PendingActs(acts, tuple(component for component in order if component in missing))

    def last_cycle(self, agent: str) -> int | None:
        row = self._row("SELECT max(cycle) FROM acts WHERE agent = ?", agent)
        return row[0] if row else None

    def acts(self, agent: str) -> Iterator[tuple[str, int]]:
        cycle, action = -1, ""
        while page := self._rows(_ACTS, agent, cycle, action, _PAGE):
            yield from page
            action, cycle = page[-1]

    def score_sets(self, agent: str) -> list[tuple[str, str]]:
        return self._rows(_SCORE_SETS, agent)

    def marks(self, agent: str, start: int = 0) -> Iterator[Mark]:
        for _, twins in groupby(self._marks(agent, start), key=itemgetter(3)):
            for row in sorted(twins, key=itemgetter(4)):
                yield _mark(row)

    def _marks(self, agent: str, start: int) -> Iterator[Sequence[Any]]:
        """Rows in the order of their sequence; several of one are in no order yet."""
        place: tuple[object, ...] = (start, "", "")
        while page := self._rows(_MARKS, agent, *place, _PAGE):
            yield from page
            _, name, digest, sequence, *_ = page[-1]
            place = (sequence, name, digest)

    def marks_of(self, agent: str, action_id: str) -> list[Mark]:
        rows = sorted(self._rows(_MARKS_OF, action_id, agent), key=itemgetter(3, 4))
        return [mark for mark in map(_mark, rows) if mark.action_id == action_id]

    def last_mark(self, agent: str) -> int | None:
        row = self._row("SELECT max(sequence) FROM marks WHERE agent = ?", agent)
        return row[0] if row else None

    def losses(self, agent: str) -> list[StreamLoss]:
        base = int(self._meta("base") or 0)
        ends = json.loads(self._meta("ends") or "null") or ([base] if base else [])
        losses = [StreamLoss(*self._row(_BEFORE, agent, end)) for end in ends]
        return [loss for loss in losses if loss.cycle is not None or loss.mark is not None]

    def needs_history(self, agent: str, limit: int) -> list[NeedsChanged]:
        with self._intact():
            rows = self._rows(_NEEDS, agent, limit)
            return [stored_event(NeedsChanged, body) for (body,) in reversed(rows)]

    def weight_sets(self, agent: str) -> list[WeightsSet]:
        with self._intact():
            return [stored_event(WeightsSet, body) for (body,) in self._rows(_WEIGHTS, agent)]

    def component_stats(self, agent: str | None = None, last: int = 1000) -> list[ComponentStats]:
        shown: dict[tuple[str, str], list[ShownScore]] = defaultdict(list)
        removed: dict[tuple[str, str], list[RemovedComponent]] = defaultdict(list)
        with self._snapshot():
            verdicts = self._last(_VERDICTS, agent, last)
            for (verdict,) in verdicts:
                for score in stored_verdict(verdict).scores:
                    shown[score.component, score.scorer].append(score)
            for sums in self._removed_components(self._removed_sums(agent, last - len(verdicts))):
                removed[sums.component, sums.scorer].append(sums)
        stats = [_stats(key, shown[key], removed[key]) for key in {**shown, **removed}]
        return sorted(stats, key=lambda one: (-one.weight, one.component, one.scorer))

    def figures(self, agent: str | None = None, last: int = 100) -> ExperienceSummary:
        with self._snapshot():
            rows = self._last(_FIGURES, agent, last)
            removed = self._removed_sums(agent, last - len(rows))
            outcomes = Counter(outcome for outcome, *_ in rows) + self._removed_outcomes(removed)
        count = len(rows) + sum(sums.acts for sums in removed)
        totals = [*(total for _, total, _, _ in rows), *(sums.total for sums in removed)]
        coverages = [*(coverage for _, _, coverage, _ in rows), *(sums.coverage for sums in removed)]
        return ExperienceSummary(
            count=count,
            mean_total=fsum(totals) / count if count else None,
            coverage=fsum(coverages) / count if count else None,
            incomplete=sum(not complete for *_, complete in rows) + sum(sums.incomplete for sums in removed),
            outcomes=dict(outcomes.most_common()),
        )

    def _last(self, what: str, agent: str | None, last: int) -> list[Any]:
        """Columns of the last experiences, newest first."""
        return self._rows(f"{what} {_OF_ALL}", last) if agent is None else self._rows(f"{what} {_OF_ONE}", agent, last)

    def _experience(self, row: Sequence[Any]) -> ExperienceRecorded:
        act, seq, revision, recorded, verdict, body = row
        return assemble(
            stored_event(ActionTaken, body),
            seq,
            ExperienceVerdict.model_validate_json(verdict),
            self._fill_context(JoinCase(act, "")).context(),
            revision=revision,
            recorded=datetime.fromisoformat(recorded),
        )

    def _fill_context(self, case: JoinCase) -> JoinCase:
        """The case with its context from the rows."""
        for kind, seq, body in self._rows("SELECT kind, seq, body FROM contexts WHERE act = ?", case.number):
            case.contexts[kind] = (seq, _CONTEXTS[kind](body))
            case.size += len(body)
        for name, seq, body in self._rows("SELECT id, seq, body FROM needs WHERE act = ?", case.number):
            case.needs[name] = (seq, stored_event(NeedsChanged, body))
            case.size += len(body)
        return case


def _mark(row: Sequence[Any]) -> Mark:
    """The row's mark. Raises CheckError where its columns and its body no longer say the same."""
    agent, name, digest, sequence, _, body = row
    try:
        mark = Mark.model_validate_json(body)
    except ValidationError:
        raise CheckError(f"Mark {name} at sequence {sequence} is no mark any more: its row was changed.") from None
    if (mark.agent, mark.id, mark.hash, mark.sequence) != (agent, name, digest, sequence):
        raise CheckError(f"Mark {name} at sequence {sequence} stands in a row of another one: its row was changed.")
    return mark


def _stats(key: tuple[str, str], scores: Sequence[ShownScore], removed: Sequence[RemovedComponent]) -> ComponentStats:
    """Of one component by one scorer, newest first, at least one; kept ones, and the sums over removed ones."""
    values = sorted(score.value for score in scores if score.value is not None)
    status = Counter(score.status for score in scores)
    count = len(scores) + sum(sums.count for sums in removed)
    scored = len(values) + sum(sums.scored for sums in removed)
    applicable = count - status["not_applicable"] - sum(sums.unasked for sums in removed)
    newest: list[ShownScore | RemovedComponent] = [*scores, *removed]
    return ComponentStats(
        component=key[0],
        scorer=key[1],
        version=next((one.version for one in newest if one.version), ""),
        weight=newest[0].weight,
        count=count,
        scored=scored,
        mean=fsum([*values, *(sums.total for sums in removed)]) / scored if scored else None,
        p50=_rank(values, 50),
        p95=_rank(values, 95),
        errors=status["error"] + sum(sums.errors for sums in removed),
        timeouts=status["timeout"] + sum(sums.timeouts for sums in removed),
        coverage=scored / applicable if applicable else 1.0,
    )


def _rank(ordered: Sequence[float], percent: int) -> float | None:
    """The nearest-rank percentile of sorted values."""
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)] if ordered else None
