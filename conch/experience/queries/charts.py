"""Experiences in a few columns: what charts, figures and filters ask of many, without decoding whole facts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from conch.experience.queries.backfill import BackfillReader
from conch.experience.queries.bodies import (
    ShownCheck,
    ShownLine,
    ShownScore,
    stored_act,
    stored_checks,
    stored_needs,
    stored_policy,
    stored_verdict,
)

_POINTS: Final = """
    SELECT e.cycle, e.seq, e.acted, e.outcome, e.kind, e.tool, e.skill, e.valid, e.total, e.coverage, e.complete,
    e.revision, e.verdict, (SELECT body FROM needs n WHERE n.act = e.act ORDER BY n.seq LIMIT 1)
    FROM experiences e WHERE e.agent = ? AND e.cycle < ? ORDER BY e.cycle DESC, e.seq DESC LIMIT ?"""
_CHECKS: Final = "SELECT cycle, body FROM acts WHERE agent = ? ORDER BY cycle DESC, seq DESC LIMIT ?"
_ACTED: Final = """
    SELECT e.cycle, a.body, e.total FROM experiences e JOIN acts a ON a.act = e.act
    WHERE e.agent = ? ORDER BY e.cycle DESC, e.seq DESC LIMIT ?"""
_NEAREST: Final = """
    SELECT (SELECT max(cycle) FROM experiences WHERE agent = ?1 AND cycle < ?2),
           (SELECT min(cycle) FROM experiences WHERE agent = ?1 AND cycle > ?2)"""
_TALLY: Final = """
    SELECT outcome, kind, tool, skill, need, count(*) FROM (
        SELECT outcome, kind, tool, skill, need FROM experiences WHERE agent = ? ORDER BY cycle DESC, seq DESC LIMIT ?)
    GROUP BY 1, 2, 3, 4, 5 ORDER BY 6 DESC, 1, 2, 3, 4, 5"""
_WORDS: Final = """
    SELECT e.act, e.cycle, e.seq, CAST(a.body AS BLOB),
    (SELECT body FROM contexts c WHERE c.act = e.act AND c.kind = 'thought')
    FROM experiences e JOIN acts a ON a.act = e.act WHERE """
_WORD: Final = re.compile(r"[a-z0-9]+")
_UNSAID: Final = b" invalid"
"""The skill of what was not valid, which no fact says in this word."""
_PAGE: Final = 500
"""Cycles whose words are looked through at a time."""
LARGEST: Final = 2**63 - 1


class ExperiencePoint(NamedTuple):
    """An experience as of its latest revision, without its words."""

    cycle: int
    seq: int
    acted_at: datetime
    """UTC."""
    outcome: str
    kind: str
    tool: str | None
    """Like `skill`, its first 100 characters."""
    skill: str
    valid: bool
    total: float
    coverage: float
    complete: bool
    revision: int
    scores: tuple[ShownScore, ...]
    """In the order of the weight set; then what was scored beside it, with weight 0."""
    breakdown: tuple[ShownLine, ...]
    """What adds up to the total."""
    needs_after: Mapping[str, float] | None


class CycleCounts(NamedTuple):
    """How many of the last cycles were alike in these."""

    outcome: str
    kind: str
    tool: str | None
    skill: str
    need: str | None
    cycles: int


@dataclass(frozen=True)
class CycleFilter:
    """Which cycles are meant: those that hold to all that is named. Numbers beyond 64 bits are as good as the largest.

    Each field's metadata is the condition on its column.
    """

    outcome: str | None = field(default=None, metadata={"sql": "e.outcome = :outcome"})
    kind: str | None = field(default=None, metadata={"sql": "e.kind = :kind"})
    tool: str | None = field(default=None, metadata={"sql": "e.tool = :tool"})
    skill: str | None = field(default=None, metadata={"sql": "e.skill = :skill"})
    need: str | None = field(default=None, metadata={"sql": "e.need = :need"})
    """The one that was least satisfied before the act, as known at the latest revision."""
    complete: bool | None = field(default=None, metadata={"sql": "e.complete = :complete"})
    least: float | None = field(default=None, metadata={"sql": "e.total >= :least"})
    """The total is this or more."""
    most: float | None = field(default=None, metadata={"sql": "e.total <= :most"})
    """The total is this or less."""
    first: int | None = field(default=None, metadata={"sql": "e.cycle >= :first"})
    """The lowest cycle."""
    last: int | None = field(default=None, metadata={"sql": "e.cycle <= :last"})
    """The highest cycle."""
    text: str | None = None
    """Stands in the thought, the reply or the action, in whatever case. The other conditions are looked at first: this
    one reads the facts themselves."""

    def where(self) -> tuple[str, dict[str, Any]]:
        """(the conditions as SQL, the values that it names), all but `text`."""
        named = {one.name: value for one in fields(self) if (value := getattr(self, one.name)) is not None}
        named.pop("text", None)
        told = [str(one.metadata["sql"]) for one in fields(self) if one.name in named]
        return " AND ".join(told), {name: in_64_bits(value) for name, value in named.items()}


class ChartReader(BackfillReader):
    """The part of `ExperienceReader` that pages, charts and lists rest on."""

    def points(self, agent: str, limit: int, before: int | None = None) -> list[ExperiencePoint]:
        rows = self._rows(_POINTS, agent, LARGEST if before is None else in_64_bits(before), limit)
        with self._intact():
            return [_point(row) for row in reversed(rows)]

    def goal_checks(self, agent: str, limit: int) -> list[tuple[int, tuple[ShownCheck, ...]]]:
        rows = self._rows(_CHECKS, agent, limit)
        with self._intact():
            return [(cycle, stored_checks(body)) for cycle, body in reversed(rows)]

    def policies(self, agent: str, limit: int) -> list[tuple[int, str | None, float]]:
        rows = self._rows(_ACTED, agent, limit)
        with self._intact():
            return [(cycle, stored_policy(body), total) for cycle, body, total in reversed(rows)]

    def neighbours(self, agent: str, cycle: int) -> tuple[int | None, int | None]:
        nearest: tuple[int | None, int | None] = self._row(_NEAREST, agent, in_64_bits(cycle))
        return nearest

    def tallies(self, agent: str, last: int) -> list[CycleCounts]:
        return [CycleCounts(*row) for row in self._rows(_TALLY, agent, last)]

    def _holding(self, where: str, named: Mapping[str, Any], text: str) -> Iterator[int]:
        """Acts in whose words the text stands, the last cycle first; reads as far as it is asked."""
        sql = (
            f"{_WORDS} {where} AND (e.cycle, e.seq) < (:before, :place) ORDER BY e.cycle DESC, e.seq DESC LIMIT {_PAGE}"
        )
        sought, place = text.casefold(), {"place": -1}
        words = [word.encode() for word in _WORD.findall(sought)]
        while rows := self._named(sql, {**named, **place}):
            with self._intact():
                for act, _, _, body, thought in rows:
                    if _may_hold(words, body, thought) and sought in _words(body, thought).casefold():
                        yield act
            place = {"before": rows[-1][1], "place": rows[-1][2]}


def in_64_bits(value: Any) -> Any:
    """A number as SQLite can hold it; what is none as it is."""
    return max(-LARGEST, min(value, LARGEST)) if type(value) is int else value


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


def _may_hold(words: Sequence[bytes], body: bytes, thought: str | None) -> bool:
    """False where a word of what is sought is nowhere in the facts: told without reading them."""
    facts = body.lower() + (thought or "").lower().encode() + _UNSAID
    return all(word in facts for word in words)


def _words(body: bytes, thought: str | None) -> str:
    """What was thought, replied and done, in lines; the action also in the words of a list, `skill value value`."""
    act = stored_act(body)
    action = act.action
    args = [value for name, value in action.args.items() if name != "operation"]
    values = [value if isinstance(value, str) else msgspec.json.encode(value).decode() for value in args]
    said = (act.thought if thought is None else thought, act.raw, " ".join([action.skill, *values]), action.text)
    return "\n".join(filter(None, (*said, action.reason)))
