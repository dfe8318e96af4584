"""The join of the writer: facts into their cases, cases into experiences, all into rows."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any, Final

from conch.experience.assemble import judge, patience
from conch.experience.join_cache import JoinCache, WeightsInForce
from conch.experience.join_case import JoinCase
from conch.experience.opened import LARGEST, OpenStore, stored_event
from conch.experience.queries.cycles import fill_context
from conch.experience.queries.owned import OwnedPartitions
from conch.experience.transaction import JoinTransaction
from conch.experience.write_batch import numbers_of
from conch.folds import json_of
from conch.rewards import parts_of_act
from conch_schemas import (
    ActionTaken,
    AnswerRated,
    Event,
    ExperienceRecorded,
    MarkWitnessed,
    NeedsChanged,
    NoveltyMeasured,
    Part,
    ReviewDecided,
    RewardAssigned,
    Score,
    WeightsSet,
    decode,
    wire_form,
)

_PUT_WEIGHTS: Final = "INSERT INTO weights (agent, seq, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_MOVE_EXPERIENCE: Final = """
    UPDATE experiences SET seq = ?, agent = ?, cycle = ?, outcome = ?, kind = ?, tool = ?, skill = ?, valid = ?,
    acted = ?, changed = ? WHERE act = ?"""
_ACT: Final = "SELECT seq, started, due, unpacked(body) FROM acts WHERE act = ?"
_SCORES: Final = """
    SELECT seq, component, value, low, high, status, explanation, scorer, version FROM scores WHERE act = ?"""
_VERDICT: Final = "SELECT revision, unpacked(verdict) FROM experiences WHERE act = ?"
_IN_FORCE: Final = "SELECT seq, body FROM weights WHERE agent = ? AND seq < ? ORDER BY seq DESC LIMIT 1"
_NEXT_IN_FORCE: Final = "SELECT min(seq) FROM weights WHERE agent = ? AND seq >= ?"
_GOVERNED: Final = """
    SELECT action_id FROM acts WHERE agent = ? AND seq > ?
    AND seq < coalesce((SELECT min(seq) FROM weights WHERE agent = ? AND seq > ?), 9223372036854775807)"""
_DUE: Final = "SELECT action_id FROM acts WHERE due <= ?{owned} ORDER BY due LIMIT ?"


_CASELESS: Final = (MarkWitnessed, ReviewDecided)
"""Facts about acts that are no part of their experiences."""


class Join:
    """Works within the transaction of its caller, on one connection.

    What was written of late is in `known`, so that an act and its scores are joined without reading them again. A
    caller whose transaction fails calls `known.forget`, and rows are read again.
    """

    def __init__(self, file: OpenStore, owned: OwnedPartitions) -> None:
        self._file, self._db, self._owned = file, file.db, owned
        self.known = JoinCache()

    def put_all(
        self,
        work: JoinTransaction,
        facts: Sequence[tuple[int, Event]],
        removed: Container[str],
        said: Sequence[ExperienceRecorded] = (),
    ) -> int:
        """Put these facts into their cases, having those of `said` at hand too; how many are known for certain.

        Actions in `removed` get no case, though a later mark may be about one.
        """
        base = self._file.base()
        marked = [event.mark.action_id for _, event in facts if type(event) is MarkWitnessed]
        self._number(work, [action for action in marked if action not in removed])
        self._take_up(work, [event.action_id for _, event in facts if type(event) not in _CASELESS])
        self._take_up(work, [event.action_id for event in said])
        return sum(not self._put(work, base + seq, event) for seq, event in facts)

    def settle(self, work: JoinTransaction, due: Sequence[str], clock: float) -> tuple[ExperienceRecorded, ...]:
        """Record each act that has nothing to wait for any more, and each verdict that changed; into the outbox too."""
        self._take_up(work, due)
        work.touched |= dict.fromkeys(work.cases[action] for action in due)
        cases = sorted((case for case in work.touched if case.act is not None), key=attrgetter("seq"))
        return tuple(experience for case in cases if (experience := self._close(work, case, clock)))

    def write(self, work: JoinTransaction) -> int:
        """Everything that is to be written; how many of the facts turned out to be known."""
        work.place_acts()
        known = work.puts.write(self._db)
        moved = work.moved()
        self._db.executemany(_MOVE_EXPERIENCE, moved)
        if moved or work.puts.experiences:
            self.known.changes = work.change
            self._file.set_meta("changes", work.change)
        others = [(case.due, case.number) for case in work.waiting if case not in work.placed]
        self._db.executemany("UPDATE acts SET due = ? WHERE act = ?", others)
        if work.puts.actions:
            self._file.set_meta("numbered", work.puts.actions[-1][1])
        return known

    def next_change(self) -> int:
        """The number of the next change of experiences."""
        if self.known.changes is None:
            self.known.changes = self._file.changes()
        return self.known.changes + 1

    def due(self, clock: float, most: int) -> list[str]:
        """Ids of the first `most` actions of owned agents that wait until `clock` (seconds since the epoch) or less."""
        return [row[0] for row in self._file.rows(_DUE.format(owned=self._owned.condition), clock, most)]

    def _number(self, work: JoinTransaction, actions: Iterable[str | None]) -> None:
        """Have the numbers of these actions at hand: from memory, from their rows, or new ones."""
        unknown = []
        for action in dict.fromkeys(actions):
            if action is not None and action not in work.numbers:
                number = self.known.numbers.get(action)
                if number is None:
                    unknown.append(action)
                else:
                    work.numbers[action] = number
        work.numbers |= dict(numbers_of(self._db, unknown))
        for action in unknown:
            if action not in work.numbers:
                self._begin(work, action)

    def _begin(self, work: JoinTransaction, action: str) -> None:
        if self.known.numbered is None:
            self.known.numbered = self._file.number("numbered")
        number = self.known.numbered = self.known.numbered + 1
        work.numbers[action] = number
        work.begun.add(action)
        work.puts.actions.append((action, number))

    def _take_up(self, work: JoinTransaction, actions: Iterable[str | None]) -> None:
        """Have the cases of these actions at hand: from memory, from their rows, or new ones."""
        missing = []
        for action in dict.fromkeys(actions):
            if action is not None and action not in work.cases:
                case = self.known.case(action)
                if case is None:
                    missing.append(action)
                else:
                    work.cases[action] = case
        self._number(work, missing)
        for action in missing:
            case = JoinCase(work.numbers[action], action)
            work.cases[action] = case if action in work.begun else self._read(case)

    def judged_again(self, number: int, action: str) -> bytes | None:
        """The JSON of the verdict that the rows of an act come to, today or in a version that waited for every part;
        None: there is no act, or its weight set is not stored."""
        case = self._read(JoinCase(number, action))
        if case.act is None or not (force := self._in_force(case, case.act.agent)).version:
            return None
        parts, others = force.of(case.act)
        scores = _in_order(case)
        again = json_of(judge(force.version, parts, scores, others))
        if again == case.verdict:
            return again
        earlier = json_of(judge(force.version, parts, scores, others, waits_for_all=True))
        return earlier if earlier == case.verdict else again

    def _read(self, case: JoinCase) -> JoinCase:
        """The case with all that its rows say."""
        row = self._file.row(_ACT, case.number)
        if row is not None:
            case.seq, case.started, case.due, body = row
            case.act = stored_event(ActionTaken, body)
            case.size += len(body)
        for seq, *fields in self._file.rows(_SCORES, case.number):
            score = _score(fields)
            case.scores[score.scorer, score.version, score.component] = (seq, score)
        case.revision, case.verdict = self._file.row(_VERDICT, case.number) or (0, None)
        return fill_context(self._file, case)

    def _put(self, work: JoinTransaction, seq: int, event: Event) -> bool:
        """Put one fact into its case and among what is to be written: whether anything of it is new.

        Of a mark, a review, and a change of needs that belongs to no action, only writing it tells; true until then.
        """
        match event:
            case MarkWitnessed():
                return work.mark(seq, event)
            case ReviewDecided():
                return work.review(seq, event)
            case WeightsSet():
                return self._put_weights(work, seq, event)
        if event.action_id is None:
            return work.outside(seq, event)
        case = work.cases[event.action_id]
        match event:
            case RewardAssigned():
                return work.scores(case, seq, event.scores)
            case NoveltyMeasured():
                return work.scores(case, seq, (event.score, *event.beside))
            case NeedsChanged():
                new = work.needs(case, seq, event)
                own = () if event.score is None else (event.score,)
                return work.scores(case, seq, (*own, *event.beside)) or new
            case ActionTaken():
                return work.act(case, seq, event)
            case AnswerRated():
                return work.correction(case, seq, event)
            case _:
                return work.context(case, seq, event)

    def _put_weights(self, work: JoinTransaction, seq: int, weights: WeightsSet) -> bool:
        if self._db.execute(_PUT_WEIGHTS, (weights.agent, seq, wire_form(weights))).rowcount <= 0:
            return False
        self.known.force.pop(weights.agent, None)
        governed = [row[0] for row in self._file.rows(_GOVERNED, weights.agent, seq, weights.agent, seq)]
        self._take_up(work, governed)
        work.touched |= dict.fromkeys(work.cases[action] for action in governed)
        return True

    def _close(self, work: JoinTransaction, case: JoinCase, clock: float) -> ExperienceRecorded | None:
        assert case.act is not None
        force = self._in_force(case, case.act.agent)
        scores = _in_order(case)
        parts, others = force.of(case.act)
        wait = patience(parts, scores)
        if not case.revision and wait is not None and case.started + wait > clock:
            work.wait(case, case.started + wait)
            return None
        work.wait(case, None)
        if case.verdict is not None and not force.version and json.loads(case.verdict)["weights"]:
            return None  # judged by a weight set that the stream no longer has: nothing here can judge better
        verdict = judge(force.version, parts, scores, others)
        body = json_of(verdict)
        return None if body == case.verdict else work.record(case, case.act, verdict, body)

    def _in_force(self, case: JoinCase, agent: str) -> WeightsInForce:
        """The weight set that governs the case's act, which is `agent`'s."""
        force = self.known.force.get(agent)
        if force is None or not force.after < case.seq <= force.upto:
            row = self._file.row(_IN_FORCE, agent, case.seq)
            upto = self._file.row(_NEXT_IN_FORCE, agent, case.seq)[0] or LARGEST
            force = _in_force(-1, upto, None) if row is None else _in_force(row[0], upto, row[1])
            self.known.force[agent] = force
        return force


def _in_order(case: JoinCase) -> list[Score]:
    """The scores of a case in the order of the stream."""
    return [score for _, score in sorted(case.scores.values(), key=itemgetter(0))]


def _score(row: Sequence[Any]) -> Score:
    component, value, low, high, status, explanation, scorer, version = row
    return Score(
        component=component,
        value=value,
        range=(low, high),
        status=status,
        explanation=explanation,
        scorer=scorer,
        version=version,
    )


def _in_force(after: int, upto: int, body: bytes | None) -> WeightsInForce:
    return WeightsInForce(after, upto, *(_weights(body) if body is not None else ("", (), (), ())))


@lru_cache(maxsize=16)
def _weights(body: bytes) -> tuple[str, tuple[Part, ...], tuple[Part, ...], tuple[Part, ...]]:
    """A stored weight set, as `WeightsInForce` has it: (version, parts, task_parts, others); parsed once, as it governs
    many acts."""
    event = decode(body)
    if not isinstance(event, WeightsSet):
        return "", (), (), ()
    others = tuple(part for part in event.parts if part.task_weight is not None)
    return event.version, parts_of_act(event.parts, task=False), parts_of_act(event.parts, task=True), others
