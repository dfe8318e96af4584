"""The witness consumer: reads acts, their scores and totals, and all else that a store keeps and people decide;
publishes `mark.witnessed`."""

from __future__ import annotations

from datetime import UTC, datetime

from conch import consumer
from conch.consumer import envelope_after
from conch.folds import made_of
from conch.witness import CONSUMER, VERSION, WITNESSED_KINDS, ChainState, Witnessed, follow_mark, seal
from conch_schemas import Event, MarkWitnessed

LINGER = 0.03
"""Seconds. Hashing and chaining the facts of a cycle is the most work of all consumers, and no score waits for it."""


async def follow_published(state: ChainState, fact: Witnessed, published: Event) -> ChainState:
    """The chain after a fact whose mark an earlier version published right before it was killed."""
    assert isinstance(published, MarkWitnessed)
    return follow_mark(state, fact, published.mark)


@consumer(
    *WITNESSED_KINDS,
    name=CONSUMER,
    version=VERSION,
    state=ChainState,
    linger=LINGER,
    emits=[MarkWitnessed],
    again=follow_published,
)
def witness(state: ChainState, fact: Witnessed) -> tuple[ChainState, MarkWitnessed | None]:
    """The chain of one agent: one mark per act, one for its scores, one per alarm, message, goal, pause, person's
    decision on an act or on a row of training data, removal at a person's request, weight set, policy, candidate of a
    fork, event of training, and change of needs that no act made."""
    state, mark = seal(state, fact)
    if mark is None:
        return state, None
    # Mark and envelope are valid already: an event of the two has nothing in it that is not.
    return state, made_of(MarkWitnessed, **envelope_after(fact, mark.id), time=datetime.now(UTC), mark=mark)
