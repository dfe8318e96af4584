"""Experiences in a few columns: what charts, figures and counts ask of many, without decoding whole facts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from math import fsum
from typing import Any, Final

from conch.experience.models import (
    AdapterAct,
    ComponentStats,
    CostSummary,
    CycleCounts,
    DecidedAct,
    ExperiencePoint,
    ExperienceSummary,
    GoalMove,
    LifeBlock,
    SkillBucket,
    SkillTotal,
)
from conch.experience.opened import LARGEST, OpenStore, in_64_bits, stored_event
from conch.experience.queries.bodies import (
    ShownCheck,
    ShownScore,
    stored_adapter,
    stored_checks,
    stored_cost,
    stored_decision,
    stored_needs,
    stored_policy,
    stored_verdict,
)
from conch.experience.queries.retention import (
    BLOCK,
    RemovedComponent,
    removed_components,
    removed_outcomes,
    removed_sums,
)
from conch_schemas import NeedsChanged, WeightsSet

_POINTS: Final = """
    SELECT e.cycle, e.seq, e.acted, e.outcome, e.kind, e.tool, e.skill, e.valid, e.total, e.coverage, e.complete,
    e.revision, unpacked(e.verdict), (SELECT unpacked(body) FROM needs n WHERE n.act = e.act ORDER BY n.seq LIMIT 1)
    FROM experiences e WHERE e.agent = ? AND e.cycle < ? ORDER BY e.cycle DESC, e.seq DESC LIMIT ?"""
_PAGE: Final = 50_000
"""Cycles of a page of totals."""
# These read the index by cycle alone, not the rows.
_TOTALS: Final = "SELECT cycle, total FROM experiences WHERE agent = ? AND cycle >= ? AND cycle < ? ORDER BY cycle, seq"
_WITHIN: Final = """
    WITH spans (first, behind) AS (VALUES {})
    SELECT e.cycle, e.total FROM spans s CROSS JOIN experiences e
    WHERE e.agent = ? AND e.cycle >= s.first AND e.cycle < s.behind ORDER BY e.cycle, e.seq"""
_SKILLS: Final = """
    SELECT cycle, skill, total FROM experiences WHERE agent = ? AND cycle < ? ORDER BY cycle DESC, seq DESC LIMIT ?"""
_NEXT: Final = "SELECT cycle FROM experiences WHERE agent = ? AND cycle >= ? ORDER BY cycle LIMIT 1"
# The index is named, as the planner prefers the order of another one to the few rows of this. SQLite enters it at the
# bound that is named first: at 0 it would read every row.
_CHANGED: Final = """
    SELECT 1 FROM experiences INDEXED BY experiences_by_change
    WHERE changed > ? AND changed > 0 AND agent = ? AND cycle < ? LIMIT 1"""
_REMOVED: Final = "SELECT block, acts, total, low, high FROM removed_totals WHERE agent = ? ORDER BY block"
_ACTED_AT: Final = """
    WITH wanted (place, cycle) AS (VALUES {})
    SELECT (SELECT acted FROM experiences e WHERE e.agent = ? AND e.cycle >= w.cycle ORDER BY e.cycle, e.seq LIMIT 1)
    FROM wanted w ORDER BY w.place"""
_PAIR: Final = "(CAST(? AS BIGINT), CAST(? AS BIGINT))"  # PostgreSQL takes values of a list of rows for text
_PAIRS: Final = 512
"""Pairs of values to a statement. One statement for all, as each of many would wait for the interpreter's lock."""
# SQLite keeps the order of a CROSS JOIN: first the few scores of their own index.
_MOVES: Final = """
    SELECT e.cycle, max(CASE WHEN s.value >= s.high THEN 1 ELSE 0 END), max(s.explanation)
    FROM scores s CROSS JOIN experiences e WHERE e.act = s.act
    AND s.component = 'goal' AND s.value > 0 AND e.agent = ? GROUP BY e.cycle, e.act ORDER BY e.cycle DESC LIMIT ?"""
_MOVED: Final = """
    SELECT count(DISTINCT s.act) FROM scores s CROSS JOIN experiences e WHERE e.act = s.act
    AND s.component = 'goal' AND s.value > 0 AND e.agent = ?"""
_CHECKS: Final = """
    SELECT cycle, unpacked(body) FROM acts WHERE agent = ? AND cycle < ? ORDER BY cycle DESC, seq DESC LIMIT ?"""
_ACTED: Final = """
    SELECT e.cycle, unpacked(a.body), e.total FROM experiences e JOIN acts a ON a.act = e.act
    WHERE e.agent = ? AND e.cycle < ? ORDER BY e.cycle DESC, e.seq DESC LIMIT ?"""
_ADAPTED: Final = """
    SELECT e.cycle, e.acted, unpacked(a.body), e.total FROM experiences e JOIN acts a ON a.act = e.act
    WHERE e.agent = ? ORDER BY e.cycle DESC, e.seq DESC LIMIT ?"""
_DECIDED: Final = """
    SELECT e.cycle, unpacked(a.body) FROM experiences e JOIN acts a ON a.act = e.act
    WHERE e.agent = ? AND e.cycle < ? ORDER BY e.cycle DESC, e.seq DESC LIMIT ?"""
_TALLY: Final = """
    SELECT outcome, kind, tool, skill, need, count(*) FROM (
        SELECT outcome, kind, tool, skill, need FROM experiences WHERE agent = ? ORDER BY cycle DESC, seq DESC LIMIT ?
    ) AS recent
    GROUP BY 1, 2, 3, 4, 5 ORDER BY 6 DESC, 1, 2, 3 NULLS FIRST, 4, 5 NULLS FIRST"""
# Both columns are in the index by cycle: no row is read.
_BEHAVIOURS: Final = """
    SELECT cycle / ?, skill, count(*), sum(total) FROM experiences WHERE agent = ? GROUP BY 1, 2 ORDER BY 1, 2"""
_FIGURES: Final = "SELECT outcome, total, coverage, complete FROM experiences"
_BODIES: Final = "SELECT unpacked(a.body) FROM experiences e JOIN acts a ON a.act = e.act"
_BODIES_OF_ONE: Final = f"{_BODIES} WHERE e.agent = ? ORDER BY e.cycle DESC, e.seq DESC LIMIT ?"
_BODIES_OF_ALL: Final = f"{_BODIES} ORDER BY e.seq DESC LIMIT ?"
_VERDICTS: Final = "SELECT unpacked(verdict) FROM experiences"
_OF_ONE: Final = "WHERE agent = ? ORDER BY cycle DESC, seq DESC LIMIT ?"
_OF_ALL: Final = "ORDER BY seq DESC LIMIT ?"
_WEIGHTS: Final = "SELECT body FROM weights WHERE agent = ? ORDER BY seq"
_NEEDS: Final = "SELECT unpacked(body) FROM needs WHERE agent = ? ORDER BY seq DESC LIMIT ?"

_NEEDS_BEFORE: Final = """
    SELECT unpacked(n.body) FROM acts a JOIN needs n ON n.act = a.act WHERE a.agent = ? AND a.cycle < ?
    ORDER BY a.cycle DESC, n.seq DESC LIMIT ?"""


class SqlCharts:
    """The `ChartReader` of a store over SQL."""

    def __init__(self, file: OpenStore) -> None:
        self._file = file

    def points(self, agent: str, limit: int, before: int | None = None) -> list[ExperiencePoint]:
        rows = self._file.rows(_POINTS, agent, LARGEST if before is None else in_64_bits(before), limit)
        with self._file.intact():
            return [_point(row) for row in reversed(rows)]

    def totals(self, agent: str, since: int, before: int | None = None) -> Iterator[Sequence[tuple[int, float]]]:
        behind = LARGEST if before is None else in_64_bits(before)
        while (found := self._file.row(_NEXT, agent, in_64_bits(since))) is not None and found[0] < behind:
            first = int(found[0])
            since = min(first + _PAGE, behind)
            yield self._file.rows(_TOTALS, agent, first, in_64_bits(since))

    def totals_within(self, agent: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, float]]:
        with self._file.snapshot():
            return [
                row
                for some in _batched(spans)
                for row in self._file.rows(_paired(_WITHIN, some), *_values(some), agent)
            ]

    def skills(self, agent: str, limit: int, before: int | None = None) -> list[SkillTotal]:
        rows = self._file.rows(_SKILLS, agent, LARGEST if before is None else in_64_bits(before), limit)
        return [SkillTotal(*row) for row in reversed(rows)]

    def is_changed(self, agent: str, before: int, since: int) -> bool:
        if self._file.changes() == 0:  # a file of an older schema, which has no such index
            return False
        return self._file.row(_CHANGED, since, agent, in_64_bits(before)) is not None

    def removed_totals(self, agent: str) -> list[LifeBlock]:
        return [LifeBlock(block * BLOCK, *sums) for block, *sums in self._file.rows(_REMOVED, agent)]

    def acted_at(self, agent: str, cycles: Sequence[int]) -> list[datetime | None]:
        with self._file.snapshot():
            rows = [
                row
                for some in _batched(list(enumerate(cycles)))
                for row in self._file.rows(_paired(_ACTED_AT, some), *_values(some), agent)
            ]
        return [None if acted is None else datetime.fromtimestamp(acted, UTC) for (acted,) in rows]

    def goal_moves(self, agent: str, limit: int) -> tuple[int, list[GoalMove]]:
        with self._file.snapshot():
            count = self._file.row(_MOVED, agent)[0]
            rows = self._file.rows(_MOVES, agent, limit)
        return count, [GoalMove(cycle, bool(reached), why) for cycle, reached, why in reversed(rows)]

    def goal_checks(
        self, agent: str, limit: int, before: int | None = None
    ) -> list[tuple[int, tuple[ShownCheck, ...]]]:
        rows = self._file.rows(_CHECKS, agent, LARGEST if before is None else in_64_bits(before), limit)
        with self._file.intact():
            return [(cycle, stored_checks(body)) for cycle, body in reversed(rows)]

    def policies(self, agent: str, limit: int, before: int | None = None) -> list[tuple[int, str | None, float]]:
        rows = self._file.rows(_ACTED, agent, LARGEST if before is None else in_64_bits(before), limit)
        with self._file.intact():
            return [(cycle, stored_policy(body), total) for cycle, body, total in reversed(rows)]

    def adapters(self, agent: str, limit: int) -> list[AdapterAct]:
        rows = self._file.rows(_ADAPTED, agent, limit)
        with self._file.intact():
            return [AdapterAct(cycle, at, stored_adapter(body), total) for cycle, at, body, total in reversed(rows)]

    def decided(self, agent: str, limit: int, before: int | None = None) -> list[DecidedAct]:
        behind = LARGEST if before is None else in_64_bits(before)
        rows = self._file.rows(_DECIDED, agent, behind, limit)
        with self._file.intact():
            return [DecidedAct(cycle, *stored_decision(body)) for cycle, body in reversed(rows)]

    def tallies(self, agent: str, last: int) -> list[CycleCounts]:
        return [CycleCounts(*row) for row in self._file.rows(_TALLY, agent, last)]

    def behaviours(self, agent: str, width: int) -> list[SkillBucket]:
        return [SkillBucket(*row) for row in self._file.rows(_BEHAVIOURS, width, agent)]

    def needs_history(self, agent: str, limit: int, before: int | None = None) -> list[NeedsChanged]:
        with self._file.intact():
            if before is None:
                rows = self._file.rows(_NEEDS, agent, limit)
            else:
                rows = self._file.rows(_NEEDS_BEFORE, agent, in_64_bits(before), limit)
            return [stored_event(NeedsChanged, body) for (body,) in reversed(rows)]

    def weight_sets(self, agent: str) -> list[WeightsSet]:
        with self._file.intact():
            return [stored_event(WeightsSet, body) for (body,) in self._file.rows(_WEIGHTS, agent)]

    def component_stats(self, agent: str | None = None, last: int = 1000) -> list[ComponentStats]:
        shown: dict[tuple[str, str], list[ShownScore]] = defaultdict(list)
        removed: dict[tuple[str, str], list[RemovedComponent]] = defaultdict(list)
        with self._file.snapshot():
            verdicts = self._last(_VERDICTS, agent, last)
            for (verdict,) in verdicts:
                for score in stored_verdict(verdict).scores:
                    shown[score.component, score.scorer].append(score)
            for sums in removed_components(self._file, removed_sums(self._file, agent, last - len(verdicts))):
                removed[sums.component, sums.scorer].append(sums)
        stats = [_stats(key, shown[key], removed[key]) for key in {**shown, **removed}]
        return sorted(stats, key=lambda one: (-one.weight, one.component, one.scorer))

    def figures(self, agent: str | None = None, last: int = 100) -> ExperienceSummary:
        with self._file.snapshot():
            rows = self._last(_FIGURES, agent, last)
            removed = removed_sums(self._file, agent, last - len(rows))
            outcomes = Counter(outcome for outcome, *_ in rows) + removed_outcomes(self._file, removed)
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

    def costs(self, agent: str | None = None, last: int = 100) -> CostSummary:
        amounts: dict[str, float] = defaultdict(float)
        known = unknown = 0
        query = (_BODIES_OF_ALL, last) if agent is None else (_BODIES_OF_ONE, agent, last)
        rows = self._file.rows(*query)
        with self._file.intact():
            for (body,) in rows:
                cost, tokens = stored_cost(body)
                if cost is not None:
                    known += 1
                    amounts[cost.currency] += cost.amount
                elif tokens:
                    unknown += 1
        return CostSummary(dict(sorted(amounts.items())), known, unknown)

    def _last(self, what: str, agent: str | None, last: int) -> list[Any]:
        """Columns of the last experiences, newest first."""
        return (
            self._file.rows(f"{what} {_OF_ALL}", last)
            if agent is None
            else self._file.rows(f"{what} {_OF_ONE}", agent, last)
        )


def _batched(items: Sequence[tuple[int, int]]) -> Iterator[Sequence[tuple[int, int]]]:
    return (items[at : at + _PAIRS] for at in range(0, len(items), _PAIRS))


def _paired(sql: str, pairs: Sequence[tuple[int, int]]) -> str:
    """The statement for so many pairs of values."""
    return sql.format(", ".join([_PAIR] * len(pairs)))


def _values(pairs: Sequence[tuple[int, int]]) -> list[int]:
    return [in_64_bits(value) for pair in pairs for value in pair]


def _point(row: Sequence[Any]) -> ExperiencePoint:
    cycle, seq, acted, outcome, kind, tool, skill, valid, total, coverage, complete, revision, *bodies = row
    verdict, needs = bodies
    shown = stored_verdict(verdict)
    return ExperiencePoint(
        cycle=cycle,
        seq=seq,
        acted_at=datetime.fromtimestamp(acted, UTC),
        outcome=outcome,
        kind=kind,
        tool=tool,
        skill=skill,
        valid=bool(valid),
        total=total,
        coverage=coverage,
        complete=bool(complete),
        revision=revision,
        scores=shown.scores,
        breakdown=shown.breakdown,
        needs_after=stored_needs(needs).after if needs else None,
    )


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
