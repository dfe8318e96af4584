"""The experience store over SQL: the facts, the verdicts and the place in the stream in one transaction."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, Self

from conch.errors import ContractError
from conch.experience.join import Join
from conch.experience.models import PruneResult, RetentionLimits
from conch.experience.opened import LARGEST, OpenStore
from conch.experience.prune import Pruner
from conch.experience.queries.backfill import SqlBackfill
from conch.experience.queries.chain import SqlChain
from conch.experience.queries.charts import SqlCharts
from conch.experience.queries.cycles import SqlCycles, agents_that_acted
from conch.experience.queries.examples import SqlExamples
from conch.experience.queries.forget import forget_rows
from conch.experience.queries.forks import SqlForks, put_forks
from conch.experience.queries.owned import OwnedPartitions
from conch.experience.queries.retention import SqlRetention
from conch.experience.queries.reviews import SqlReviews
from conch.experience.queries.sampling import SqlSampling
from conch.experience.queries.training import SqlTraining, put_training
from conch.experience.store import FACTS
from conch.experience.transaction import JoinTransaction, stamp
from conch.folds import is_new
from conch_schemas import (
    OF_TRAINING,
    ActionDecided,
    ActionTaken,
    ContractViolationError,
    CycleReflected,
    Event,
    ExperienceRecorded,
    ForkScored,
    MarkWitnessed,
    PersonForgotten,
    RewardAssigned,
    ThoughtFormed,
    ThoughtGrounded,
    decode,
)

AT_ONCE: Final = 500
"""Experiences that one call of `expire` or `unpublished` returns at most."""

_OF_AN_ACTION: Final = frozenset(
    (ActionTaken, ActionDecided, ThoughtFormed, ThoughtGrounded, CycleReflected, RewardAssigned, ForkScored)
)
_TRAINING: Final = frozenset(OF_TRAINING)
_FIRST_DUE: Final = "SELECT min(due) FROM acts WHERE due IS NOT NULL{owned}"
_WAITING: Final = "SELECT count(*) FROM acts WHERE due IS NOT NULL{owned}"
_OUTBOX: Final = "SELECT place, body FROM outbox WHERE place > ? ORDER BY place LIMIT ?"
_KINDS: Final = frozenset(FACTS) - {PersonForgotten}


class SqlReader:
    """An `ExperienceReader` over an open store; closed by leaving the context or by `close`."""

    def __init__(self, file: OpenStore) -> None:
        """Raises StoreError, with the store closed, where an import into it is not complete."""
        try:
            file.refuse_half()
        except BaseException:
            file.close()
            raise
        self._file = file
        self.cycles = SqlCycles(file)
        self.charts = SqlCharts(file)
        self.chain = SqlChain(file)
        self.retention = SqlRetention(file)
        self.backfill = SqlBackfill(file)
        self.sampling = SqlSampling(file, self.cycles)
        self.examples = SqlExamples(file)
        self.forks = SqlForks(file)
        self.reviews = SqlReviews(file)
        self.training = SqlTraining(file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def position(self) -> int:
        return self._file.position()

    def epoch(self) -> str | None:
        return self._file.epoch()

    def agents(self) -> tuple[str, ...]:
        return agents_that_acted(self._file)


class SqlStore(SqlReader):
    """An `ExperienceStore` over an open store that it may write to; every commit is on disk before it returns.

    It is the only writer, or, where it `shares`, the only one of the agents that it owns. What it has written of late
    it knows, so that an act and its scores are joined without reading them again; after anything went wrong it knows
    nothing, and reads.
    """

    def __init__(self, file: OpenStore, *, shares: bool = False) -> None:
        super().__init__(file)
        self.duplicates = 0
        self._owned = OwnedPartitions(shares=shares)
        self._join = Join(file, self._owned)
        self._pruner = Pruner(file, self._owned)

    def own(self, partitions: Collection[int]) -> frozenset[int]:
        return self._owned.numbers

    def is_free(self, partitions: Collection[int]) -> bool:
        return True

    def has(self, agent: str) -> bool:
        return self._owned.has(agent)

    def lacks(self, agent: str, seq: int) -> bool:
        return self._owned.lacks(agent, seq)

    def applied(self) -> int:
        if not self._owned.shares:
            return self.position()
        positions = self._file.positions()
        return min((positions[number] for number in self._owned.numbers), default=max(positions))

    def set_position(self, seq: int) -> None:
        with self._writing():
            self._file.set_meta("highest", self._highest())
            self._file.set_back(seq)

    def set_epoch(self, epoch: str) -> None:
        if self.epoch() == epoch:
            return
        with self._writing():
            if self.epoch() == epoch:
                return  # another writer has said so meanwhile
            if self.epoch() is not None:
                before, highest = self._file.base(), self._highest()
                ends = json.loads(self._file.meta("ends") or "null") or ([before] if before else [])
                self._file.set_meta("ends", json.dumps([*ends, highest]))
                self._file.set_meta("base", highest)
                self._file.set_back(0)
            self._file.set_meta("epoch", epoch)

    def apply(
        self, events: Sequence[tuple[int, Event]], *, upto: int, now: datetime, published: Sequence[str] = ()
    ) -> tuple[ExperienceRecorded, ...]:
        recorded: tuple[ExperienceRecorded, ...] = ()
        for part, end in _up_to_records(events, upto):
            recorded += self._apply(part, upto=end, now=now, published=published)
        return recorded

    def _apply(
        self, events: Sequence[tuple[int, Event]], *, upto: int, now: datetime, published: Sequence[str]
    ) -> tuple[ExperienceRecorded, ...]:
        facts = [fact for fact in events if type(fact[1]) in _KINDS]
        _refuse_unplaceable(facts)
        all_facts, removed = len(facts), self._pruner.removed_actions(facts)
        facts = self._pruner.kept(facts, removed)
        late = all_facts - len(facts)
        facts, forks, training = _apart(facts)
        last = self._refuse_leaps(facts)
        with self._writing():
            work = JoinTransaction(now, self._join.next_change())
            self._delete_published(published)
            known = put_forks(self._file, forks) + put_training(self._file, training)
            known += self._join.put_all(work, facts, removed)
            clock = min(stamp(now), max((stamp(event.time) for _, event in facts), default=0.0))
            recorded = self._join.settle(work, self._join.due(clock, AT_ONCE), clock)
            known += self._join.write(work)
            self._move_on(upto, late=late)
            forgotten = self._forget(events)
        self._join.known.remember(work, last)
        self._join.known.drop(forgotten)
        self.duplicates += known
        return recorded

    def catch_up(self, events: Sequence[tuple[int, Event]], *, upto: int, now: datetime) -> None:
        for part, end in _up_to_records(events, upto):
            self._catch_up(part, upto=end, now=now)

    def _catch_up(self, events: Sequence[tuple[int, Event]], *, upto: int, now: datetime) -> None:
        facts = [fact for fact in events if type(fact[1]) in _KINDS]
        _refuse_unplaceable(facts)
        all_facts, removed = len(facts), self._pruner.removed_actions(events)
        facts = self._pruner.kept(facts, removed)
        said = [
            event for _, event in events if isinstance(event, ExperienceRecorded) and event.action_id not in removed
        ]
        late = all_facts - len(facts)
        facts, forks, training = _apart(facts)
        last = self._refuse_leaps(facts)
        with self._writing():
            work = JoinTransaction(now, self._join.next_change())
            known = put_forks(self._file, forks) + put_training(self._file, training)
            known += self._join.put_all(work, facts, removed, said)
            for experience in said:
                if experience.action_id is not None:
                    work.adopt(work.cases[experience.action_id], experience)
            for case in work.touched:
                if case.act is not None:
                    work.wait(case, case.started)  # `expire` closes it, or lets it wait for its scores
            known += self._join.write(work)
            self._move_on(upto, late=late)
            forgotten = self._forget(events)
        self._join.known.remember(work, last)
        self._join.known.drop(forgotten)
        self.duplicates += known

    def expire(self, now: datetime) -> tuple[ExperienceRecorded, ...]:
        clock = stamp(now)
        if not self._join.due(clock, AT_ONCE):
            return ()
        with self._writing():
            work = JoinTransaction(now, self._join.next_change())
            recorded = self._join.settle(work, self._join.due(clock, AT_ONCE), clock)
            self._join.write(work)
        self._join.known.remember(work, {})
        return recorded

    def prune(self, keep: RetentionLimits, now: datetime) -> PruneResult:
        if not self._pruner.is_due(keep, now):
            return PruneResult()
        with self._writing():
            pruned = self._pruner.remove(keep, now)
            if pruned.acts:
                self._join.known.changes = self._join.next_change()
                self._file.set_meta("changes", self._join.known.changes)
        self._join.known.drop(pruned.actions)
        self._pruner.committed(pruned)
        return pruned

    def next_deadline(self) -> datetime | None:
        due = self._file.row(_FIRST_DUE.format(owned=self._owned.condition))[0]
        return None if due is None else datetime.fromtimestamp(due, UTC)

    def waiting(self) -> int:
        return int(self._file.row(_WAITING.format(owned=self._owned.condition))[0])

    def unpublished(self) -> tuple[ExperienceRecorded, ...]:
        found: list[ExperienceRecorded] = []
        place = -1
        while len(found) < AT_ONCE and (rows := self._file.rows(_OUTBOX, place, AT_ONCE)):
            with self._file.intact():
                events = [decode(body) for _, body in rows]
            found += (one for one in events if isinstance(one, ExperienceRecorded) and self.has(one.agent))
            place = rows[-1][0]
        return tuple(found[:AT_ONCE])

    def mark_published(self, ids: Sequence[str]) -> None:
        if ids:
            with self._writing():
                self._delete_published(ids)

    def _delete_published(self, ids: Sequence[str]) -> None:
        for _ in self._file.db.among("DELETE FROM outbox WHERE id IN", ids):
            pass

    def _move_on(self, upto: int, *, late: int) -> None:
        """The stream is applied up to there; `late`: facts that came for acts that had been removed."""
        if self._owned.shares:
            owned, positions = self._owned.numbers, self._file.positions()
            self._file.set_positions([max(seq, upto) if at in owned else seq for at, seq in enumerate(positions)])
        else:
            self._file.set_meta("position", max(self.position(), upto))
        if late:
            self._file.set_meta("came_late", self.retention.came_late() + late)

    def _forget(self, events: Iterable[tuple[int, Event]]) -> list[str]:
        """Remove what records of people's requests among the events name; the actions' ids."""
        records = [(seq, event) for seq, event in events if type(event) is PersonForgotten]
        for seq, record in records:
            forget_rows(self._file.db, record, self._file.base() + seq)
        return [action for _, record in records for action in record.actions]

    def _refuse_leaps(self, facts: Iterable[tuple[int, Event]]) -> dict[str, int | None]:
        """The last cycle of each agent that acts in these facts.

        Raises ContractError for an act from far beyond its agent's last one: the agent would go on behind it.
        """
        last: dict[str, int | None] = {}
        for seq, act in facts:
            if type(act) is not ActionTaken or act.cycle is None:
                continue
            before = last[act.agent] if act.agent in last else self._last_of(act.agent)
            try:
                is_new((before, 0) if before is not None else None, act)
            except ContractViolationError as error:
                raise ContractError(str(error), seq=seq) from None
            last[act.agent] = max(before or 0, act.cycle)
        return last

    def _last_of(self, agent: str) -> int | None:
        known = self._join.known.last
        return known[agent] if agent in known else self.cycles.last_cycle(agent)

    def _highest(self) -> int:
        """The highest place that any fact can have had so far."""
        return max(self._file.base() + self.position(), self._file.number("highest"))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with self._file.writing():
                if self._owned.shares:
                    self._join.known.forget_numbers()
                yield
        except BaseException:
            self._join.known.forget()
            raise


def _up_to_records(events: Sequence[tuple[int, Event]], upto: int) -> Iterator[tuple[Sequence[tuple[int, Event]], int]]:
    """The events in parts, each with the place that it moves the store on to. A part ends with a record of what was
    removed: it removes what stands before it, and nothing that comes behind it, whatever came at once."""
    start = 0
    for end, (seq, event) in enumerate(events[:-1], start=1):
        if type(event) is PersonForgotten:
            yield events[start:end], seq
            start = end
    yield events[start:], upto


def _apart(
    facts: Iterable[tuple[int, Event]],
) -> tuple[list[tuple[int, Event]], list[tuple[int, ForkScored]], list[tuple[int, Event]]]:
    """The facts that are joined, the candidates of forks, and the events of training."""
    joined: list[tuple[int, Event]] = []
    forks: list[tuple[int, ForkScored]] = []
    training: list[tuple[int, Event]] = []
    for fact in facts:
        kind = type(fact[1])
        if kind is ForkScored:
            forks.append(fact)  # type: ignore[arg-type] # it is one
        else:
            (training if kind in _TRAINING else joined).append(fact)
    return joined, forks, training


def _refuse_unplaceable(facts: Iterable[tuple[int, Event]]) -> None:
    """Raises ContractError for a fact that no row can hold."""
    for seq, event in facts:
        number, kind = 0, type(event)
        if event.action_id is None and kind in _OF_AN_ACTION:
            raise ContractError(f"{event.TYPE} {event.id} belongs to no action: it has no action id.", seq=seq)
        if event.cycle is None:
            if kind is ActionTaken or kind is ForkScored:
                raise ContractError(f"{event.TYPE} {event.id} belongs to no cycle.", seq=seq)
        elif event.cycle > LARGEST:
            number = event.cycle
        if isinstance(event, MarkWitnessed):
            number = max(number, event.mark.sequence)
        if number > LARGEST:
            raise ContractError(f"{event.TYPE} {event.id} has a number beyond 64 bits.", seq=seq)
