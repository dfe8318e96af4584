"""The experience store in a SQLite file: the facts, the verdicts and the place in the stream in one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from conch.errors import ContractError
from conch.experience.assemble import Verdict, assemble, fitting, judge, patience
from conch.experience.database import MEMORY, open_writer, told, transaction
from conch.experience.reader import CLAIMS, MESSAGES, SqliteReader, stored_event
from conch.experience.store import FACTS
from conch.order import is_new
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
    encode,
)

AT_ONCE: Final = 500
"""Experiences that one call of `expire` or `unpublished` returns at most."""

_OF_AN_ACTION: Final = (ActionTaken, ActionDecided, ThoughtFormed, ThoughtGrounded, CycleReflected, RewardAssigned)
_LARGEST: Final = 2**63 - 1

# A fact that is there already stays, unless this one stands earlier in the stream: then any order of applying them
# ends in the same rows.
_PUT_ACT: Final = """
    INSERT INTO acts (action_id, seq, agent, cycle, started, due, body) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET seq = excluded.seq, agent = excluded.agent, cycle = excluded.cycle, body = excluded.body
    WHERE excluded.seq < seq"""
_PUT_SCORE: Final = """
    INSERT INTO scores (action_id, scorer, version, component, seq, status, value, low, high, explanation)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET seq = excluded.seq, status = excluded.status, value = excluded.value, low = excluded.low,
    high = excluded.high, explanation = excluded.explanation WHERE excluded.seq < seq"""
_PUT_CONTEXT: Final = """
    INSERT INTO contexts (action_id, kind, seq, body) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET seq = excluded.seq, body = excluded.body WHERE excluded.seq < seq"""
_PUT_NEEDS: Final = """
    INSERT INTO needs (id, seq, agent, action_id, body) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET seq = excluded.seq, body = excluded.body WHERE excluded.seq < seq"""
_PUT_WEIGHTS: Final = "INSERT INTO weights (agent, seq, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_PUT_MARK: Final = """
    INSERT INTO marks (id, hash, agent, sequence, seq, body) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET seq = excluded.seq, body = excluded.body WHERE excluded.seq < seq"""
_PUT_EXPERIENCE: Final = """
    INSERT INTO experiences (action_id, seq, agent, cycle, revision, recorded, outcome, verdict)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET revision = excluded.revision, recorded = excluded.recorded, outcome = excluded.outcome,
    verdict = excluded.verdict"""
_MOVE_EXPERIENCE: Final = "UPDATE experiences SET seq = ?, agent = ?, cycle = ? WHERE action_id = ?"
_PUT_OUTBOX: Final = "INSERT INTO outbox (id, body) VALUES (?, ?) ON CONFLICT DO UPDATE SET body = excluded.body"
_PUT_META: Final = "INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
_CASE: Final = """
    SELECT a.action_id, a.seq, a.agent, a.started, a.due, e.revision, e.verdict
    FROM acts a LEFT JOIN experiences e ON e.action_id = a.action_id WHERE a.action_id = ?"""
_SCORES: Final = """
    SELECT component, value, low, high, status, explanation, scorer, version FROM scores WHERE action_id = ?"""
_IN_FORCE: Final = "SELECT body FROM weights WHERE agent = ? AND seq < ? ORDER BY seq DESC LIMIT 1"
_GOVERNED: Final = """
    SELECT action_id FROM acts WHERE agent = ?1 AND seq > ?2
    AND seq < coalesce((SELECT min(seq) FROM weights WHERE agent = ?1 AND seq > ?2), 9223372036854775807)"""
_DUE: Final = "SELECT action_id FROM acts WHERE due <= ? ORDER BY due LIMIT ?"


class _Case(NamedTuple):
    """An act as it waits for its verdict, or has one."""

    action_id: str
    seq: int
    agent: str
    started: float
    """Seconds since the epoch."""
    due: float | None
    revision: int | None
    verdict: bytes | None


class SqliteStore(SqliteReader):
    """An `ExperienceStore` in a SQLite file (WAL, every commit on disk before it returns)."""

    def __init__(self, path: Path | str, *, timeout: float = 5.0) -> None:
        """Opens the store at `path`, making it if there is none. `timeout`: seconds to wait for a lock.

        Raises StoreError where it is damaged, newer, somebody else's, locked or cannot be written; the file is left as
        it is then.
        """
        self._path = path
        self._db = open_writer(path, timeout)
        self.duplicates = 0

    def __enter__(self) -> SqliteStore:
        return self

    def set_position(self, seq: int) -> None:
        with self._writing():
            self._set_meta("highest", self._highest())
            self._set_meta("position", seq)

    def set_epoch(self, epoch: str) -> None:
        if self.epoch() == epoch:
            return
        with self._writing():
            if self.epoch() is not None:
                self._set_meta("base", self._highest())
                self._set_meta("position", 0)
            self._set_meta("epoch", epoch)

    def apply(self, events: Sequence[tuple[int, Event]], *, upto: int, now: datetime) -> tuple[ExperienceRecorded, ...]:
        facts = [(seq, event) for seq, event in events if isinstance(event, FACTS)]
        for seq, event in facts:
            _refuse_unplaceable(seq, event)
        self._refuse_leaps(facts)
        with self._writing():
            base, known, touched = self._base(), 0, dict[str, None]()
            for seq, event in facts:
                new, actions = self._put(base + seq, event, now)
                known += not new
                touched |= dict.fromkeys(actions)
            clock = min(_stamp(now), max((_stamp(event.time) for _, event in facts), default=0.0))
            recorded = self._settle(touched | dict.fromkeys(self._due(clock)), clock, now)
            self._set_meta("position", max(self.position(), upto))
        self.duplicates += known
        return recorded

    def _refuse_leaps(self, facts: Iterable[tuple[int, Event]]) -> None:
        """Raises ContractError for an act from far beyond its agent's last one: the agent would go on behind it."""
        last: dict[str, int | None] = {}
        for seq, act in facts:
            if not isinstance(act, ActionTaken) or act.cycle is None:
                continue
            before = last[act.agent] if act.agent in last else self.last_cycle(act.agent)
            try:
                is_new((before, 0) if before is not None else None, act)
            except ContractViolationError as error:
                raise ContractError(str(error), seq=seq) from None
            last[act.agent] = max(before or 0, act.cycle)

    def expire(self, now: datetime) -> tuple[ExperienceRecorded, ...]:
        clock = _stamp(now)
        if not self._due(clock):
            return ()
        with self._writing():
            return self._settle(self._due(clock), clock, now)

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
                self._db.executemany("DELETE FROM outbox WHERE id = ?", [(name,) for name in ids])

    def _put(self, seq: int, event: Event, now: datetime) -> tuple[bool, Iterable[str]]:
        """Store one fact: (whether anything of it is new, the actions whose verdict it may change)."""
        match event:
            case ActionTaken():
                return self._put_act(seq, event, now)
            case WeightsSet():
                return self._put_weights(seq, event)
            case MarkWitnessed(mark=mark):
                row = (mark.id, mark.hash, event.agent, mark.sequence, seq, mark.model_dump_json().encode())
                return self._changes(_PUT_MARK, row), ()
            case RewardAssigned():
                return self._put_scores(seq, event.action_id, event.scores)
            case NoveltyMeasured():
                return self._put_scores(seq, event.action_id, (event.score,))
            case NeedsChanged():
                new = self._changes(_PUT_NEEDS, (event.id, seq, event.agent, event.action_id, _body(event)))
                scored, actions = self._put_scores(seq, event.action_id, () if event.score is None else (event.score,))
                return new or scored, actions
            case _:
                return self._changes(_PUT_CONTEXT, (event.action_id, *_context(event, seq))), ()

    def _put_act(self, seq: int, act: ActionTaken, now: datetime) -> tuple[bool, Iterable[str]]:
        # A producer's clock that runs ahead must not make its acts wait for ever.
        started = min(_stamp(act.time), _stamp(now))
        row = (act.action_id, seq, act.agent, act.cycle, started, started, _body(act))
        if not self._changes(_PUT_ACT, row):
            return False, ()
        self._db.execute(_MOVE_EXPERIENCE, (seq, act.agent, act.cycle, act.action_id))
        return True, (str(act.action_id),)

    def _put_weights(self, seq: int, weights: WeightsSet) -> tuple[bool, Iterable[str]]:
        if not self._changes(_PUT_WEIGHTS, (weights.agent, seq, _body(weights))):
            return False, ()
        return True, [row[0] for row in self._rows(_GOVERNED, weights.agent, seq)]

    def _put_scores(self, seq: int, action: str | None, scores: Iterable[Score]) -> tuple[bool, Iterable[str]]:
        if action is None:
            return False, ()
        rows = [
            (action, s.scorer, s.version, s.component, seq, s.status, s.value, *s.range, s.explanation) for s in scores
        ]
        new = [self._changes(_PUT_SCORE, row) for row in rows]
        return any(new), (action,) if any(new) else ()

    def _changes(self, sql: str, row: Sequence[object]) -> bool:
        return self._db.execute(sql, row).rowcount > 0

    def _settle(self, actions: Iterable[str], clock: float, now: datetime) -> tuple[ExperienceRecorded, ...]:
        """Record each act that has nothing to wait for any more, and each verdict that changed; into the outbox too."""
        found = (self._row(_CASE, action) for action in actions)
        cases = sorted((_Case(*row) for row in found if row), key=lambda case: case.seq)
        recorded = [experience for case in cases if (experience := self._close(case, clock, now))]
        self._db.executemany(_PUT_OUTBOX, [(experience.id, encode(experience)) for experience in recorded])
        return tuple(recorded)

    def _close(self, case: _Case, clock: float, now: datetime) -> ExperienceRecorded | None:
        weights, parts = self._in_force(case)
        scores = [_score(row) for row in self._rows(_SCORES, case.action_id)]
        wait = patience(parts, scores)
        if case.revision is None and wait is not None and case.started + wait > clock:
            self._set_due(case, case.started + wait)
            return None
        self._set_due(case, None)
        verdict = judge(weights, parts, scores)
        body = verdict.model_dump_json().encode()
        return None if body == case.verdict else self._record(case, verdict, body, now)

    def _record(self, case: _Case, verdict: Verdict, body: bytes, now: datetime) -> ExperienceRecorded:
        revision = (case.revision or 0) + 1
        act = stored_event(ActionTaken, self._row("SELECT body FROM acts WHERE action_id = ?", case.action_id)[0])
        context = self._context(case.action_id)
        row = (case.action_id, case.seq, act.agent, act.cycle, revision, now.isoformat(), act.outcome.status, body)
        self._db.execute(_PUT_EXPERIENCE, row)
        return fitting(assemble(act, case.seq, verdict, context, revision=revision, recorded=now))

    def _in_force(self, case: _Case) -> tuple[str, tuple[Part, ...]]:
        row = self._row(_IN_FORCE, case.agent, case.seq)
        return ("", ()) if row is None else _weights(row[0])

    def _set_due(self, case: _Case, due: float | None) -> None:
        if due != case.due:
            self._db.execute("UPDATE acts SET due = ? WHERE action_id = ?", (due, case.action_id))

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
        with told(self._path), transaction(self._db), self._intact():
            yield


class MemoryStore(SqliteStore):
    """An `ExperienceStore` that is gone when it is closed: the same tables in SQLite's memory, for tests, notebooks.

    It cannot be read from another connection.
    """

    def __init__(self) -> None:
        super().__init__(MEMORY)


def _refuse_unplaceable(seq: int, event: Event) -> None:
    """Raises ContractError for a fact that no row can hold."""
    if isinstance(event, _OF_AN_ACTION) and event.action_id is None:
        raise ContractError(f"{event.TYPE} {event.id} belongs to no action: it has no action id.", seq=seq)
    if isinstance(event, ActionTaken) and event.cycle is None:
        raise ContractError(f"{event.TYPE} {event.id} belongs to no cycle.", seq=seq)
    numbers = (event.cycle or 0, event.mark.sequence if isinstance(event, MarkWitnessed) else 0)
    if max(numbers) > _LARGEST:
        raise ContractError(f"{event.TYPE} {event.id} has a number beyond 64 bits.", seq=seq)


def _context(event: Event, seq: int) -> tuple[str, int, Any]:
    """(kind, place, body) of a row of context."""
    match event:
        case ThoughtFormed():
            return "thought", seq, event.thought.text
        case ThoughtGrounded():
            return "claims", seq, CLAIMS.dump_json(event.claims)
        case ActionDecided():
            return "messages", seq, MESSAGES.dump_json(event.messages)
        case CycleReflected():
            return "reflection", seq, json.dumps([event.reflection, event.ms])
    raise TypeError(f"{event.TYPE} is no context")


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


def _body(event: Event) -> bytes:
    """The event as a row. Not `encode`: read and written again, one at the limit of an event may have grown past it."""
    return event.model_dump_json().encode()


def _stamp(time: datetime) -> float:
    """Seconds since the epoch; a time without a zone is taken as UTC."""
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
