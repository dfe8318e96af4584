"""The acts most like one that earned more: what the same behaviour was paid at its best, and for what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from conch.experience import CycleFilter, CycleOrder, ExperienceReader
from conch.text import safe_text
from conch.views import action_words, needed
from conch_schemas import ExperienceRecorded
from conch_services.dashboard.story.strip import adds

SHOWN: Final = 5
"""Acts that are named, those that earned most."""
NEAR: Final = 10_000
"""Cycles before and behind that are looked through: 6 ms of processor time."""
LEAST: Final = 0.0005
"""The least that another act earned more: what is written differs."""
PARTS: Final = 2
"""Parts of the difference that are named, the largest."""


class BetterAct(NamedTuple):
    """An act of the same skill with a greater total."""

    cycle: int
    act: str
    total: float
    more: float
    """How much more it earned."""
    by: Sequence[tuple[str, float]]
    """(part of the reward, what that paid more), the largest difference first."""
    same_need: bool
    """Whether the same need was least satisfied before it."""


def better_acts(reader: ExperienceReader, one: ExperienceRecorded) -> Sequence[BetterAct]:
    """The acts with the skill of this one that earned more; those under the same need before the others."""
    cycle, need = one.cycle or 0, needed(one.needs_before or {})
    skill = "invalid" if not one.action.valid else one.action.skill[:100]
    like = CycleFilter(skill=skill, least=one.total + LEAST, first=max(0, cycle - NEAR), last=cycle + NEAR)
    order = CycleOrder("total")
    found = reader.cycles.ranked(one.agent, CycleFilter(**(vars(like) | {"need": need})), order, SHOWN) if need else []
    if len(found) < SHOWN:
        there = {each.cycle for each in found}
        others = reader.cycles.ranked(one.agent, like, order, 2 * SHOWN)
        found = [*found, *(each for each in others if each.cycle not in there)][:SHOWN]
    own = adds(one)
    return [_told(each, one.total, own, need) for each in found]


def _told(other: ExperienceRecorded, total: float, own: dict[str, float], need: str) -> BetterAct:
    paid = adds(other)
    away = {name: round(paid.get(name, 0.0) - own.get(name, 0.0), 6) for name in (*paid, *own)}
    by = sorted(((name, more) for name, more in away.items() if more >= LEAST), key=lambda each: -each[1])
    words = safe_text(action_words(other.action, 60), one_line=True)
    same = needed(other.needs_before or {}) == need
    return BetterAct(other.cycle or 0, words, other.total, other.total - total, by[:PARTS], same)
