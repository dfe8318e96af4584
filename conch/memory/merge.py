"""When two memories say the same, and when they contradict each other. Pure: no model is asked.

The rules are narrow on purpose: two memories that stay apart cost a little room, two that were merged wrongly lose
one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from conch.memory.models import STATED, MemoryKind
from conch.memory.words import NEGATIONS, STOPWORDS, words_of

ALIKE: Final = 0.9
"""Share of the words of two texts that both have, from which they say the same; as near-duplicate detection uses it
(Broder 1997: resemblance)."""
LEAST_WORDS: Final = 3
"""Telling words that a text needs to be compared by its words."""
VALUE_WORDS: Final = 6
"""Most words of a value in `subject is value`."""

_STATES = re.compile(
    r"^\s*(?P<subject>[^\n]{2,120}?)(?:\s*[:=]\s+|\s+(?:is|are|was|were)\s+)(?P<value>[^\n]{1,120})\s*$"
)
_NUMBER = re.compile(r"\d")

Why = Literal["one denies it", "other numbers", "another value"]


@dataclass(frozen=True)
class Contradiction:
    """Two memories that state different things of the same."""

    one: str
    """Id of the earlier memory."""
    other: str
    """Id of the later one."""
    why: Why


@dataclass(frozen=True)
class _Sides:
    """The words of a text by what they do in it."""

    telling: frozenset[str]
    numbers: tuple[str, ...]
    negations: int
    subject: tuple[str, ...]
    value: tuple[str, ...]


@lru_cache(maxsize=1024)
def _sides(text: str) -> _Sides:
    words = words_of(text)
    stated = _STATES.match(text)
    return _Sides(
        telling=frozenset(
            word for word in words if word not in STOPWORDS and word not in NEGATIONS and not _NUMBER.search(word)
        ),
        numbers=tuple(sorted(word for word in words if _NUMBER.search(word))),
        negations=sum(word in NEGATIONS for word in words),
        subject=words_of(stated["subject"]) if stated is not None else (),
        value=words_of(stated["value"]) if stated is not None else (),
    )


def is_duplicate(one: str, other: str) -> bool:
    """Whether two texts say the same: the same words in the same order, or ALIKE of their telling words with the same
    numbers and as many negations. Symmetric; every text is its own duplicate."""
    if words_of(one) == words_of(other):
        return True
    a, b = _sides(one), _sides(other)
    return a.numbers == b.numbers and a.negations == b.negations and a.value == b.value and _alike(a, b)


def contradiction_of(kind: MemoryKind, one: str, other_kind: MemoryKind, other: str) -> Why | None:
    """Why two memories contradict each other; None: they do not. Symmetric; a duplicate is no contradiction.

    Of two statements (STATED) with the same telling words, one denies what the other says, or has other numbers; or
    both say `subject is value` of one subject with different values.
    """
    if kind not in STATED or other_kind not in STATED or is_duplicate(one, other):
        return None
    a, b = _sides(one), _sides(other)
    if _alike(a, b):
        if (a.negations % 2) != (b.negations % 2):
            return "one denies it"
        if a.numbers != b.numbers and len(a.numbers) == len(b.numbers):
            return "other numbers"
    if a.subject and a.subject == b.subject and a.value != b.value and _is_short(a) and _is_short(b):
        return "one denies it" if (a.negations % 2) != (b.negations % 2) else "another value"
    return None


def _alike(a: _Sides, b: _Sides) -> bool:
    both = a.telling | b.telling
    return len(a.telling) >= LEAST_WORDS and len(a.telling & b.telling) >= ALIKE * len(both)


def _is_short(side: _Sides) -> bool:
    return 0 < len(side.value) <= VALUE_WORDS
