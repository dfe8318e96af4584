"""The comparison of what a mark seals with the rows of a store. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from conch.witness.canonical import values_hash
from conch.witness.context import REFLECTION, SAID_BEFORE, THOUGHT, stored_digest
from conch.witness.facts import (
    CORRECTION,
    FIGURES,
    RECORDED,
    SCORE,
    VERDICT,
    SealedFact,
    facts_hash,
    is_event,
    is_joint,
    is_verdict,
    recorded_hash,
    score_id,
    sealed_facts,
)
from conch_schemas import ActionTaken, Mark, NeedsChanged, ReviewDecided


@dataclass(frozen=True)
class StoredAct:
    """What a store has of one action, as its rows have it."""

    act: bytes | None = None
    """The wire form of `action.taken`; None: there is no row."""
    columns: tuple[object, ...] = ()
    """(action id, agent, cycle) beside the act, as the row has them."""
    seq: int = 0
    """The act's place in the stream, and its experience's."""
    waits: bool = False
    """Whether the act waits for scores, by its row."""
    contexts: Mapping[str, str | bytes] = field(default_factory=dict)
    """By kind: the thought, the claims, the mind's messages, the reflection, corrections."""
    scores: Mapping[str, Sequence[object]] = field(default_factory=dict)
    """By `score_id`: component, value, low, high, status, explanation, scorer, version."""
    needs: Mapping[str, tuple[str, bytes]] = field(default_factory=dict)
    """By the event's id: the agent, as the row has it, and the wire form of `needs.changed`."""
    reviews: Mapping[str, tuple[str, bytes]] = field(default_factory=dict)
    """By the event's id: the agent, as the row has it, and the wire form of `review.decided`."""
    places: Mapping[str, int] = field(default_factory=dict)
    """The places of contexts, by kind, and of changes of needs, by the event's id."""
    verdict: bytes | None = None
    """The JSON of the last revision's verdict; None: there is no experience."""
    revision: int = 0
    recorded: str = ""
    """When the last revision was recorded, ISO 8601."""
    figures: tuple[object, ...] = ()
    """(total, coverage, complete) beside the verdict, as the row has them."""
    in_force: str | None = None
    """Version of the stored weight set that governs the act; None: there is none."""
    is_indexed: bool = True
    """Whether the columns by which the experience is found say what its act and its needs say."""
    marks: frozenset[str] | None = None
    """Ids of the marks whose rows name the act; None: not known."""

    def context_digests(self) -> dict[str, str]:
        """The digests of context that the act's own event holds; empty for one that holds none, or cannot be read."""
        return {} if self.act is None else _said_in(self.act).context_sha256


@dataclass(frozen=True)
class Difference:
    """A sealed fact that the store does not hold as it was sealed."""

    gone: bool
    """Whether there is no row at all."""
    action: str
    kind: str
    id: str
    what: str
    """The fact in words: noun and name."""


def differences(mark: Mark, stored: StoredAct | None) -> Iterator[Difference]:
    """The sealed facts of an act's mark that its rows do not hold. Facts that a store does not keep are passed over."""
    if mark.action_id is None:
        return
    stored = stored or StoredAct()
    if is_joint(mark) and mark.content != facts_hash(mark.facts):
        yield Difference(False, mark.action_id, "facts", mark.event, "the list of sealed facts")
    if stored.marks is not None and mark.id not in stored.marks:
        yield Difference(False, mark.action_id, "mark", mark.id, "the row of a mark")
    if mark.domain == "action":
        yield from _of_act(mark, mark.action_id, stored)
    for fact in sealed_facts(mark):
        there = _held(fact, stored, mark.agent)
        if there is not True and there is not _NOT_KEPT:
            yield Difference(there is None, mark.action_id, fact.kind, fact.id, _words(fact))


def _of_act(mark: Mark, action: str, stored: StoredAct) -> Iterator[Difference]:
    """What beside the act's event its mark vouches for."""
    if not stored.is_indexed:
        yield Difference(False, action, "experience", mark.event, "the row of the experience")
    if stored.waits and stored.verdict is not None:
        yield Difference(False, action, "waits", mark.event, "the deadline in the row")
    if stored.act is None:
        return
    for kind in _altered_contexts(stored):
        yield Difference(kind not in stored.contexts, action, "context", kind, _CONTEXT_WORDS[kind])
    for kind in stored.contexts:
        if kind not in (*SAID_BEFORE, REFLECTION) and correction_place(kind) != stored.places.get(kind, -1):
            yield Difference(False, action, "context", kind, f"the context {kind}")


def _altered_contexts(stored: StoredAct) -> Iterator[str]:
    """The kinds of context that are not what the act's event says. Of an event without digests, only the thought."""
    assert stored.act is not None
    said = _said_in(stored.act)
    if not said.context_sha256:
        thought = stored.contexts.get(THOUGHT)
        text = thought.decode(errors="replace") if isinstance(thought, bytes) else thought
        if said.thought and text is not None and text[: len(said.thought)] != said.thought:
            yield THOUGHT
        return
    for kind in SAID_BEFORE:
        body = stored.contexts.get(kind)
        if (None if body is None else _digest(kind, body)) != said.context_sha256.get(kind):
            yield kind


class _SaidInAct(msgspec.Struct):
    thought: str = ""
    context_sha256: dict[str, str] = {}


class _SaidInActRow(msgspec.Struct):
    data: _SaidInAct = msgspec.field(default_factory=_SaidInAct)


_read_act: Final = msgspec.json.Decoder(_SaidInActRow).decode
_NOTHING_SAID: Final = _SaidInAct()


def _said_in(body: bytes) -> _SaidInAct:
    try:
        return _read_act(body).data
    except (ValueError, TypeError):
        return _NOTHING_SAID  # the act itself is found altered


def _digest(kind: str, body: str | bytes) -> str:
    """The digest of a row of context; empty for a row that is none."""
    try:
        return stored_digest(kind, body)
    except (ValueError, TypeError, LookupError):
        return ""


def unsealed_scores(marks: Sequence[Mark], stored: StoredAct) -> list[str]:
    """The ids of the stored scores that none of these marks of one act seals, sorted.

    None where a mark of the act is from before scores were sealed one by one. Scores that were lost with their stream
    before they were sealed stand in the verdict, where one of the marks seals that.
    """
    if is_from_before_facts(marks):
        return []
    bare = set(stored.scores) - {fact.id for mark in marks for fact in sealed_facts(mark) if fact.kind == SCORE}
    if bare and stored.verdict and _seals_verdict(marks, stored):
        bare -= _judged(stored.verdict)
    return sorted(bare)


def _seals_verdict(marks: Sequence[Mark], stored: StoredAct) -> bool:
    """Whether one of these marks of one act seals the stored revision as it is."""
    facts = [fact for mark in marks for fact in sealed_facts(mark) if fact.kind in (VERDICT, FIGURES)]
    return any(fact.id == str(stored.revision) and _verdict_held(fact, stored) is True for fact in facts)


def is_from_before_facts(marks: Sequence[Mark]) -> bool:
    """Whether one of these marks of one act is from before scores and totals were sealed one by one: it seals the whole
    event that brought the scores."""
    return any(mark.domain == "score" and not mark.facts for mark in marks)


def repeats_verdict(marks: Sequence[Mark], stored: StoredAct) -> bool:
    """Whether one of these marks of one act seals the stored verdict as a revision before the stored one."""
    if stored.verdict is None:
        return False
    try:
        verdict = msgspec.json.decode(stored.verdict)
        sealed = [fact for mark in marks for fact in sealed_facts(mark) if fact.kind == VERDICT]
        return any(fact.id != str(stored.revision) and is_verdict(fact, verdict) for fact in sealed)
    except (ValueError, TypeError, LookupError):
        return False


def correction_place(kind: str) -> int | None:
    """The place of the corrected answer of which the kind of a row of context says that it is; None: of none."""
    name, _, place = kind.partition(":")
    return int(place) if name == CORRECTION and place.isdecimal() and len(place) == 19 else None


def corrections_of(stored: StoredAct) -> dict[str, str]:
    """Kind -> digest of the act's rows of corrected answers."""
    return {kind: _digest(kind, body) for kind, body in stored.contexts.items() if kind.startswith(f"{CORRECTION}:")}


def unsealed_contexts(mark: Mark, stored: StoredAct) -> dict[str, str]:
    """Kind -> digest of the rows of context that the mark of an act vouches for in no way: those of an event that holds
    no digests."""
    if mark.domain != "action" or stored.act is None or _said_in(stored.act).context_sha256:
        return {}
    return {kind: _digest(kind, stored.contexts[kind]) for kind in SAID_BEFORE if kind in stored.contexts}


def unsealed_reflection(mark: Mark, stored: StoredAct) -> str | None:
    """The digest of the act's reflection where this mark of an act's scores does not seal it."""
    if not is_joint(mark) or REFLECTION not in stored.contexts:
        return None
    if any(fact.kind == REFLECTION for fact in sealed_facts(mark)):
        return None
    return _digest(REFLECTION, stored.contexts[REFLECTION])


def _judged(verdict: bytes) -> set[str]:
    """The ids of the scores that add up to the verdict; none of a verdict that cannot be read."""
    try:
        scores = msgspec.json.decode(verdict)["scores"]
        return {score_id(part["scorer"], part["version"], part["component"]) for part in scores}
    except (ValueError, TypeError, LookupError):
        return set()


_NOT_KEPT: Final = object()


def _held(fact: SealedFact, stored: StoredAct, agent: str) -> object:
    """True: the row is what was sealed. False: it is not. None: there is none. _NOT_KEPT: a store has no such rows."""
    if fact.kind == ActionTaken.TYPE:
        return None if stored.act is None else is_event(stored.act, fact.content) and _columns_hold(stored, agent)
    if fact.kind == SCORE:
        row = stored.scores.get(fact.id)
        return None if row is None else values_hash(row) == fact.content
    if fact.kind == NeedsChanged.TYPE:
        return _event_held(fact, stored.needs, agent)
    if fact.kind == ReviewDecided.TYPE:
        return _event_held(fact, stored.reviews, agent)
    if fact.kind in (VERDICT, FIGURES):
        return _verdict_held(fact, stored)
    if fact.kind in (RECORDED, REFLECTION, CORRECTION):
        return _row_held(fact, stored)
    if fact.kind == "" and fact.id in stored.needs:  # no score was sealed with it one by one
        return _event_held(fact, stored.needs, agent)
    return _NOT_KEPT


def _row_held(fact: SealedFact, stored: StoredAct) -> object:
    """The same as `_held` of a revision's place and time, a reflection, an answer as it was corrected."""
    if fact.kind == REFLECTION:
        body = stored.contexts.get(REFLECTION)
        return None if body is None else _digest(REFLECTION, body) == fact.content
    if fact.kind == CORRECTION:
        rows = [body for kind, body in stored.contexts.items() if kind.startswith(f"{CORRECTION}:")]
        return any(_digest(CORRECTION, body) == fact.content for body in rows) if rows else None
    if stored.verdict is None:
        return _NOT_KEPT  # the verdict itself is found gone
    if fact.id != str(stored.revision):
        return True  # an earlier one: its place and time were replaced
    try:
        return recorded_hash(stored.seq, datetime.fromisoformat(stored.recorded)) == fact.content
    except ValueError:
        return False


def _event_held(fact: SealedFact, rows: Mapping[str, tuple[str, bytes]], agent: str) -> bool | None:
    if fact.id not in rows:
        return None
    named, body = rows[fact.id]
    return named == agent and is_event(body, fact.content)


def _columns_hold(stored: StoredAct, agent: str) -> bool:
    assert stored.act is not None
    wire = msgspec.json.decode(stored.act)
    return stored.columns == (wire.get("actionid"), wire.get("agent"), wire.get("cycle")) and wire.get("agent") == agent


def _verdict_held(fact: SealedFact, stored: StoredAct) -> object:
    if stored.verdict is None:
        return None
    if fact.id != str(stored.revision):
        # Whether a later revision holds is told by its own scores; an earlier one than was sealed is no store's work.
        return fact.id.isdecimal() and int(fact.id) < stored.revision
    try:
        verdict = msgspec.json.decode(stored.verdict)
        figures = (verdict["total"], verdict["coverage"], bool(verdict["complete"]))
        if figures != stored.figures or stored.in_force not in (None, verdict["weights"]):
            return False
        return is_verdict(fact, verdict)
    except (ValueError, TypeError, LookupError):
        return False


_CONTEXT_WORDS: Final = {
    "thought": "the thought",
    "claims": "the list of claims",
    "messages": "the prompt",
}


def _words(fact: SealedFact) -> str:
    if fact.kind == SCORE:
        return score_words(fact.id)
    if fact.kind in (VERDICT, FIGURES):
        return f"the total of revision {fact.id}"
    words = {
        ActionTaken.TYPE: "the act",
        NeedsChanged.TYPE: "the change of needs",
        ReviewDecided.TYPE: "the review",
        RECORDED: f"the place or time of revision {fact.id}",
        REFLECTION: "the reflection",
        CORRECTION: "the corrected answer",
    }
    return words.get(fact.kind, "the event")


def score_words(identity: str) -> str:
    """A score in words, by its `score_id`."""
    scorer, _, rest = identity.partition("/")
    return f"the score {rest.rpartition('/')[2]} by {scorer}"


@dataclass(frozen=True)
class EventRow:
    """A row of an event that belongs to no act, or that a store keeps beside its act."""

    table: str
    id: str
    seq: int
    """Its place in the stream."""
    body: bytes
    """The wire form."""
    is_indexed: bool
    """Whether the columns beside the body say what it says."""

    @property
    def words(self) -> str:
        """The event in words."""
        return f"The {_TABLE_WORDS.get(self.table, 'event')} {self.id}"


_TABLE_WORDS: Final = {
    "weights": "weight set",
    "needs": "change of needs",
    "reviews": "review",
    "forks": "candidate of a fork",
    "training": "event of training",
}
