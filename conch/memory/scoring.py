"""How memories are ranked: relevance × recency × importance. Pure.

The three factors, the decay and the importance of what was said are those of Park et al., "Generative Agents" (UIST
2023, section 4.1), which adds them up; here they are multiplied, so that a memory that does not fit is never recalled
for its age or its importance alone. Floors keep one factor from deciding alone.
"""

from __future__ import annotations

import math
from typing import Final

from conch.memory.models import MemoryKind

DECAY: Final = 0.995
"""Recency of a memory an hour older, relative (Park et al.): half after 138 hours."""
HALF_LIFE: Final = 3600.0 * math.log(0.5) / math.log(DECAY)
"""Seconds after which the recency is half."""
RECENCY_FLOOR: Final = 0.7
"""Share of the recency factor that a memory never loses: age decides among memories that fit about as well. Measured by
`ops/bench memory` on ages up to 30 days: with 0.4, of 100 questions in a fact's own words 27 miss it, with 0.7 none."""
IMPORTANCE_FLOOR: Final = 0.5
"""The same for importance: the least important memory counts half of the most important one. Set, not measured."""
LEAST: Final = 0.05
"""Least importance of a memory."""

BY_KIND: Final[dict[MemoryKind, float]] = {
    "message": 1.0,
    "lesson": 0.8,
    "note": 0.7,
    "fact": 0.3,
    "episode": 0.1,
}
"""Importance of each kind, 0 to 1: a person's words most, what is easily found again least. Set, not measured. An
episode's grows with its reward."""
GOAL_REACHED: Final = 0.9
"""Importance of a reached goal."""


def importance_of(kind: MemoryKind, total: float = 0.0) -> float:
    """Importance of a memory, 0 to 1; an episode's grows with the size of its reward `total`, good or bad."""
    least = BY_KIND[kind]
    return least + (1.0 - least) * min(1.0, abs(total)) if kind == "episode" else least


def recency(at: float, now: float) -> float:
    """Above 0, at most 1: DECAY to the power of the hours since `at`; a time in the future counts as now."""
    return float(DECAY ** (max(0.0, now - at) / 3600.0))


def score(relevance: float, importance: float, at: float, now: float) -> float:
    """The rank of a memory, 0 to 1; it rises with each of relevance, recency and importance."""
    fresh = RECENCY_FLOOR + (1.0 - RECENCY_FLOOR) * recency(at, now)
    weighty = IMPORTANCE_FLOOR + (1.0 - IMPORTANCE_FLOOR) * importance
    return relevance * fresh * weighty


def worth(importance: float, at: float) -> float:
    """What the bounds keep a memory for: its order is that of importance × recency, at every time.

    The logarithm to base 2 of that product changes by the same amount for all memories as time passes; so it is stored
    once, without the time: log2(importance) + at / HALF_LIFE.
    """
    return math.log2(max(LEAST, importance)) + at / HALF_LIFE
