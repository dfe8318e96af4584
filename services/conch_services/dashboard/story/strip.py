"""A total as a strip: its amounts side by side, what is paid above and what is taken off below. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from conch.rewards.watch import ComposedReward, amounts
from conch.views import step_words
from conch_services.dashboard.drawings.numerals import signed

WIDTH: Final = 100.0
"""Width of a strip, which stands for a sum of 1, or for the larger of the two sums where that is more."""
COLOURS: Final = 12
"""Colours of the page, 1 to 12."""
OF_CONCH: Final = 8
"""Those of the parts that come with Conch; other parts have the rest."""
HUES: Final = (1, 2, 3, 4, 7, 9, 10, 11, 12)
"""All but the grey one, and red and green, which say bad and good."""
_OWN: Final = {
    "execution": 2,
    "format": 1,
    "goal": 8,
    "needs": 3,
    "exploration": 4,
    "repetition": 5,
    "progress": 7,
    "sustainability": 2,
    "reliability": 1,
    "curiosity": 7,
    "excellence": 3,
    "competence": 8,
    "autonomy": 5,
    "social": 4,
    "intrinsic": 6,
    "taken off for repetition": 5,
    "cut while a need starves": 6,
}
"""The colours of parts that come with Conch; another one's comes from its name, so that it is the same everywhere."""
LEAST: Final = 0.0005
"""Smaller amounts are not drawn: they round to nothing."""


class StripPart(NamedTuple):
    """An amount of a total."""

    name: str
    """By what it does."""
    amount: float
    said: str
    colour: int
    x: float
    width: float


class RewardStrip(NamedTuple):
    """A total and the amounts that add up to it."""

    paid: Sequence[StripPart]
    """Those above 0, the largest first."""
    taken: Sequence[StripPart]
    """Those below 0, the largest first."""
    total: str
    words: str
    """All amounts in words: `execution +0.250, format +0.150 = +0.400`."""


def adds(experience: ComposedReward) -> dict[str, float]:
    """The amounts of a total by what each does to it, zero where a part paid nothing; they sum to the total."""
    found: dict[str, float] = {}
    for step, amount in amounts(experience).items():
        name = step_words(step)
        found[name] = round(found.get(name, 0.0) + amount, 6)
    return found


def colour_of(name: str) -> int:
    """The colour of a part: by its name alone, the same on every page and in every chart."""
    return _OWN.get(name) or 1 + OF_CONCH + zlib.crc32(name.encode()) % (COLOURS - OF_CONCH)


def distinct_colours(names: Iterable[str]) -> dict[str, int]:
    """A colour for each name, whatever order the names come in: one of HUES, and of at most nine no two alike."""
    found: dict[str, int] = {}
    for name in sorted(names):
        at = HUES.index(_OWN[name]) if _OWN.get(name) in HUES else zlib.crc32(name.encode()) % len(HUES)
        found[name] = next((one for one in (*HUES[at:], *HUES) if one not in found.values()), HUES[at])
    return found


def colours_of(charts: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """The colour of each line of these charts, by its name."""
    return {name: colour_of(name) for lines in charts.values() for name in lines}


def reward_strip(found: Mapping[str, float], total: float) -> RewardStrip:
    """The strip of these amounts."""
    paid = sorted(((name, one) for name, one in found.items() if one >= LEAST), key=lambda one: -one[1])
    taken = sorted(((name, one) for name, one in found.items() if one <= -LEAST), key=lambda one: one[1])
    longest = max(1.0, sum(one for _, one in paid), -sum(one for _, one in taken))
    said = ", ".join(f"{name} {signed(one)}" for name, one in (*paid, *taken)) or "nothing was paid"
    return RewardStrip(_placed(paid, longest), _placed(taken, longest), signed(total), f"{said} = {signed(total)}")


def _placed(some: Sequence[tuple[str, float]], longest: float) -> list[StripPart]:
    placed, x = [], 0.0
    for name, amount in some:
        width = WIDTH * abs(amount) / longest
        placed.append(StripPart(name, amount, signed(amount), colour_of(name), round(x, 2), round(width, 2)))
        x += width
    return placed
