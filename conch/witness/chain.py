"""The hash chain of one agent's marks: a pure fold over its acts and their scores."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

from pydantic import BaseModel, ConfigDict

from conch.folds import Digests, evolve, holds, is_new, valid, with_new
from conch.rewards import PRINCIPLES
from conch.witness.canonical import content_hash, said_hash
from conch.witness.words import Witnessed, words_for
from conch_schemas import (
    ActionTaken,
    Mark,
    MarkLink,
    MarkWitnessed,
    PolicySet,
    RewardAssigned,
    consequence_id,
    cycle_event_id,
)

CONSUMER: Final = "witness"
VERSION: Final = "1"

GENESIS: Final = "0" * 64
"""The previous hash of the first mark."""

RING: Final = 512
"""Most score sets remembered, so that a repeated one makes no second mark."""


class ChainState(BaseModel):
    """The head of one agent's chain, stored as JSON between two events. Bounded: at most 512 short digests."""

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
    """Digests of the ids of the last score sets, oldest first."""


def seal(state: ChainState, fact: Witnessed) -> tuple[ChainState, Mark | None]:
    """The chain after `fact`, and its mark; None for an event without a score and for one witnessed before.

    Exactly one mark per act. A score set that is repeated after more than 512 others gets a second mark, with an id of
    its own: the chain stays valid.
    """
    words = words_for(fact)
    digest = None if isinstance(fact, ActionTaken) else fact_digest(fact.id)
    if words is None or _met(state, fact, digest):
        return state, None
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
        "principles": _principles(fact),
        "evidence": words.evidence,
        "links": _links(state, fact),
        "tags": (),
        "values": state.values,
        "event": fact.id,
        "content": content_hash(fact),
        "sequence": state.sequence,
        "previous": state.previous,
    }
    mark = valid(Mark, **said, hash=said_hash(said))
    return _advanced(state, fact, mark, digest), mark


def under(state: ChainState, policy: PolicySet) -> ChainState:
    """The chain under the values of this policy: every later mark holds their digest. The digest comes from the stream,
    not from a file: an event that is handled twice gets the same mark twice."""
    return evolve(state, values=policy.values)


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
    """The link from the act's mark to the mark of its scores, where the act was witnessed."""
    if isinstance(fact, ActionTaken) or fact.action_id is None or fact.cycle is None:
        return ()
    if state.first is None or state.place is None or not state.first[0] <= fact.cycle <= state.place[0]:
        return ()
    return (_from_the_act(fact.action_id),)


@lru_cache(maxsize=1024)
def _from_the_act(action: str) -> MarkLink:
    act = cycle_event_id(action, ActionTaken)
    return MarkLink(source=consequence_id(act, CONSUMER, VERSION, MarkWitnessed), relation="CAUSES")


def _advanced(state: ChainState, fact: Witnessed, mark: Mark, digest: str | None) -> ChainState:
    sequence, previous = mark.sequence + 1, mark.hash
    if isinstance(fact, ActionTaken):
        first = state.first or fact.place
        return evolve(state, sequence=sequence, previous=previous, first=first, place=fact.place)
    assert digest is not None
    witnessed = with_new(state.witnessed, digest, RING)
    return evolve(state, sequence=sequence, previous=previous, witnessed=witnessed)


def fact_digest(identity: str) -> str:
    """The digest of an event's id that is remembered."""
    return hashlib.sha256(identity.encode()).hexdigest()[:12]
