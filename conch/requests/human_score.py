"""A person's own score of an act, published at any time after it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from conch.bus import Bus
from conch.config import BUILTIN_COMPONENTS, Settings
from conch.consumer import follow
from conch.errors import UsageError
from conch.rules import NAME
from conch_schemas import (
    HUMAN_SCORER,
    ActionTaken,
    ExperienceRecorded,
    RewardAssigned,
    Score,
    decode,
    encode,
    subject_of,
)

RANGE: Final = (-1.0, 1.0)
"""The range of a person's component where `rewards.parts` names no other: blame to praise."""
LONGEST: Final = 1000
"""Longest comment on a score, in characters."""
APPROVAL: Final = "approval"
"""The component of a person's approval or rejection of a whole act: 1 or -1."""


def score_range(name: str, settings: Settings) -> tuple[float, float]:
    """The least and the greatest value that counts."""
    part = settings.rewards.parts.get(name)
    return part.range if part is not None else RANGE


def refuse_score(name: str, value: float, why: str, limits: tuple[float, float]) -> None:
    """Raises UsageError for what cannot be a score."""
    low, high = limits
    if name in BUILTIN_COMPONENTS:
        raise UsageError(f"--name {name}: that is a built-in part, which a rule scores: choose a name of your own")
    if not NAME.match(name):
        raise UsageError(f"--name {name[:60]}: a name is small letters, digits, '_' and '-', at most 48")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UsageError(f"--range {low:g} {high:g}: two finite numbers, the lesser first")
    if not low <= value <= high:  # not a number is in no range
        raise UsageError(f"--value {value:g} is outside {low:g}..{high:g} (--range LO HI names another range)")
    if not why.strip():
        raise UsageError("--why needs a text: what the score rests on")
    if len(why) > LONGEST:
        raise UsageError(f"--why has {len(why):,} characters, at most {LONGEST:,} are kept: say it shorter")


def next_number(versions: Iterable[str]) -> int:
    """The number of a person's next score of an act, given the versions of the earlier ones."""
    return 1 + max((int(version) for version in versions if version.isascii() and version.isdigit()), default=0)


def said_score(
    act: ActionTaken, name: str, value: float, why: str, limits: tuple[float, float], number: int
) -> RewardAssigned:
    """A person's score of the act as a fact; its version is its number. The same number twice has the same id."""
    score = Score(
        component=name,
        value=value,
        range=limits,
        status="scored",
        explanation=why,
        scorer=HUMAN_SCORER,
        version=str(number),
    )
    return follow(
        act,
        RewardAssigned,
        consumer=f"{HUMAN_SCORER}-{name}",
        version=str(number),
        scorer=HUMAN_SCORER,
        scores=(score,),
    )


def is_said(whole: ExperienceRecorded | None, name: str, value: float, why: str) -> bool:
    """Whether the person's newest score of that name that counts is this one; `whole`: the act's experience."""
    shown = () if whole is None else whole.scores
    mine = [one for one in shown if (one.component, one.scorer) == (name, HUMAN_SCORER)]
    return any((one.value, one.explanation) == (value, why) for one in mine)


async def publish_score(
    bus: Bus, act: ActionTaken, name: str, value: float, why: str, limits: tuple[float, float], number: int
) -> RewardAssigned:
    """Publish a person's score; where the same one is on the stream under its number, that one is returned: twice is
    once.

    A number that another score has, which the store has not joined yet, is skipped. Raises BusError.
    """
    while True:
        said = said_score(act, name, value, why, limits, number)
        stored = await bus.publish(subject_of(said), encode(said), id=said.id)
        if not stored.duplicate or await _same(bus, stored.seq, said):
            return said
        number += 1


async def _same(bus: Bus, seq: int, said: RewardAssigned) -> bool:
    """Whether the event at that sequence is the same score. A trimmed one counts as different."""
    there = await bus.at(seq)
    if there is None:
        return False
    event = decode(there.data)
    return isinstance(event, RewardAssigned) and event.id == said.id and event.scores == said.scores
