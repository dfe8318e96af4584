"""What marks seal, as hashes: an act's event, each score, the verdict, and what a store keeps beside them. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypedDict, cast

from conch.witness.canonical import canonical, content_hash, values_hash
from conch.witness.context import REFLECTION, reflection_digest, text_digest
from conch.witness.words import Scored, Witnessed, score_sets
from conch_schemas import (
    ActionTaken,
    AdapterShadowed,
    AlarmRaised,
    AnswerRated,
    CycleReflected,
    ExperienceRecorded,
    ForkScored,
    GoalDropped,
    GoalSet,
    Mark,
    MessageReceived,
    MessageSent,
    NeedsChanged,
    NoveltyMeasured,
    PolicySet,
    ReviewDecided,
    RewardAssigned,
    Score,
    event_type,
)

SCORE: Final = "score"
VERDICT: Final = "verdict"
RECORDED: Final = "recorded"
"""Kind of a revision's place in the stream and its time."""
PROMPT: Final = "prompt"
"""Kind of a policy's system prompt."""
CORRECTION: Final = "correction"
"""Kind of an answer as a person corrected it."""
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
        ("context_sha256", {}),
        ("decoding.unread", None),
        ("effect.checks.no_result", False),
        ("outcome.unavailable", False),
        ("effect.work", None),
    ),
    event_type(RewardAssigned): (("principles", []),),
    event_type(NeedsChanged): (("beside", []),),
    event_type(NoveltyMeasured): (("repeats", 1), ("beside", [])),
    event_type(AlarmRaised): (("begun", None),),
    event_type(MessageReceived): (("session", None),),
    event_type(MessageSent): (("session", None),),
    event_type(GoalSet): (("piece", None), ("goal.hidden", False)),
    event_type(GoalDropped): (("vetoed", False),),
    event_type(ReviewDecided): (("acts", []),),
    event_type(ForkScored): (
        ("decoding.unread", None),
        ("effect.checks.no_result", False),
        ("outcome.unavailable", False),
        ("effect.work", None),
    ),
    event_type(AdapterShadowed): (("decoding.unread", None),),
}
"""Fields with their defaults, in the order in which they came, that a type of events gained after its first marks. A
reader of today adds them with their defaults to an event of before, whose mark was taken without them. A new optional
field of a sealed event is added at the end."""


class SealedFact(NamedTuple):
    """One fact that a mark seals."""

    kind: str
    id: str
    content: str


def facts_of(fact: Witnessed) -> dict[str, str]:
    """What a mark of this fact seals beside the event itself, as a store's rows have it: each score of a set, a
    reflection, a policy's system prompt, an answer as it was corrected."""
    match fact:
        case RewardAssigned() | NeedsChanged() | NoveltyMeasured():
            return {
                f"{SCORE} {score_id(score.scorer, score.version, score.component)}": score_hash(score)
                for score in reversed(score_sets(fact))  # of two with one id a store keeps the first
            }
        case CycleReflected():
            return {f"{REFLECTION} {fact.id}": reflection_digest(fact.reflection, fact.ms)}
        case PolicySet():
            return {f"{PROMPT} {fact.policy}": text_digest(fact.system_prompt)}
        case AnswerRated(rating="corrected"):
            return {f"{CORRECTION} {fact.id}": text_digest(fact.text)}
    return {}


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


def recorded_fact(experience: ExperienceRecorded) -> dict[str, str]:
    """The place of a revision's act in the stream, and when the revision was recorded, as a mark has them."""
    return {f"{RECORDED} {experience.revision}": recorded_hash(experience.seq, experience.time)}


def recorded_hash(seq: int, time: datetime) -> str:
    """SHA-256 of the canonical JSON list of a place and a time in UTC, hexadecimal."""
    return values_hash([seq, time.astimezone(UTC).isoformat()])


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


def is_verdict(fact: SealedFact, verdict: _Verdict) -> bool:
    """Whether the verdict is what a sealed fact of the kind VERDICT or FIGURES was taken over."""
    if fact.kind == FIGURES:
        return values_hash((verdict["total"], verdict["coverage"], bool(verdict["complete"]))) == fact.content
    return fact.content in (_verdict_hash(verdict), _verdict_hash(verdict, _CUT))


def is_verdict_of(experience: ExperienceRecorded, revision: int, verdict: bytes) -> bool:
    """Whether the experience is of this revision, with the total that this stored JSON has and all that adds up to
    it."""
    try:
        stored = json.loads(verdict)
        facts = [
            SealedFact(name.partition(" ")[0], str(revision), content)
            for name, content in verdict_fact(experience).items()
        ]
        return experience.revision == revision and all(is_verdict(fact, stored) for fact in facts)
    except (ValueError, TypeError, LookupError):
        return False


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


def _change_age(data: dict[str, object], later: Sequence[tuple[str, object]]) -> Iterator[None]:
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


def _find_places(data: dict[str, object], name: str) -> list[tuple[dict[str, object], str]]:
    """The objects that may have the field, and its key in them. For `goals.accepted`, each goal."""
    *path, key = name.split(".")
    parts: list[Any] = [data]
    for step in path:
        held = [part.get(step) for part in parts]
        parts = [part for value in held for part in (value if isinstance(value, list) else [value]) if part is not None]
    return [(part, key) for part in parts]


def _sha256(text: bytes) -> str:
    return hashlib.sha256(canonical(text)).hexdigest()


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


_KIND_OF: Final = {"action": ActionTaken.TYPE, "review": ReviewDecided.TYPE, "needs": NeedsChanged.TYPE}


def sealed_events(mark: Mark) -> Iterator[tuple[str, str]]:
    """(id, content) of the events that a mark seals whole."""
    if not is_joint(mark):
        yield mark.event, mark.content
    yield from ((fact.id, fact.content) for fact in sealed_facts(mark) if "." in fact.kind)
