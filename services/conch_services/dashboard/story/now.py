"""What an agent does now, folded from its facts in the order of the stream. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from conch.views import action_words
from conch_schemas import ActionTaken, Event, ExperienceRecorded, ThoughtFormed
from conch_services.dashboard.story.strip import RewardStrip, adds, reward_strip

PHASES: Final = ("think", "act", "score", "rest")
ACT_WIDTH: Final = 80
"""Characters of an act's words."""


@dataclass(frozen=True)
class RightNow:
    """What happens now."""

    cycle: int | None = None
    phase: str = ""
    """One of PHASES; empty: nothing has happened yet."""
    began: int | None = None
    """When the phase began, in milliseconds since 1970."""
    thought: str = ""
    act: str = ""
    """In words; empty while it is not decided."""
    reward: RewardStrip | None = None
    """Of the newest cycle that has one."""
    rewarded: int | None = None
    """The cycle of that reward."""


def told_of(now: RightNow, event: Event) -> RightNow:
    """What happens once this event has happened; a late score of an earlier cycle changes nothing."""
    if event.cycle is None or event.cycle < (now.cycle or 0):
        return now
    if isinstance(event, ThoughtFormed):
        return replace(_at(now, event, "act"), thought=event.thought.text, act="")
    if isinstance(event, ActionTaken):
        return replace(_at(now, event, "score"), thought=event.thought, act=action_words(event.action, ACT_WIDTH))
    if isinstance(event, ExperienceRecorded):
        began = now if (now.cycle, now.phase) == (event.cycle, "rest") else _at(now, event, "rest")
        return replace(
            began,
            thought=event.thought,
            act=action_words(event.action, ACT_WIDTH),
            reward=reward_strip(adds(event), event.total),
            rewarded=event.cycle,
        )
    return now


def _at(now: RightNow, event: Event, phase: str) -> RightNow:
    return replace(now, cycle=event.cycle, phase=phase, began=round(event.time.timestamp() * 1000))
