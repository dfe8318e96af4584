"""The need events that the agent measures: what it learned, what is new to it, what it runs short of. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

LEAST_WORD = 4
"""Letters of a word that tells something of a topic: shorter ones are in every text."""
FROM_ACTS = 2
"""Acts that a lesson is written from, at least."""
WORDS_FROM_ACT = 2
"""Words that each of these acts gives to it, at least, beside those of the other acts."""
NEW_SHARE = 0.5
"""Share of a message's or a goal's words that are new where its topic is."""
LOW, ENOUGH = 0.10, 0.30
"""Shares of a resource that are left: below the first it is low, above the second it has recovered."""

_WORD = re.compile(rf"[^\W\d_]{{{LEAST_WORD},}}")


def words_of(text: str) -> set[str]:
    """The words of at least LEAST_WORD letters, case aside."""
    return set(_WORD.findall(text.casefold()))


def drawn_from(note: str, outputs: Iterable[str]) -> int:
    """Number of acts, given by their outputs, that a note takes words from."""
    left, acts = words_of(note), 0
    for output in outputs:
        given = left & words_of(output)
        if len(given) >= WORDS_FROM_ACT:
            acts += 1
            left -= given
    return acts


def is_new_topic(words: Collection[int], known: Collection[int]) -> bool:
    """Whether at least NEW_SHARE of a text's words (as digests), and two or more, are not among the `known`."""
    new = sum(word not in known for word in words)
    return new >= 2 and new >= NEW_SHARE * len(words)


def resources_after(low: tuple[str, ...], left: Mapping[str, float]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(resources that are low now, need events), from those that were low and the share of each that is left, 0..1."""
    now = tuple(name for name, share in left.items() if share < LOW or (name in low and share <= ENOUGH))
    events = ["resource_low"] if set(now) - set(low) else []
    events += ["resource_recovered"] if (set(low) & set(left)) - set(now) else []
    return now, tuple(events)
