"""Rebuilds a chain's head from the marks in the experience store, after the stream and its states were lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from conch.folds import Digests, with_new
from conch.witness.chain import GENESIS, RING, ChainState, fact_digest
from conch.witness.facts import sealed_facts
from conch_schemas import Mark

Place = tuple[int, int]


def regained(marks: Iterable[Mark], place_of: Callable[[str], Place | None]) -> ChainState:
    """The state after these marks of one agent, which are given in order of sequence.

    `place_of`: (cycle, step) of an action; None where that is not known.
    """
    sequence, previous, values = 0, GENESIS, ""
    first = last = None
    witnessed: Digests = ""
    for mark in marks:
        sequence, previous, values = mark.sequence + 1, mark.hash, mark.values
        if mark.domain != "action":
            sets = [fact.id for fact in sealed_facts(mark) if "." in fact.kind]
            for identity in (*sets, mark.event):
                witnessed = with_new(witnessed, fact_digest(identity), RING)
        elif mark.action_id is not None:
            first, last = first or place_of(mark.action_id), mark.action_id
    return ChainState(
        sequence=sequence,
        previous=previous,
        first=first,
        place=place_of(last) if last is not None else None,
        values=values,
        witnessed=witnessed,
    )
