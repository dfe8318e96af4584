"""The experience store in a SQLite file: the facts, the verdicts and the place in the stream in one transaction."""

from __future__ import annotations

import heapq
import json
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Final

from conch.errors import ContractError
from conch.experience.assemble import judge, patience
from conch.experience.connection import MEMORY, open_writer, told, transaction
from conch.experience.join_cache import JoinCache, WeightsInForce
from conch.experience.join_case import JoinCase
from conch.experience.opened import stored_event
from conch.experience.prune import AGE, SIZE, PruneResult, RetentionLimits, oldest, prune_agent
from conch.experience.reader import SqliteReader
from conch.experience.store import FACTS
from conch.experience.transaction import JoinTransaction, stamp
from conch.experience.write_batch import among
from conch.folds import is_new, json_of
from conch_schemas import (
    ActionDecided,
    ActionTaken,
    ContractViolationError,
    CycleReflected,
    Event,
    ExperienceRecorded,
    MarkWitnessed,
    NeedsChanged,
    NoveltyMeasured,
    Part,
    RewardAssigned,
    Score,
    ThoughtFormed,
    ThoughtGrounded,
    WeightsSet,
    decode,
    wire_form,
)

AT_ONCE: Final = 500
"""Experiences that one call of `expire` or `unpublished` returns at most."""

PRUNE_SECONDS: Final = 0.02
"""Work of one call of `prune`, about."""

_OF_AN_ACTION: Final = (ActionTaken, ActionDecided, ThoughtFormed, ThoughtGrounded, CycleReflected, RewardAssigned)
_KINDS: Final = frozenset(FACTS)
_LARGEST: Final = 2**63 - 1

_PUT_WEIGHTS: Final = "INSERT INTO weights (agent, seq, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_MOVE_EXPERIENCE: Final = """
    UPDATE experiences SET seq = ?, agent = ?, cycle = ?, outcome = ?, kind = ?, tool = ?, skill = ?, valid = ?,
    acted = ? WHERE act = ?"""
_PUT_META: Final = "INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
_NUMBERS: Final = "SELECT action_id, act FROM actions WHERE action_id IN"
_ACT: Final = "SELECT seq, started, due, body FROM acts WHERE act = ?"
_SCORES: Final = """
    SELECT seq, component, value, low, high, status, explanation, scorer, version FROM scores WHERE act = ?"""
_VERDICT: Final = "SELECT revision, verdict FROM experiences WHERE act = ?"
_IN_FORCE: Final = "SELECT seq, body FROM weights WHERE agent = ? AND seq < ? ORDER BY seq DESC LIMIT 1"
_NEXT_IN_FORCE: Final = "SELECT min(seq) FROM weights WHERE agent = ? AND seq >= ?"
_GOVERNED: Final = """
    SELECT action_id FROM acts WHERE agent = ?1 AND seq > ?2
    AND seq < coalesce((SELECT min(seq) FROM weights WHERE agent = ?1 AND seq > ?2), 9223372036854775807)"""
_REMOVED_UPTO: Final = "SELECT agent, max(last_cycle), coalesce(max(last_mark), -1) FROM removals GROUP BY agent"
_DUE: Final = "SELECT action_id FROM acts WHERE due <= ? ORDER BY due LIMIT ?"


class SqliteStore(SqliteReader):
    """An `ExperienceStore` in a SQLite file (WAL, every commit on disk before it returns).

    It is the only writer. What it has written of late it knows, so that an act and its scores are joined without
    reading them again; after anything went wrong it knows nothing, and reads.
    """

    def __init__(self, path: Path | str, *, timeout: float = 5.0) -> None:
        """Opens the store at `path`, making it if there is none. `timeout`: seconds to wait for a lock.

        Raises StoreError where it is damaged, newer, somebody else's, locked or cannot be written; the file is left as
        it is then.
        """
        self._path = path
        self._db = open_writer(path, timeout)
        self.duplicates = 0
        self._known = JoinCache()
        self._removed: dict[str, tuple[int, int]] = self._removed_upto()
        """Agent -> its last removed cycle and mark."""
        self._agents_to_prune: list[tuple[float, str]] | None = None
        """A heap of (time of its first act, agent); None: not looked for."""
        self._unverified: set[str] = set()

    def set_position(self, seq: int) -> None:
        with self._writing():
            self._set_meta("highest", self._highest())
            self._set_meta("position", seq)

    def set_epoch(self, epoch: str) -> None:
        if self.epoch() == epoch:
            return
        with self._writing():
            if self.epoch() is not None:
                before, highest = self._base(), self._highest()
                ends = json.loads(self._meta("ends") or "null") or ([before] if before else [])
                self._set_meta("ends", json.dumps([*ends, highest]))
                self._set_meta("base", highest)
                self._set_meta("position", 0)
            self._set_meta("epoch", epoch)

    def apply(
        self, events: Sequence[tuple[int, Event]], *, upto: int, now: datetime, published: Sequence[str] = ()
    ) -> tuple[ExperienceRecorded, ...]:
        facts = [fact for fact in events if type(fact[1]) in _KINDS]
        _refuse_unplaceable(facts)
        all_facts, removed = len(facts), self._removed_actions(facts)
        facts = [fact for fact in facts if not self._is_removed(fact[1], removed)]
        last = self._refuse_leaps(facts)
        with self._writing():
            work = JoinTransaction(now)
            self._delete_published(published)
            known = self._put_all(work, facts, removed)
            clock = min(stamp(now), max((stamp(event.time) for _, event in facts), default=0.0))
            recorded = self._settle(work, self._due(clock), clock)
            known += self._write(work)
            self._set_meta("position", max(self.position(), upto))
            self._count_late(all_facts - len(facts))
        self._known.remember(work, last)
        self.duplicates += known
        return recorded

    def catch_up(self, events: Sequence[tuple[int, Event]], *, upto: int, now: datetime) -> None:
        facts = [fact for fact in events if type(fact[1]) in _KINDS]
        _refuse_unplaceable(facts)
        all_facts, removed = len(facts), self._removed_actions(events)
        facts = [fact for fact in facts if not self._is_removed(fact[1], removed)]
        said = [
            event for _, event in events if isinstance(event, ExperienceRecorded) and event.action_id not in removed
        ]
        last = self._refuse_leaps(facts)
        with self._writing():
            work = JoinTransaction(now)
            known = self._put_all(work, facts, removed, said)
            for experience in said:
                if experience.action_id is not None:
                    work.adopt(work.cases[experience.action_id], experience)
            for case in work.touched:
                if case.act is not None:
                    work.wait(case, case.started)  # `expire` closes it, or lets it wait for its scores
            known += self._write(work)
            self._set_meta("position", max(self.position(), upto))
            self._count_late(all_facts - len(facts))
        self._known.remember(work, last)
        self.duplicates += known

    def expire(self, now: datetime) -> tuple[ExperienceRecorded, ...]:
        clock = stamp(now)
        if not self._due(clock):
            return ()
        with self._writing():
            work = JoinTransaction(now)
            recorded = self._settle(work, self._due(clock), clock)
            self._write(work)
        self._known.remember(work, {})
        return recorded

    def prune(self, keep: RetentionLimits, now: datetime) -> PruneResult:
        pruned = PruneResult()
        if self._agents_to_prune is None:
            self._agents_to_prune = self._oldest_agents()
        if self._next_to_prune(keep, now) is None:
            self._agents_to_prune = None
            return pruned
        with self._writing(), self._intact():
            ends = time.perf_counter() + PRUNE_SECONDS
            while (due := self._next_to_prune(keep, now)) is not None:
                if pruned.acts and time.perf_counter() >= ends:
                    break
                agent, before, why = due
                with_marks = agent not in self._unverified
                removed = prune_agent(self._db, agent, before, why, now, pruned, with_marks=with_marks)
                first = oldest(self._db, agent) if removed else None
                if first is None:
                    heapq.heappop(self._agents_to_prune)
                else:
                    heapq.heapreplace(self._agents_to_prune, (first, agent))
        self._unverified |= pruned.unverified
        self._known.drop(pruned.actions)
        self._removed = self._removed_upto()
        return pruned

    def _removed_upto(self) -> dict[str, tuple[int, int]]:
        return {agent: (cycle, mark) for agent, cycle, mark in self._rows(_REMOVED_UPTO)}

    def _oldest_agents(self) -> list[tuple[float, str]]:
        found = [(first, agent) for agent in self.agents() if (first := oldest(self._db, agent)) is not None]
        heapq.heapify(found)
        return found

    def _next_to_prune(self, keep: RetentionLimits, now: datetime) -> tuple[str, float, str] | None:
        """(agent, time before which its acts may go, why); None: nothing is beyond what is kept."""
        if not self._agents_to_prune:
            return None
        first, agent = self._agents_to_prune[0]
        young = stamp(now) - keep.grace
        old = float("-inf") if keep.seconds is None else min(young, stamp(now) - keep.seconds)
        if first < old:
            return agent, old, AGE
        if keep.bytes is not None and first < young and self.bytes_used() > keep.bytes:
            return agent, young, SIZE
        return None

    def next_deadline(self) -> datetime | None:
        due = self._row("SELECT min(due) FROM acts WHERE due IS NOT NULL")[0]
        return None if due is None else datetime.fromtimestamp(due, UTC)

    def unpublished(self) -> tuple[ExperienceRecorded, ...]:
        with self._intact():
            rows = self._rows("SELECT body FROM outbox ORDER BY place LIMIT ?", AT_ONCE)
            events = [decode(body) for (body,) in rows]
        return tuple(event for event in events if isinstance(event, ExperienceRecorded))

    def mark_published(self, ids: Sequence[str]) -> None:
        if ids:
            with self._writing():
                self._delete_published(ids)

    def _delete_published(self, ids: Sequence[str]) -> None:
        for _ in among(self._db, "DELETE FROM outbox WHERE id IN", ids):
            pass

    def _removed_actions(self, facts: Iterable[tuple[int, Event]]) -> set[str]:
        """Which of these facts' actions were removed: by their cycle, and because nothing is known of them."""
        if not self._removed:
            return set()
        asked = {
            action
            for _, event in facts
            if event.cycle is not None and event.cycle <= self._removed.get(event.agent, (-1, -1))[0]
            if (action := event.mark.action_id if isinstance(event, MarkWitnessed) else event.action_id) is not None
        }
        with told(self._path):
            return asked - {action for action, _ in among(self._db, _NUMBERS, asked)}

    def _count_late(self, facts: int) -> None:
        if facts:
            self._set_meta("came_late", self.came_late() + facts)

    def _is_removed(self, event: Event, actions: set[str]) -> bool:
        """Whether the fact is about what was removed. A later mark about a removed act is not: the chain needs it."""
        if isinstance(event, MarkWitnessed):
            return event.mark.sequence <= self._removed.get(event.agent, (-1, -1))[1]
        return event.action_id in actions

    def _refuse_leaps(self, facts: Iterable[tuple[int, Event]]) -> dict[str, int | None]:
        """The last cycle of each agent that acts in these facts.

        Raises ContractError for an act from far beyond its agent's last one: the agent would go on behind it.
        """
        last: dict[str, int | None] = {}
        for seq, act in facts:
            if not isinstance(act, ActionTaken) or act.cycle is None:
                continue
            before = last[act.agent] if act.agent in last else self._last_of(act.agent)
            try:
                is_new((before, 0) if before is not None else None, act)
            except ContractViolationError as error:
                raise ContractError(str(error), seq=seq) from None
            last[act.agent] = max(before or 0, act.cycle)
        return last

    def _last_of(self, agent: str) -> int | None:
        return self._known.last[agent] if agent in self._known.last else self.last_cycle(agent)

    def _number(self, work: JoinTransaction, actions: Iterable[str | None]) -> None:
        """Have the numbers of these actions at hand: from memory, from their rows, or new ones."""
        unknown = []
        for action in dict.fromkeys(actions):
            if action is not None and action not in work.numbers:
                number = self._known.numbers.get(action)
                if number is None:
                    unknown.append(action)
                else:
                    work.numbers[action] = number
        work.numbers |= dict(among(self._db, _NUMBERS, unknown))
        for action in unknown:
            if action not in work.numbers:
                self._begin(work, action)

    def _begin(self, work: JoinTransaction, action: str) -> None:
        if self._known.numbered is None:
            self._known.numbered = int(self._meta("numbered") or 0)
        number = self._known.numbered = self._known.numbered + 1
        work.numbers[action] = number
        work.begun.add(action)
        work.puts.actions.append((action, number))

    def _take_up(self, work: JoinTransaction, actions: Iterable[str | None]) -> None:
        """Have the cases of these actions at hand: from memory, from their rows, or new ones."""
        missing = []
        for action in dict.fromkeys(actions):
            if action is not None and action not in work.cases:
                case = self._known.case(action)
                if case is None:
                    missing.append(action)
                else:
                    work.cases[action] = case
        self._number(work, missing)
        for action in missing:
            case = JoinCase(work.numbers[action], action)
            work.cases[action] = case if action in work.begun else self._read(case)

    def _read(self, case: JoinCase) -> JoinCase:
        """The case with all that its rows say."""
        row = self._row(_ACT, case.number)
        if row is not None:
            case.seq, case.started, case.due, body = row
            case.act = stored_event(ActionTaken, body)
            case.size += len(body)
        for seq, *fields in self._rows(_SCORES, case.number):
            score = _score(fields)
            case.scores[score.scorer, score.version, score.component] = (seq, score)
        case.revision, case.verdict = self._row(_VERDICT, case.number) or (0, None)
        return self._fill_context(case)

    def _put_all(
        self,
        work: JoinTransaction,
        facts: Sequence[tuple[int, Event]],
        removed: Container[str],
        said: Sequence[ExperienceRecorded] = (),
    ) -> int:
        """Put these facts into their cases, having those of `said` at hand too; how many are known for certain.

        Actions in `removed` get no case, though a later mark may be about one.
        """
        base = self._base()
        marked = [event.mark.action_id for _, event in facts if type(event) is MarkWitnessed]
        self._number(work, [action for action in marked if action not in removed])
        self._take_up(work, [event.action_id for _, event in facts if type(event) is not MarkWitnessed])
        self._take_up(work, [event.action_id for event in said])
        return sum(not self._put(work, base + seq, event) for seq, event in facts)

    def _put(self, work: JoinTransaction, seq: int, event: Event) -> bool:
        """Put one fact into its case and among what is to be written: whether anything of it is new.

        Of a mark, and of a change of needs that belongs to no action, only writing it tells; true until then.
        """
        match event:
            case MarkWitnessed():
                return work.mark(seq, event)
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
                return work.scores(case, seq, () if event.score is None else (event.score,)) or new
            case ActionTaken():
                return work.act(case, seq, event)
            case _:
                return work.context(case, seq, event)

    def _put_weights(self, work: JoinTransaction, seq: int, weights: WeightsSet) -> bool:
        if self._db.execute(_PUT_WEIGHTS, (weights.agent, seq, wire_form(weights))).rowcount <= 0:
            return False
        self._known.force.pop(weights.agent, None)
        governed = [row[0] for row in self._rows(_GOVERNED, weights.agent, seq)]
        self._take_up(work, governed)
        work.touched |= dict.fromkeys(work.cases[action] for action in governed)
        return True

    def _settle(self, work: JoinTransaction, due: Sequence[str], clock: float) -> tuple[ExperienceRecorded, ...]:
        """Record each act that has nothing to wait for any more, and each verdict that changed; into the outbox too."""
        self._take_up(work, due)
        work.touched |= dict.fromkeys(work.cases[action] for action in due)
        cases = sorted((case for case in work.touched if case.act is not None), key=attrgetter("seq"))
        return tuple(experience for case in cases if (experience := self._close(work, case, clock)))

    def _close(self, work: JoinTransaction, case: JoinCase, clock: float) -> ExperienceRecorded | None:
        assert case.act is not None
        force = self._in_force(case, case.act.agent)
        scores = [score for _, score in sorted(case.scores.values(), key=itemgetter(0))]
        wait = patience(force.parts, scores)
        if not case.revision and wait is not None and case.started + wait > clock:
            work.wait(case, case.started + wait)
            return None
        work.wait(case, None)
        if case.verdict is not None and not force.version and json.loads(case.verdict)["weights"]:
            return None  # judged by a weight set that the stream no longer has: nothing here can judge better
        verdict = judge(force.version, force.parts, scores)
        body = json_of(verdict)
        return None if body == case.verdict else work.record(case, case.act, verdict, body)

    def _in_force(self, case: JoinCase, agent: str) -> WeightsInForce:
        """The weight set that governs the case's act, which is `agent`'s."""
        force = self._known.force.get(agent)
        if force is None or not force.after < case.seq <= force.upto:
            row = self._row(_IN_FORCE, agent, case.seq)
            upto = self._row(_NEXT_IN_FORCE, agent, case.seq)[0] or _LARGEST
            force = WeightsInForce(-1, upto, "", ()) if row is None else WeightsInForce(row[0], upto, *_weights(row[1]))
            self._known.force[agent] = force
        return force

    def _write(self, work: JoinTransaction) -> int:
        """Everything that is to be written; how many of the facts turned out to be known."""
        work.place_acts()
        known = work.puts.write(self._db)
        self._db.executemany(_MOVE_EXPERIENCE, work.moved())
        others = [(case.due, case.number) for case in work.waiting if case not in work.placed]
        self._db.executemany("UPDATE acts SET due = ? WHERE act = ?", others)
        if work.puts.actions:
            self._set_meta("numbered", work.puts.actions[-1][1])
        return known

    def _due(self, clock: float) -> list[str]:
        return [row[0] for row in self._rows(_DUE, clock, AT_ONCE)]

    def _base(self) -> int:
        return int(self._meta("base") or 0)

    def _highest(self) -> int:
        """The highest place that any fact can have had so far."""
        return max(self._base() + self.position(), int(self._meta("highest") or 0))

    def _set_meta(self, name: str, value: int | str) -> None:
        self._db.execute(_PUT_META, (name, value))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with told(self._path), transaction(self._db), self._intact():
                yield
        except BaseException:
            self._known.forget()
            raise


class MemoryStore(SqliteStore):
    """An `ExperienceStore` that is gone when it is closed: the same tables in SQLite's memory, for tests, notebooks.

    It cannot be read from another connection.
    """

    def __init__(self) -> None:
        super().__init__(MEMORY)


def _refuse_unplaceable(facts: Iterable[tuple[int, Event]]) -> None:
    """Raises ContractError for a fact that no row can hold."""
    for seq, event in facts:
        number = event.mark.sequence if isinstance(event, MarkWitnessed) else 0
        if event.action_id is None and isinstance(event, _OF_AN_ACTION):
            raise ContractError(f"{event.TYPE} {event.id} belongs to no action: it has no action id.", seq=seq)
        if event.cycle is None:
            if isinstance(event, ActionTaken):
                raise ContractError(f"{event.TYPE} {event.id} belongs to no cycle.", seq=seq)
        elif event.cycle > _LARGEST:
            number = event.cycle
        if number > _LARGEST:
            raise ContractError(f"{event.TYPE} {event.id} has a number beyond 64 bits.", seq=seq)


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


@lru_cache(maxsize=16)
def _weights(body: bytes) -> tuple[str, tuple[Part, ...]]:
    """(version, parts) of a stored weight set; parsed once, as it governs many acts."""
    event = decode(body)
    return (event.version, event.parts) if isinstance(event, WeightsSet) else ("", ())
