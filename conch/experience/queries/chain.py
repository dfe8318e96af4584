"""The chain of marks, and the acts and scores that it has to cover: what verification reads."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from conch.errors import CheckError, StoreError
from conch.experience.join import Join
from conch.experience.models import StreamLoss
from conch.experience.opened import OpenStore
from conch.experience.queries.bodies import StoredOrigin, stored_doing, stored_needs, stored_origin, stored_verdict
from conch.experience.queries.forget import records_in
from conch.experience.queries.owned import OwnedPartitions
from conch.experience.transaction import act_columns, least_satisfied
from conch_schemas import ContractViolationError, ExperienceRecorded, Mark, PersonForgotten, action_id, decode

if TYPE_CHECKING:
    from conch.witness import EventRow, StoredAct

_PAGE: Final = 1000
"""Rows of one read in a walk over all of them."""

_ACTS: Final = """
    SELECT action_id, cycle FROM acts
    WHERE agent = ? AND (cycle, action_id) > (?, ?) ORDER BY cycle, action_id LIMIT ?"""
_SCORE_SETS: Final = """
    SELECT action_id, scorer FROM scores JOIN acts USING (act) WHERE agent = ?
    GROUP BY action_id, scorer, cycle ORDER BY cycle, scorer"""
_MARKS: Final = """
    SELECT agent, id, hash, sequence, seq, unpacked(body) FROM marks
    WHERE agent = ? AND (sequence, id, hash) > (?, ?, ?) ORDER BY sequence, id, hash LIMIT ?"""
_MARKS_OF: Final = """
    SELECT agent, id, hash, sequence, seq, unpacked(body) FROM marks
    WHERE act = (SELECT act FROM actions WHERE action_id = ?) AND +agent = ?"""
_REVISIONS: Final = """
    SELECT action_id, revision, experiences.cycle, act FROM experiences JOIN acts USING (act)
    WHERE experiences.agent = ? AND (experiences.cycle, act) > (?, ?) ORDER BY experiences.cycle, act LIMIT ?"""
_UNRECORDED: Final = """
    SELECT action_id FROM acts LEFT JOIN experiences USING (act) WHERE acts.agent = ? AND experiences.act IS NULL"""
_NUMBERS: Final = "SELECT act, action_id FROM actions WHERE action_id IN"
_ACT_ROWS: Final = "SELECT act, unpacked(body), seq, due, action_id, agent, cycle FROM acts WHERE act IN"
_CONTEXT_ROWS: Final = "SELECT act, kind, unpacked(body), seq FROM contexts WHERE act IN"
_WEIGHT_ROWS: Final = "SELECT seq, body FROM weights WHERE agent = ? ORDER BY seq"
_SCORE_ROWS: Final = """
    SELECT act, component, value, low, high, status, explanation, scorer, version FROM scores WHERE act IN"""
_NEEDS_ROWS: Final = "SELECT act, id, agent, unpacked(body), seq FROM needs WHERE act IN"
_REVIEW_ROWS: Final = "SELECT action_id, id, agent, unpacked(body) FROM reviews WHERE action_id IN"
_EXPERIENCE_ROWS: Final = """
    SELECT act, unpacked(verdict), revision, recorded, total, coverage, complete,
           need, seq, agent, cycle, outcome, kind, tool, skill, valid, acted FROM experiences WHERE act IN"""
_MARK_ROWS: Final = "SELECT act, id FROM marks WHERE act IN"
_OUTSIDE: Final = {
    "weights": "SELECT '', seq, agent, body, '', '' FROM weights WHERE agent = ?",
    "needs": "SELECT id, seq, agent, unpacked(body), '', '' FROM needs WHERE act = 0 AND agent = ?",
    "reviews": "SELECT id, seq, agent, unpacked(body), row_id, coalesce(action_id, '') FROM reviews WHERE agent = ?",
    "forks": "SELECT id, seq, agent, unpacked(body), cycle, '' FROM forks WHERE agent = ?",
    "training": "SELECT id, seq, agent, unpacked(body), coalesce(round, ''), '' FROM training WHERE agent = ?",
}
"""By table: id, place, agent, body and two more columns of the events that belong to no act, or stand beside it."""
_PROMPTS: Final = "SELECT substr(kind, 8), unpacked(body), seq FROM contexts WHERE act = 0 AND kind LIKE 'policy:%'"
_OTHERS: Final = "SELECT unpacked(body) FROM marks WHERE agent <> ? AND act IS NULL"
_STRAYS: Final = (
    (
        "act",
        """SELECT acts.act FROM acts LEFT JOIN actions ON actions.action_id = acts.action_id
        WHERE actions.act IS NULL OR actions.act <> acts.act""",
    ),
    ("experience", "SELECT act FROM experiences WHERE act NOT IN (SELECT act FROM acts)"),
    ("score", "SELECT DISTINCT act FROM scores WHERE act NOT IN (SELECT act FROM acts)"),
    (
        "change of needs",
        """SELECT DISTINCT act FROM needs WHERE act <> 0 AND act NOT IN (SELECT act FROM acts)
        AND act NOT IN (SELECT act FROM actions)""",
    ),
    (
        "context",
        """SELECT DISTINCT act FROM contexts WHERE act <> 0 AND act NOT IN (SELECT act FROM acts)
        AND act NOT IN (SELECT act FROM actions)""",
    ),
    ("context", "SELECT act FROM contexts WHERE act = 0 AND kind NOT LIKE 'policy:%'"),
)
"""(what a row is, the statement that finds those rows of no action that is known)."""
_MARK_PLACES: Final = "SELECT sequence, seq FROM marks WHERE agent = ? ORDER BY sequence"
_REMOVED: Final = "SELECT first_cycle, last_cycle FROM removals WHERE agent = ?"
_OF_REMOVED: Final = """
    SELECT (SELECT coalesce(sum(acts), 0) FROM removals WHERE agent = ?),
           (SELECT coalesce(sum(acts), 0) FROM removed_totals WHERE agent = ?),
           (SELECT count(*) FROM removed_outcomes WHERE agent = ?)
           + (SELECT count(*) FROM removed_components WHERE agent = ?)
           + (SELECT count(*) FROM removed_scores WHERE agent = ?),
           (SELECT max(last_cycle) FROM removals WHERE agent = ?), (SELECT min(cycle) FROM acts WHERE agent = ?)"""
"""(removed acts by the record, by the sums, other rows of sums, last removed cycle, first kept cycle)."""
_UNEQUAL_BLOCKS: Final = """
    SELECT block FROM (
        SELECT block, acts, 0 AS outcomes FROM removed_totals WHERE agent = ? UNION ALL
        SELECT block, 0, acts FROM removed_outcomes WHERE agent = ?) AS both_sums
    GROUP BY block HAVING sum(acts) <> sum(outcomes) ORDER BY block"""
_PUBLISHED: Final = """
    SELECT revision, unpacked(verdict) FROM experiences WHERE act = (SELECT act FROM actions WHERE action_id = ?)"""
_FOLLOWS: Final = """
    SELECT act, unpacked(verdict), total, coverage, complete FROM experiences
    WHERE act = (SELECT act FROM actions WHERE action_id = ?)"""
_STEPS: Final = 16
"""Steps of a removed cycle that are looked for; an agent of this version takes one."""
_BEFORE: Final = """
    SELECT (SELECT max(cycle) FROM acts WHERE agent = ? AND seq <= ?),
           (SELECT max(sequence) FROM marks WHERE agent = ? AND seq <= ?)"""


class SqlChain:
    """The `ChainReader` of a store over SQL."""

    def __init__(self, file: OpenStore) -> None:
        self._file = file

    def acts(self, agent: str) -> Iterator[tuple[str, int]]:
        cycle, action = -1, ""
        while page := self._file.rows(_ACTS, agent, cycle, action, _PAGE):
            yield from page
            action, cycle = page[-1]

    def score_sets(self, agent: str) -> list[tuple[str, str]]:
        return self._file.rows(_SCORE_SETS, agent)

    def marks(self, agent: str, start: int = 0) -> Iterator[Mark]:
        for _, twins in groupby(self._marks(agent, start), key=itemgetter(3)):
            for row in sorted(twins, key=itemgetter(4)):
                yield _mark(row)

    def _marks(self, agent: str, start: int) -> Iterator[Sequence[Any]]:
        """Rows in the order of their sequence; several of one are in no order yet."""
        place: tuple[object, ...] = (start, "", "")
        while page := self._file.rows(_MARKS, agent, *place, _PAGE):
            yield from page
            _, name, digest, sequence, *_ = page[-1]
            place = (sequence, name, digest)

    def marks_of(self, agent: str, action_id: str) -> list[Mark]:
        rows = sorted(self._file.rows(_MARKS_OF, action_id, agent), key=itemgetter(3, 4))
        return [mark for mark in map(_mark, rows) if mark.action_id == action_id]

    def last_mark(self, agent: str) -> int | None:
        row = self._file.row("SELECT max(sequence) FROM marks WHERE agent = ?", agent)
        return row[0] if row else None

    def revisions(self, agent: str) -> Iterator[tuple[str, int]]:
        cycle, act = -1, -1
        while page := self._file.rows(_REVISIONS, agent, cycle, act, _PAGE):
            yield from ((action, revision) for action, revision, _, _ in page)
            *_, cycle, act = page[-1]

    def unrecorded(self, agent: str) -> set[str]:
        return {action for (action,) in self._file.rows(_UNRECORDED, agent)}

    def unpublished(self, agent: str) -> set[tuple[str, int]]:
        waiting = [stored_origin(body) for (body,) in self._file.rows("SELECT body FROM outbox")]
        return {
            (event.actionid or "", event.data.revision or 0)
            for event in waiting
            if event is not None and event.agent == agent
        }

    def unfounded(self, actions: Sequence[str]) -> set[str]:
        with self._file.snapshot():
            join = Join(self._file, OwnedPartitions(shares=False))
            return {action for action in actions if not self._is_founded(join, action)}

    def _is_founded(self, join: Join, action: str) -> bool:
        try:
            with self._file.intact():
                row = self._file.row(_FOLLOWS, action)
                if row is None:
                    return False
                number, verdict, *figures = row
                again = join.judged_again(number, action)
                if again is None or again != verdict:
                    return False
                shown = stored_verdict(again)
                return (shown.total, shown.coverage, int(shown.complete)) == (*figures[:2], int(figures[2]))
        except StoreError:
            return False  # rows that no store has written: nothing follows from them

    def beside(self, agent: str) -> Iterator[EventRow]:
        from conch.witness import EventRow  # only here: commands that read do without the rules

        for table, query in _OUTSIDE.items():
            if not self._file.has_table(table):  # a file of an older schema has none
                continue
            for identity, seq, named, body, *columns in self._file.rows(query, agent):
                if (origin := stored_origin(body)) is None:
                    yield EventRow(table, identity, seq, bytes(body), is_indexed=False)
                    continue
                known = origin.agent == named and columns == _columns_of(table, origin)
                yield EventRow(table, origin.id, seq, bytes(body), known and identity in ("", origin.id))

    def prompts(self) -> dict[str, tuple[str, int]]:
        return {
            digest: (text if isinstance(text, str) else text.decode(errors="replace"), seq)
            for digest, text, seq in self._file.rows(_PROMPTS)
        }

    def policy_marks_of_others(self, agent: str) -> Iterator[Mark]:
        for (body,) in self._file.rows(_OTHERS, agent):
            with suppress(ValidationError):
                mark = Mark.model_validate_json(body)
                if mark.domain == "policy":
                    yield mark

    def strays(self) -> list[tuple[str, int]]:
        return [(what, number) for what, query in _STRAYS for (number,) in self._file.rows(query)]

    def unfit_sums(self, agent: str) -> list[str]:
        with self._file.snapshot():
            removed, summed, others, last, first = self._file.row(_OF_REMOVED, *[agent] * 7)
            unequal = [block for (block,) in self._file.rows(_UNEQUAL_BLOCKS, agent, agent)]
        found = []
        if summed > removed or (others and not removed):
            found.append(f"are over {summed} acts, and the store says of {removed} that they were removed")
        if last is not None and first is not None and last >= first:
            found.append(f"are over cycles up to {last}, and cycle {first} is stored")
        if unequal:
            found.append(f"count other acts by their outcomes than by their totals (block {unequal[0]})")
        return found

    def unfit_outbox(self, agent: str) -> list[str]:
        from conch.witness import is_verdict_of  # only here: commands that read do without the rules

        found = []
        with self._file.snapshot():
            (last,) = self._file.row("SELECT coalesce(max(last_cycle), -1) FROM removals WHERE agent = ?", agent)
            for name, body in self._file.rows("SELECT id, body FROM outbox ORDER BY place"):
                try:
                    event = decode(body)
                except ContractViolationError:
                    found.append(f"{name} cannot be read")
                    continue
                if event.agent != agent:
                    continue
                if not isinstance(event, ExperienceRecorded) or event.id != name:
                    found.append(f"{name} is none that a store publishes")
                    continue
                row = self._file.row(_PUBLISHED, event.action_id)
                if row is None and (event.cycle or 0) > last:
                    found.append(f"{name} is of an act that has no experience")
                elif row is not None and not (event.revision < row[0] or is_verdict_of(event, *row)):
                    found.append(f"{name} does not say what revision {row[0]} of action {event.action_id} says")
        return found

    def mark_places(self, agent: str) -> dict[int, int]:
        return dict(self._file.rows(_MARK_PLACES, agent))

    def last_place(self, agent: str) -> int:
        acts = self._file.row("SELECT max(seq) FROM acts WHERE agent = ?", agent)
        marks = self._file.row("SELECT max(seq) FROM marks WHERE agent = ?", agent)
        return max(acts[0] or 0, marks[0] or 0)

    def base(self) -> int:
        return self._file.base()

    def reach(self) -> int:
        return max(self._file.base() + max(self._file.positions()), self._file.number("highest"))

    def stored(self, actions: Iterable[str]) -> dict[str, StoredAct]:
        with self._file.snapshot():
            db = self._file.db
            names: dict[int, str] = dict(db.among(_NUMBERS, set(actions)))
            found = {number: _ActRows() for number in names}
            for number, *row in db.among(_ACT_ROWS, names):
                found[number].act = row
            for number, kind, body, seq in db.among(_CONTEXT_ROWS, names):
                found[number].contexts[kind] = body
                found[number].places[kind] = seq
            for number, *row in db.among(_SCORE_ROWS, names):
                found[number].scores.append(row)
            for number, identity, agent, body, seq in db.among(_NEEDS_ROWS, names):
                found[number].needs[identity] = (agent, body)
                found[number].places[identity] = seq
            if db.has_table("reviews"):  # a file of an older schema has none
                by_name = {name: found[number] for number, name in names.items()}
                for name, identity, agent, body in db.among(_REVIEW_ROWS, by_name):
                    by_name[name].reviews[identity] = (agent, body)
            for number, *row in db.among(_EXPERIENCE_ROWS, names):
                found[number].experience = row
            for number, identity in db.among(_MARK_ROWS, names):
                found[number].marks.add(identity)
            weights = _WeightVersions(self._file)
        return {name: found[number].stored(weights) for number, name in names.items()}

    def removed_among(self, agent: str, actions: set[str]) -> set[str]:
        found: set[str] = set()
        uid = self._agentuid(agent)
        if uid is None:
            return found
        # Retention removes the first cycles: what is gone behind an act that is there, it did not remove.
        (kept,) = self._file.row("SELECT min(cycle) FROM acts WHERE agent = ?", agent)
        spans = [(first, min(last, kept - 1)) for first, last in self._file.rows(_REMOVED, agent)]
        for step in range(_STEPS):
            if found == actions:
                break
            found |= {
                one
                for first, last in spans
                for c in range(first, last + 1)
                if (one := action_id(uid, c, step)) in actions
            }
        return found

    def _agentuid(self, agent: str) -> str | None:
        """The agent's UUID, from the first of its acts that can be read; None where none of the oldest can."""
        for (body,) in self._file.rows(
            "SELECT unpacked(body) FROM acts WHERE agent = ? ORDER BY cycle LIMIT 100", agent
        ):
            with suppress(ContractViolationError):
                return decode(body).agentuid
        return None

    def forgotten(self, agent: str) -> list[PersonForgotten]:
        with self._file.reading() as db, self._file.intact():
            return records_in(db, agent)

    def ends(self) -> list[int]:
        base = self._file.base()
        try:
            ends = json.loads(self._file.meta("ends") or "null")
        except ValueError:
            return []
        return list(ends) if isinstance(ends, list) and ends else [base] if base else []

    def losses(self, agent: str) -> list[StreamLoss]:
        losses = [StreamLoss(*self._file.row(_BEFORE, agent, end, agent, end)) for end in self.ends()]
        return [loss for loss in losses if loss.cycle is not None or loss.mark is not None]


class _WeightVersions:
    """Which version of the weight set governs a place, read once for each agent."""

    def __init__(self, file: OpenStore) -> None:
        self._file = file
        self._sets: dict[str, tuple[list[int], list[str]]] = {}

    def in_force(self, agent: str, seq: int) -> str | None:
        """The version of the agent's last weight set before this place; None: there is none."""
        if agent not in self._sets:
            rows = self._file.rows(_WEIGHT_ROWS, agent)
            self._sets[agent] = [place for place, _ in rows], [_version(body) for _, body in rows]
        places, versions = self._sets[agent]
        at = bisect_left(places, seq)
        return versions[at - 1] if at else None


def _version(body: bytes) -> str:
    origin = stored_origin(body)
    return "" if origin is None else origin.data.version or ""


def _columns_of(table: str, origin: StoredOrigin) -> list[str | int | None]:
    """The two columns that a table of `_OUTSIDE` has beside the event."""
    if table == "reviews":
        return [origin.data.row, origin.actionid or ""]
    if table == "forks":
        return [origin.cycle, ""]
    if table == "needs":
        return ["", origin.actionid or ""]  # a change that an act made has that act's number
    return [origin.data.round or "" if table == "training" else "", ""]


@dataclass
class _ActRows:
    """The rows of one action, as they are read."""

    act: Sequence[Any] = ()
    contexts: dict[str, str | bytes] = field(default_factory=dict)
    scores: list[Sequence[Any]] = field(default_factory=list)
    needs: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    reviews: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    experience: Sequence[Any] = ()
    marks: set[str] = field(default_factory=set)

    def stored(self, weights: _WeightVersions) -> StoredAct:
        """What the rows say of the action."""
        from conch.witness import StoredAct, score_id  # only here: commands that read do without the rules

        verdict, revision, recorded, total, coverage, complete, *_ = self.experience or (None, 0, "", None, None, None)
        body, seq, due, *columns = self.act or (None, 0, None)
        return StoredAct(
            act=body,
            columns=tuple(columns),
            seq=seq,
            waits=due is not None,
            contexts=self.contexts,
            scores={score_id(row[6], row[7], row[0]): row for row in self.scores},
            needs=self.needs,
            reviews=self.reviews,
            places=self.places,
            verdict=verdict,
            revision=revision,
            recorded=recorded,
            in_force=weights.in_force(columns[1], seq) if columns else None,
            figures=(total, coverage, complete) if self.experience else (),
            is_indexed=self._is_indexed(),
            marks=frozenset(self.marks),
        )

    def _is_indexed(self) -> bool:
        """Whether the experience's columns beside its verdict say what its act and its needs say."""
        if not self.act or not self.experience:
            return True
        body, seq, _, _, agent, cycle = self.act
        _, _, _, _, _, _, need, *columns = self.experience
        try:
            said = (seq, agent, cycle, *act_columns(*stored_doing(body)))
            return tuple(columns) == said and self._is_least(need)
        except (ValueError, TypeError):
            return False

    def _is_least(self, need: str | None) -> bool:
        """Whether the need was the least satisfied before the act; None only where the changes of needs may have come
        behind the last revision."""
        before = {least_satisfied(stored_needs(body).before) for _, body in self.needs.values()}
        if need is not None or not before or None in before:
            return need in (before or {None})
        scores = stored_verdict(self.experience[0]).scores
        return not any(score.scorer == "needs" and score.version for score in scores)


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
