"""The hash chain of one agent's marks: a pure fold over its acts, their scores, messages, goals and pauses."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from conch.folds import Digests, evolve, holds, is_new, valid, with_new
from conch.rewards import PRINCIPLES
from conch.witness.canonical import content_hash, said_hash
from conch.witness.facts import facts_hash, facts_of, recorded_fact, verdict_fact, whole_fact
from conch.witness.words import Scored, Witnessed, words_for
from conch_schemas import (
    ActionTaken,
    CycleReflected,
    ExperienceRecorded,
    GoalDropped,
    GoalReached,
    GoalSet,
    Mark,
    MarkLink,
    MarkWitnessed,
    MessageReceived,
    PolicySet,
    RewardAssigned,
    consequence_id,
    cycle_event_id,
)
from conch_schemas.witness import Relation

CONSUMER: Final = "witness"
VERSION: Final = "1"

GENESIS: Final = "0" * 64
"""The previous hash of the first mark."""

RING: Final = 512
"""Most facts other than acts remembered, so that a repeated one makes no second mark."""


PENDING: Final = 64
"""Most acts whose score sets are collected for one mark; of an act beyond, each set gets a mark of its own at once."""
CONTINUED: Final = 50
"""Most goals, most episodes and most messages whose marks are remembered for links: as many goals as may be active."""


class UnsealedScores(BaseModel):
    """The score sets of one act, and its reflection, that were not sealed yet."""

    model_config = ConfigDict(frozen=True)

    facts: dict[str, str] = Field(default_factory=dict)
    principles: dict[str, float] = Field(default_factory=dict)


class ChainState(BaseModel):
    """The head of one agent's chain, stored as JSON between two events. Bounded: at most 512 short digests, and the
    facts of at most 64 acts."""

    model_config = ConfigDict(frozen=True)

    sequence: int = 0
    """Sequence of the next mark."""
    previous: str = GENESIS
    """Hash of the last mark."""
    first: tuple[int, int] | None = None
    """(cycle, step) of the first act that was witnessed."""
    place: tuple[int, int] | None = None
    """(cycle, step) of the last one; an act at or before it makes no mark."""
    values: str = ""
    """Digest of the values in force since the last policy was set."""
    witnessed: Digests = ""
    """Digests of the ids of the last facts other than acts, oldest first."""
    pending: dict[str, UnsealedScores] = Field(default_factory=dict)
    """By action id, oldest first: what its scores' mark will seal."""
    goals: dict[str, str] = Field(default_factory=dict)
    """Id of an active goal -> id of the mark of its being set."""
    episodes: dict[str, str] = Field(default_factory=dict)
    """Name of an episode -> id of the mark of its last act."""
    messages: dict[str, str] = Field(default_factory=dict)
    """Id of a person's message that no act has answered -> id of its mark; the last ones."""


def seal(state: ChainState, fact: Witnessed) -> tuple[ChainState, Mark | None]:
    """The chain after `fact`, and its mark; None for a fact that makes none: an event without a score, one witnessed
    before, and a score set or a reflection that waits for the others of its act.

    Exactly one mark per act. The score sets of an act and its reflection get one mark, with the first revision of its
    experience: then the set is complete, or its deadline has passed. What comes later gets a mark of its own, and so
    does each later revision. The mark of a policy, and each later one, holds the digest of the values that it names. A
    fact that is repeated after more than 512 others gets a second mark, with an id of its own: the chain stays valid.
    """
    if isinstance(fact, PolicySet):
        # From the stream, not from a file: an event that is handled twice gets the same mark twice.
        state = evolve(state, values=fact.values)
    digest = None if isinstance(fact, ActionTaken) else fact_digest(fact.id)
    if _met(state, fact, digest) or (words := words_for(fact)) is None:
        return state, None
    waiting = state.pending.get(fact.action_id or "")
    if waiting is not None and isinstance(fact, Scored | CycleReflected):
        return _collected(state, waiting, fact, digest), None
    facts = _facts(waiting, fact)
    said: dict[str, object] = {
        "id": _mark_id(fact, state.sequence),
        "agent": fact.agent,
        "action_id": fact.action_id,
        "origin": words.origin,
        "domain": words.domain,
        "stimulus": words.stimulus,
        "response": words.response,
        "reasoning": words.reasoning,
        # Every field is set, the empty ones too: the hash is taken over the fields set, and the wire form has all.
        "principles": waiting.principles if waiting is not None else _principles(fact),
        "evidence": words.evidence,
        "links": _links(state, fact),
        "tags": words.tags,
        "values": state.values,
        "event": fact.id,
        "content": facts_hash(facts) if isinstance(fact, ExperienceRecorded) else content_hash(fact),
        "sequence": state.sequence,
        "previous": state.previous,
        "facts": facts,
    }
    mark = valid(Mark, **said, hash=said_hash(said))
    return _advanced(state, fact, mark, digest), mark


def follow_mark(state: ChainState, fact: Witnessed, mark: Mark) -> ChainState:
    """The chain after `fact` where this mark of it was published before, by a version that seals otherwise: the chain
    goes on from the mark that is there."""
    digest = None if isinstance(fact, ActionTaken) else fact_digest(fact.id)
    values = fact.values if isinstance(fact, PolicySet) else state.values
    return _advanced(evolve(state, values=values), fact, mark, digest)


def _collected(
    state: ChainState, waiting: UnsealedScores, fact: Scored | CycleReflected, digest: str | None
) -> ChainState:
    """The chain with a score set, or the reflection, put to those of its act."""
    assert fact.action_id is not None
    assert digest is not None
    whole = {} if isinstance(fact, CycleReflected) else whole_fact(fact)
    more = UnsealedScores(
        facts=facts_of(fact) | whole | waiting.facts, principles=waiting.principles | _principles(fact)
    )
    return evolve(
        state,
        pending=state.pending | {fact.action_id: more},
        witnessed=with_new(state.witnessed, digest, RING),
    )


def _facts(waiting: UnsealedScores | None, fact: Witnessed) -> dict[str, str]:
    """What the mark seals beside the event itself; of an experience, all that it seals."""
    if isinstance(fact, ExperienceRecorded):
        return (waiting.facts if waiting is not None else {}) | verdict_fact(fact) | recorded_fact(fact)
    return facts_of(fact)


def _principles(fact: Witnessed) -> dict[str, float]:
    """Scores by the constitution's principles: seven at most, for any scorer."""
    if not isinstance(fact, RewardAssigned):
        return {}
    return {principle.name: principle.score for principle in fact.principles if principle.name in PRINCIPLES}


def _mark_id(fact: Witnessed, sequence: int) -> str:
    # For a score set not the cause alone: a second mark of it must not have the first one's id.
    index = 0 if isinstance(fact, ActionTaken) else sequence
    return consequence_id(fact.id, CONSUMER, VERSION, MarkWitnessed, index)


def _met(state: ChainState, fact: Witnessed, digest: str | None) -> bool:
    if isinstance(fact, ActionTaken):
        return not is_new(state.place, fact)
    return digest is not None and holds(state.witnessed, digest)


def _links(state: ChainState, fact: Witnessed) -> tuple[MarkLink, ...]:
    """CAUSES from the act's mark, where the act was witnessed, and from the mark of the message that an act answers;
    CONTINUES from the mark of the previous act of the same episode; FULFILLS from the mark of the goal that was
    reached."""
    if isinstance(fact, ActionTaken):
        asked = state.messages.get(fact.message.id) if fact.message is not None else None
        return (*_link(asked, "CAUSES"), *_link(state.episodes.get(fact.episode or ""), "CONTINUES"))
    fulfilled = _link(state.goals.get(fact.goal), "FULFILLS") if isinstance(fact, GoalReached) else ()
    if fact.action_id is None or fact.cycle is None:
        return fulfilled
    if state.first is None or state.place is None or not state.first[0] <= fact.cycle <= state.place[0]:
        return fulfilled
    return (_from_the_act(fact.action_id), *fulfilled)


def _link(source: str | None, relation: Relation) -> tuple[MarkLink, ...]:
    return () if source is None else (MarkLink(source=source, relation=relation),)


@lru_cache(maxsize=1024)
def _from_the_act(action: str) -> MarkLink:
    act = cycle_event_id(action, ActionTaken)
    return MarkLink(source=consequence_id(act, CONSUMER, VERSION, MarkWitnessed), relation="CAUSES")


def _advanced(state: ChainState, fact: Witnessed, mark: Mark, digest: str | None) -> ChainState:
    head: dict[str, object] = {"sequence": mark.sequence + 1, "previous": mark.hash}
    match fact:
        case ActionTaken():
            head |= {"first": state.first or fact.place, "place": fact.place} | _opened(state, fact, mark)
        case ExperienceRecorded() if fact.action_id in state.pending:
            head["pending"] = {action: one for action, one in state.pending.items() if action != fact.action_id}
        case MessageReceived():
            head["messages"] = _last(state.messages | {fact.id: mark.id})
        case GoalSet():
            head["goals"] = _last(state.goals | {fact.goal.id: mark.id})
        case GoalReached() | GoalDropped():
            head["goals"] = {goal: one for goal, one in state.goals.items() if goal != fact.goal}
    if digest is not None:
        head["witnessed"] = with_new(state.witnessed, digest, RING)
    return evolve(state, **head)


def _opened(state: ChainState, act: ActionTaken, mark: Mark) -> dict[str, object]:
    """What changes with a new act: its scores are collected from now on, and it is the last one of its episode."""
    opened: dict[str, object] = {}
    if act.message is not None:
        opened["messages"] = {message: one for message, one in state.messages.items() if message != act.message.id}
    if act.action_id is not None and len(state.pending) < PENDING:
        opened["pending"] = {**state.pending, act.action_id: _NONE}
    if act.episode is not None:
        others = {name: one for name, one in state.episodes.items() if name != act.episode}
        opened["episodes"] = others if act.terminal else _last({**others, act.episode: mark.id})
    return opened


_NONE: Final = UnsealedScores()


def _last(marks: dict[str, str]) -> dict[str, str]:
    """The last CONTINUED of these."""
    return dict(list(marks.items())[-CONTINUED:])


def fact_digest(identity: str) -> str:
    """The digest of an event's id that is remembered."""
    return hashlib.sha256(identity.encode()).hexdigest()[:12]
