"""What marks seal of an act, as hashes: its event, each score, the verdict; the comparison with stored rows. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypedDict, cast

import msgspec

from conch.witness.canonical import canonical, content_hash, values_hash
from conch.witness.words import Scored, score_sets
from conch_schemas import (
    ActionTaken,
    AlarmRaised,
    ExperienceRecorded,
    GoalDropped,
    GoalSet,
    JsonObject,
    Mark,
    MessageReceived,
    MessageSent,
    NeedsChanged,
    NoveltyMeasured,
    ReviewDecided,
    RewardAssigned,
    Score,
    event_type,
)

SCORE: Final = "score"
VERDICT: Final = "verdict"
FIGURES: Final = "figures"
"""Kind of a verdict of which only the figures were published, because its words would have made it too large."""

LATER_FIELDS: Final[Mapping[str, tuple[tuple[str, object], ...]]] = {
    event_type(ActionTaken): (
        ("action.declared_effect", None),
        ("effect", None),
        ("goals.accepted", True),
        ("decoding", None),
        ("cost", None),
        ("message", None),
        ("outcome.proposed", None),
        ("team", None),
        ("progress", None),
        ("effect.checks.no_result", False),
        ("outcome.unavailable", False),
    ),
    event_type(RewardAssigned): (("principles", []),),
    event_type(NeedsChanged): (("beside", []),),
    event_type(NoveltyMeasured): (("repeats", 1), ("beside", [])),
    event_type(AlarmRaised): (("begun", None),),
    event_type(MessageReceived): (("session", None),),
    event_type(MessageSent): (("session", None),),
    event_type(GoalSet): (("piece", None),),
    event_type(GoalDropped): (("vetoed", False),),
    event_type(ReviewDecided): (("acts", []),),
}
"""Fields with their defaults, in the order in which they came, that a type of events gained after its first marks. A
reader of today adds them with their defaults to an event of before, whose mark was taken without them. A new optional
field of a sealed event is added at the end."""


class SealedFact(NamedTuple):
    """One fact that a mark seals."""

    kind: str
    id: str
    content: str


def facts_of(fact: Scored) -> dict[str, str]:
    """Each score of the set, as a mark has them."""
    return {
        f"{SCORE} {score_id(score.scorer, score.version, score.component)}": score_hash(score)
        for score in reversed(score_sets(fact))  # of two with one id a store keeps the first
    }


def whole_fact(fact: Scored) -> dict[str, str]:
    """The event that brought a score set, as a mark has it."""
    return {f"{fact.TYPE} {fact.id}": content_hash(fact)}


def facts_hash(facts: Mapping[str, str]) -> str:
    """SHA-256 of the canonical JSON of these facts, as a list of pairs sorted by fact, hexadecimal."""
    return values_hash([list(pair) for pair in sorted(facts.items())])


def score_id(scorer: str, version: str, component: str) -> str:
    """The id of a score among the facts of one act."""
    return f"{scorer}/{version}/{component}"


def score_hash(score: Score) -> str:
    """SHA-256 over the fields of a score that a store keeps, hexadecimal."""
    return values_hash(
        (score.component, score.value, *score.range, score.status, score.explanation, score.scorer, score.version)
    )


def verdict_fact(experience: ExperienceRecorded) -> dict[str, str]:
    """The total of a revision with all that adds up to it, as a mark has it."""
    if not experience.scores and not experience.breakdown:
        figures = (experience.total, experience.coverage, experience.complete)
        return {f"{FIGURES} {experience.revision}": values_hash(figures)}
    verdict: _Verdict = {
        "total": experience.total,
        "coverage": experience.coverage,
        "complete": experience.complete,
        "weights": experience.weights,
        "scores": [cast("_VerdictScore", part.__dict__) for part in experience.scores],
        "breakdown": [cast("_VerdictLine", line.__dict__) for line in experience.breakdown],
    }
    return {f"{VERDICT} {experience.revision}": _verdict_hash(verdict)}


class _VerdictScore(TypedDict):
    component: str
    scorer: str
    version: str
    status: str
    value: float | None
    weight: float
    role: str
    explanation: str


class _VerdictLine(TypedDict):
    step: str
    amount: float
    why: str


class _Verdict(TypedDict):
    """A total with all that adds up to it, as the store's JSON has it."""

    total: float
    coverage: float
    complete: bool
    weights: str
    scores: Sequence[_VerdictScore]
    breakdown: Sequence[_VerdictLine]


def _verdict_hash(verdict: _Verdict, longest: int | None = None) -> str:
    """`longest`: characters of an explanation; None: all."""
    figures = [verdict["total"], verdict["coverage"], verdict["complete"], verdict["weights"]]
    scores = [
        [
            *(one["component"], one["scorer"], one["version"], one["status"], one["value"], one["weight"], one["role"]),
            one["explanation"][:longest],
        ]
        for one in verdict["scores"]
    ]
    lines = [[line["step"], line["amount"], line["why"]] for line in verdict["breakdown"]]
    return values_hash([figures, scores, lines])


_CUT: Final = 200
"""Characters of an explanation in an experience that was too large to be published whole."""


def is_event(body: bytes, content: str) -> bool:
    """Whether these bytes, the wire form of an event, are what a mark's `content` was taken over.

    The version that wrote the bytes and the version that took the mark may know different optional fields
    (LATER_FIELDS): a field at its default may stand in one form and be absent from the other.
    """
    try:
        if _sha256(body) == content:
            return True
        wire = json.loads(body)
        later = LATER_FIELDS.get(wire["type"], ())
        return any(_sha256(json.dumps(wire).encode()) == content for _ in _change_age(wire["data"], later))
    except (ValueError, TypeError, LookupError, AttributeError):
        return False


def _change_age(data: JsonObject, later: Sequence[tuple[str, object]]) -> Iterator[None]:
    """Change an event's data in place into the form of the newest version, then of each version before it, with a pause
    after each. Ends where a version cannot have written it: a field that it did not know is not at its default."""
    for name, default in later:
        for part, key in _find_places(data, name):
            part.setdefault(key, default)
    yield
    for name, default in reversed(later):
        for part, key in _find_places(data, name):
            value = part.pop(key)
            if value != default or type(value) is not type(default):  # 1 is no True
                return
        yield


def _find_places(data: JsonObject, name: str) -> list[tuple[JsonObject, str]]:
    """The objects that may have the field, and its key in them. For `goals.accepted`, each goal."""
    *path, key = name.split(".")
    parts: list[Any] = [data]
    for step in path:
        held = [part.get(step) for part in parts]
        parts = [part for value in held for part in (value if isinstance(value, list) else [value]) if part is not None]
    return [(part, key) for part in parts]


def _sha256(text: bytes) -> str:
    return hashlib.sha256(canonical(text)).hexdigest()


@dataclass(frozen=True)
class StoredAct:
    """What a store has of one action, as its rows have it."""

    act: bytes | None = None
    """The wire form of `action.taken`; None: there is no row."""
    columns: tuple[object, ...] = ()
    """(action id, agent, cycle) beside the act, as the row has them."""
    scores: Mapping[str, Sequence[object]] = field(default_factory=dict)
    """By `score_id`: component, value, low, high, status, explanation, scorer, version."""
    needs: Mapping[str, tuple[str, bytes]] = field(default_factory=dict)
    """By the event's id: the agent, as the row has it, and the wire form of `needs.changed`."""
    reviews: Mapping[str, tuple[str, bytes]] = field(default_factory=dict)
    """By the event's id: the agent, as the row has it, and the wire form of `review.decided`."""
    verdict: bytes | None = None
    """The JSON of the last revision's verdict; None: there is no experience."""
    revision: int = 0
    figures: tuple[object, ...] = ()
    """(total, coverage, complete) beside the verdict, as the row has them."""
    is_indexed: bool = True
    """Whether the columns by which the experience is found say what its act and its needs say."""
    marks: frozenset[str] | None = None
    """Ids of the marks whose rows name the act; None: not known."""


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


def sealed_facts(mark: Mark) -> Iterator[SealedFact]:
    """All that a mark seals, the witnessed event among it."""
    if not is_joint(mark):
        yield SealedFact(_KIND_OF.get(mark.domain, ""), mark.event, mark.content)
    for name, content in mark.facts.items():
        kind, _, identity = name.partition(" ")
        yield SealedFact(kind, identity, content)


def is_joint(mark: Mark) -> bool:
    """Whether the mark's content was taken over its facts: the event of such a mark is `experience.recorded`."""
    return any(name.startswith((VERDICT, FIGURES)) for name in mark.facts)


_KIND_OF: Final = {"action": ActionTaken.TYPE, "review": ReviewDecided.TYPE}


def sealed_events(mark: Mark) -> Iterator[tuple[str, str]]:
    """(id, content) of the events that a mark seals whole."""
    if not is_joint(mark):
        yield mark.event, mark.content
    yield from ((fact.id, fact.content) for fact in sealed_facts(mark) if "." in fact.kind)


def differences(mark: Mark, stored: StoredAct | None) -> Iterator[Difference]:
    """The sealed facts of an act's mark that its rows do not hold. Facts that a store does not keep are passed over."""
    if mark.action_id is None:
        return
    stored = stored or StoredAct()
    if is_joint(mark) and mark.content != facts_hash(mark.facts):
        yield Difference(False, mark.action_id, "facts", mark.event, "the list of sealed facts")
    if stored.marks is not None and mark.id not in stored.marks:
        yield Difference(False, mark.action_id, "mark", mark.id, "the row of a mark")
    if mark.domain == "action" and not stored.is_indexed:
        yield Difference(False, mark.action_id, "experience", mark.event, "the row of the experience")
    for fact in sealed_facts(mark):
        there = _held(fact, stored, mark.agent)
        if there is not True and there is not _NOT_KEPT:
            yield Difference(there is None, mark.action_id, fact.kind, fact.id, _words(fact))


def unsealed_scores(marks: Sequence[Mark], stored: StoredAct) -> list[str]:
    """The ids of the stored scores that none of these marks of one act seals, sorted.

    None while the act waits for the mark of its scores, and none where a mark of the act is from before scores were
    sealed one by one. Scores that were lost with their stream before they were sealed stand in the sealed verdict.
    """
    if not any(map(is_joint, marks)) or any(mark.domain == "score" and not mark.facts for mark in marks):
        return []
    found = set(stored.scores) - {fact.id for mark in marks for fact in sealed_facts(mark) if fact.kind == SCORE}
    return sorted(found - _judged(stored.verdict)) if found and stored.verdict else sorted(found)


def _judged(verdict: bytes) -> set[str]:
    """The ids of the scores that add up to the verdict; none of a verdict that cannot be read."""
    try:
        scores = msgspec.json.decode(verdict)["scores"]
        return {score_id(one["scorer"], one["version"], one["component"]) for one in scores}
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
    if fact.kind == "" and fact.id in stored.needs:  # a score set's mark of before facts were sealed one by one
        return _event_held(fact, stored.needs, agent)
    return _NOT_KEPT


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
        # A later revision has a mark of its own; an earlier one than was sealed is no store's work.
        return fact.id.isdecimal() and int(fact.id) < stored.revision
    try:
        verdict = msgspec.json.decode(stored.verdict)
        if (verdict["total"], verdict["coverage"], bool(verdict["complete"])) != stored.figures:
            return False
        if fact.kind == FIGURES:
            return values_hash((*stored.figures[:2], bool(stored.figures[2]))) == fact.content
        return fact.content == _verdict_hash(verdict) or fact.content == _verdict_hash(verdict, _CUT)
    except (ValueError, TypeError, LookupError):
        return False


def _words(fact: SealedFact) -> str:
    if fact.kind == SCORE:
        return score_words(fact.id)
    if fact.kind in (VERDICT, FIGURES):
        return f"the total of revision {fact.id}"
    words = {ActionTaken.TYPE: "the act", NeedsChanged.TYPE: "the change of needs", ReviewDecided.TYPE: "the review"}
    return words.get(fact.kind, "the event")


def score_words(identity: str) -> str:
    """A score in words, by its `score_id`."""
    scorer, _, rest = identity.partition("/")
    return f"the score {rest.rpartition('/')[2]} by {scorer}"
