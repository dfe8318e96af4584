"""Whole experiences, acts and what they wait for: a cycle, a page of a list, the last ones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from itertools import islice
from typing import Any, Final

import msgspec
from pydantic import TypeAdapter

from conch.experience.assemble import ExperienceVerdict, assemble
from conch.experience.join_case import JoinCase
from conch.experience.models import (
    MOST_RANKED,
    CycleFilter,
    CycleOrder,
    DecisionState,
    PendingActs,
    ScoredSince,
    Transition,
)
from conch.experience.opened import LARGEST, OpenStore, in_64_bits, stored_event
from conch.experience.queries.bodies import stored_act, stored_checks, stored_ms
from conch.rewards import parts_of_act
from conch_schemas import (
    ActionTaken,
    Claim,
    ContractViolationError,
    ExperienceRecorded,
    NeedsChanged,
    Part,
    PromptMessage,
    WeightsSet,
)

_prompt: Final = TypeAdapter(tuple[PromptMessage, ...]).validate_json
_CONTEXTS: Final[dict[str, Callable[[Any], Any]]] = {
    "thought": str,
    "correction": str,
    "claims": TypeAdapter(tuple[Claim, ...]).validate_json,
    "messages": _prompt,
    "reflection": json.loads,
}
"""What is in the body of a row of context, by its kind."""

_EXPERIENCE: Final = """
    SELECT e.act, e.seq, e.revision, e.recorded, unpacked(e.verdict), unpacked(a.body)
    FROM experiences e JOIN acts a ON a.act = e.act """
_NUMBER: Final = "SELECT e.act FROM experiences e"
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
_WALK: Final = 100
"""Experiences of a walk that are read at one time."""
_ACT: Final = "SELECT unpacked(body) FROM acts WHERE agent = ? AND cycle = ? ORDER BY seq DESC LIMIT 1"
_ACT_AFTER: Final = """
    SELECT act, unpacked(body) FROM acts WHERE agent = ? AND cycle >= ? AND (cycle, seq) > (?, ?)
    ORDER BY cycle, seq LIMIT 1"""
_CYCLE: Final = "SELECT cycle FROM acts WHERE act = (SELECT act FROM actions WHERE action_id = ?)"
_PROMPT: Final = """
    SELECT unpacked(body) FROM contexts
    WHERE act = (SELECT act FROM actions WHERE action_id = ?) AND kind = 'messages'"""
# One step through the index a name: DISTINCT would read all of it.
_AGENTS: Final = """
    WITH RECURSIVE names (agent) AS (
        SELECT min(agent) FROM acts UNION ALL
        SELECT (SELECT agent FROM acts WHERE agent > names.agent ORDER BY agent LIMIT 1) FROM names
        WHERE names.agent IS NOT NULL)
    SELECT agent FROM names WHERE agent IS NOT NULL ORDER BY agent"""
_NEAREST: Final = """
    SELECT (SELECT max(cycle) FROM experiences WHERE agent = ? AND cycle < ?),
           (SELECT min(cycle) FROM experiences WHERE agent = ? AND cycle > ?)"""
_WORDS: Final = """
    SELECT e.act, e.cycle, e.seq, unpacked(a.body),
    (SELECT unpacked(body) FROM contexts c WHERE c.act = e.act AND c.kind = 'thought')
    FROM experiences e JOIN acts a ON a.act = e.act WHERE """
_WORD: Final = re.compile(r"[a-z0-9]+")
_UNSAID: Final = b" invalid"
"""The skill of what was not valid, which no fact says in this word."""
_PAGE: Final = 500
"""Cycles whose words are looked through at a time."""
_AWAITED: Final = "SELECT count(*) FROM acts WHERE due IS NOT NULL AND +started <= ?"
_AWAITED_FIRST: Final = """
    SELECT a.act, unpacked(a.body),
    (SELECT body FROM weights w WHERE w.agent = a.agent AND w.seq < a.seq ORDER BY w.seq DESC LIMIT 1)
    FROM acts a WHERE a.due IS NOT NULL AND +a.started <= ? ORDER BY a.due LIMIT 100"""
_SCORED: Final = "SELECT component, scorer FROM scores WHERE act = ?"
_CONDITIONS: Final = {
    "outcome": "e.outcome = :outcome",
    "kind": "e.kind = :kind",
    "tool": "e.tool = :tool",
    "skill": "e.skill = :skill",
    "need": "e.need = :need",
    "rule": """EXISTS (SELECT 1 FROM scores s WHERE s.act = e.act AND s.component = :rule
        AND (s.value <> 0 OR s.status = 'error'))""",
    "goal": "e.act IN (SELECT act FROM scores WHERE component = 'goal' AND value > 0)",
    "complete": "e.complete = :complete",
    "least": "e.total >= :least",
    "most": "e.total <= :most",
    "first": "e.cycle >= :first",
    "last": "e.cycle <= :last",
}
"""The condition on columns for each field of `CycleFilter` but its text; of `goal` the acts that moved any."""
_KEYS: Final = {
    "cycle": "SELECT cycle FROM experiences WHERE act = ?",
    "need": "SELECT need FROM experiences WHERE act = ?",
    "skill": "SELECT skill FROM experiences WHERE act = ?",
    "outcome": "SELECT outcome FROM experiences WHERE act = ?",
    "ms": "SELECT unpacked(body) FROM acts WHERE act = ?",
    "total": "SELECT total FROM experiences WHERE act = ?",
}
"""What tells the place of an act in an order, by `CycleOrder.by`."""


class SqlCycles:
    """The `CycleReader` of a store over SQL."""

    def __init__(self, file: OpenStore) -> None:
        self._file = file

    def last(self, agent: str | None, limit: int, before: int | None = None) -> list[ExperienceRecorded]:
        bound = LARGEST if before is None else in_64_bits(before)
        with self._file.snapshot():
            if agent is None:
                rows = self._file.rows(_LAST_OF_ALL, bound, limit)
            else:
                rows = self._file.rows(_LAST_OF_ONE, agent, bound, limit)
            return [self._experience(row) for row in reversed(rows)]

    def walk(self, agent: str | None, since: ScoredSince, last: int | None = None) -> Iterator[ExperienceRecorded]:
        cycle, seq = -1, 0
        if last is not None:
            nth = (_NTH_OF_ALL, last) if agent is None else (_NTH_OF_ONE, agent, last)
            if (row := self._file.row(*nth)) is not None:
                cycle, seq = row
        while True:
            with self._file.snapshot():
                if agent is None:
                    rows = self._file.rows(_NEXT_OF_ALL, seq, since.cycle, since.stamp, _WALK)
                else:
                    rows = self._file.rows(_NEXT_OF_ONE, agent, since.cycle, cycle, seq, since.stamp, _WALK)
                page = [self._experience(row) for row in rows]
            if not page:
                return
            yield from page
            cycle, seq = page[-1].cycle or 0, page[-1].seq

    def transitions(self, agent: str | None, since: ScoredSince, last: int | None = None) -> Iterator[Transition]:
        for experience in self.walk(agent, since, last):
            with self._file.snapshot():
                state = self._state_after(experience)
            yield Transition(experience, state)

    def find(self, agent: str, filters: CycleFilter, limit: int, before: int | None = None) -> list[ExperienceRecorded]:
        where, named = _where(agent, filters, before)
        with self._file.snapshot():
            if _by_columns(filters):
                rows = self._file.named(
                    f"{_EXPERIENCE} WHERE {where} ORDER BY e.cycle DESC, e.seq DESC LIMIT :limit",
                    named | {"limit": limit},
                )
            else:
                acts = islice(self._holding(where, named, filters), limit)
                rows = [self._file.row(_OF_ACT, act) for act in acts]
            return [self._experience(row) for row in rows]

    def ranked(
        self, agent: str, filters: CycleFilter, order: CycleOrder, limit: int, skip: int = 0
    ) -> list[ExperienceRecorded]:
        where, named = _where(agent, filters, None)
        with self._file.snapshot():
            if _by_columns(filters) and order.by != "ms":
                way = f"e.{order.by} {'DESC' if order.falling else 'ASC'} NULLS LAST"
                rows = self._file.named(
                    f"{_NUMBER} WHERE {where} ORDER BY {way}, e.cycle DESC, e.seq DESC LIMIT :limit OFFSET :skip",
                    named | {"limit": limit, "skip": in_64_bits(skip)},
                )
                acts = [row[0] for row in rows]
            else:
                acts = self._in_order(islice(self._holding(where, named, filters), MOST_RANKED), order)
                acts = acts[skip : skip + limit]
            return [self._experience(self._file.row(_OF_ACT, act)) for act in acts]

    def _in_order(self, acts: Iterable[int], order: CycleOrder) -> list[int]:
        """These acts, of which the newest are first, in this order."""
        keys = {act: self._file.row(_KEYS[order.by], act)[0] for act in acts}
        if order.by == "ms":
            with self._file.intact():
                keys = {act: stored_ms(body) for act, body in keys.items()}
        known = [act for act, key in keys.items() if key is not None]
        known.sort(key=keys.__getitem__, reverse=order.falling)
        return [*known, *(act for act, key in keys.items() if key is None)]

    def get(self, agent: str, number: int) -> ExperienceRecorded | None:
        with self._file.snapshot():
            row = self._file.row(_ONE, agent, number)
            return None if row is None else self._experience(row)

    def pending(self, agent: str | None = None) -> int:
        waiting = "SELECT count(*) FROM acts WHERE due IS NOT NULL"
        row = self._file.row(waiting) if agent is None else self._file.row(waiting + " AND +agent = ?", agent)
        return int(row[0]) if row else 0

    def awaited(self, until: datetime) -> PendingActs:
        with self._file.snapshot():
            acts = self._file.row(_AWAITED, until.timestamp())[0]
            sets: dict[bytes, tuple[Part, ...]] = {}
            missing: dict[str, None] = {}
            for act, said, body in self._file.rows(_AWAITED_FIRST, until.timestamp()):
                if body is None:
                    continue
                if body not in sets:
                    sets[body] = stored_event(WeightsSet, body).parts
                there = set(self._file.rows(_SCORED, act))
                parts = parts_of_act(sets[body], task=stored_event(ActionTaken, said).episode is not None)
                missing |= {part.component: None for part in parts if (part.component, part.scorer) not in there}
            order = {part.component: None for parts in sets.values() for part in parts}
        return PendingActs(acts, tuple(component for component in order if component in missing))

    def last_cycle(self, agent: str) -> int | None:
        row = self._file.row("SELECT max(cycle) FROM acts WHERE agent = ?", agent)
        return row[0] if row else None

    def neighbours(self, agent: str, cycle: int) -> tuple[int | None, int | None]:
        own = (agent, in_64_bits(cycle))
        nearest: tuple[int | None, int | None] = self._file.row(_NEAREST, *own, *own)
        return nearest

    def act(self, agent: str, cycle: int) -> ActionTaken | None:
        row = self._file.row(_ACT, agent, cycle)
        with self._file.intact():
            return None if row is None else stored_event(ActionTaken, row[0])

    def prompt(self, action_id: str) -> tuple[PromptMessage, ...]:
        row = self._file.row(_PROMPT, action_id)
        with self._file.intact():
            return _prompt(row[0]) if row else ()

    def by_number(self, act: int) -> ExperienceRecorded | None:
        """The experience of an act, by the act's number in this store; None where there is none."""
        row = self._file.row(_OF_ACT, act)
        return None if row is None else self._experience(row)

    def cycle_of(self, action_id: str) -> int | None:
        row = self._file.row(_CYCLE, action_id)
        return None if row is None else int(row[0])

    def _state_after(self, experience: ExperienceRecorded) -> DecisionState | None:
        """The state in which the agent decided its next act; None while that is not stored."""
        cycle = experience.cycle or 0
        row = self._file.row(_ACT_AFTER, experience.agent, cycle, cycle, experience.seq)
        if row is None:
            return None
        act, context = stored_event(ActionTaken, row[1]), fill_context(self._file, JoinCase(row[0], "")).context()
        needs = act.needs if context.needs_before is None else context.needs_before
        return DecisionState.of(act, needs, context.messages)

    def _holding(self, where: str, named: Mapping[str, object], filters: CycleFilter) -> Iterator[int]:
        """Acts in whose words the text stands and that moved the goal, the last cycle first; reads as far as it is
        asked."""
        sql = (
            f"{_WORDS} {where} AND (e.cycle, e.seq) < (:before, :place) ORDER BY e.cycle DESC, e.seq DESC LIMIT {_PAGE}"
        )
        sought, place = (filters.text or "").casefold(), {"place": -1}
        words = [word.encode() for word in _WORD.findall(sought)]
        while rows := self._file.named(sql, {**named, **place}):
            with self._file.intact():
                for act, _, _, stored, thought in rows:
                    body = stored.encode() if isinstance(stored, str) else stored  # a row that was written by hand
                    if filters.goal and not any(
                        check.goal == filters.goal and check.outcome in ("achieved", "partial")
                        for check in stored_checks(body)
                    ):
                        continue
                    if not sought or (_may_hold(words, body, thought) and sought in _words(body, thought).casefold()):
                        yield act
            place = {"before": rows[-1][1], "place": rows[-1][2]}

    def _experience(self, row: Sequence[Any]) -> ExperienceRecorded:
        act, seq, revision, recorded, verdict, body = row
        return assemble(
            stored_event(ActionTaken, body),
            seq,
            ExperienceVerdict.model_validate_json(verdict),
            fill_context(self._file, JoinCase(act, "")).context(),
            revision=revision,
            recorded=datetime.fromisoformat(recorded),
        )


def agents_that_acted(file: OpenStore) -> tuple[str, ...]:
    """Names of the agents that have acted, sorted."""
    return tuple(name for (name,) in file.rows(_AGENTS))


def fill_context(file: OpenStore, case: JoinCase) -> JoinCase:
    """The case with its context from the rows."""
    for kind, seq, body in file.rows("SELECT kind, seq, unpacked(body) FROM contexts WHERE act = ?", case.number):
        if (read := _CONTEXTS.get(kind.partition(":")[0])) is None:
            raise ContractViolationError("a context of no kind that is known")
        case.contexts[kind] = (seq, read(body))
        case.size += len(body)
    for name, seq, body in file.rows("SELECT id, seq, unpacked(body) FROM needs WHERE act = ?", case.number):
        case.needs[name] = (seq, stored_event(NeedsChanged, body))
        case.size += len(body)
    return case


def _where(agent: str, filters: CycleFilter, before: int | None) -> tuple[str, dict[str, object]]:
    """(the conditions as SQL, the values that it names), as far as columns tell."""
    given = {one.name: getattr(filters, one.name) for one in fields(filters) if one.name != "text"}
    named = {name: in_64_bits(value) for name, value in given.items() if value is not None}
    where = " AND ".join(("e.agent = :agent AND e.cycle < :before", *(_CONDITIONS[name] for name in named)))
    return where, named | {"agent": agent, "before": LARGEST if before is None else in_64_bits(before)}


def _by_columns(filters: CycleFilter) -> bool:
    """Whether columns tell all; else facts are read."""
    return not filters.text and not filters.goal


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
