"""What an agent does now, folded from its facts in the order of the stream. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from conch.text import safe_text
from conch.views import action_words
from conch_schemas import (
    ActApproved,
    ActAsked,
    ActDenied,
    ActionDecided,
    ActionTaken,
    AgentSlept,
    AgentWoke,
    Event,
    ExperienceRecorded,
    ThoughtFormed,
)
from conch_services.dashboard.story.strip import RewardStrip, adds, reward_strip

PHASES: Final = ("think", "act", "score", "rest")
ACT_WIDTH: Final = 80
"""Characters of an act's words."""
WRITTEN_WIDTH: Final = 240
"""Characters of what a mind has written so far, the newest."""


@dataclass(frozen=True)
class ReplySoFar:
    """What an agent's mind has written of a reply that has not ended; nothing while it reads the prompt."""

    cycle: int
    phase: str
    """think, decide or reflect."""
    seconds: float
    """Since the mind was asked."""
    text: str


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
    waits: bool = False
    """Whether the act waits for a person's approval."""
    writes: str = ""
    """`thought` or `act`: what the mind writes now, as far as it has come; empty: neither."""
    reward: RewardStrip | None = None
    """Of the newest cycle that has one."""
    rewarded: int | None = None
    """The cycle of that reward."""
    asleep: str = ""
    """Why the agent sleeps, and until when; empty: it is awake."""


def told_of(now: RightNow, event: Event) -> RightNow:
    """What happens once this event has happened; a late score of an earlier cycle changes nothing."""
    if isinstance(event, AgentSlept):
        return replace(now, asleep=f"{event.why}; until {event.until:%H:%M:%S} UTC, or what wakes it")
    if isinstance(event, AgentWoke):
        return replace(now, asleep="")
    if event.cycle is None or event.cycle < (now.cycle or 0):
        return now
    if isinstance(event, ThoughtFormed):
        return replace(_at(now, event, "act"), thought=event.thought.text, act="")
    if isinstance(event, ActAsked | ActionDecided):
        act, waits = action_words(event.action, ACT_WIDTH), isinstance(event, ActAsked)
        return replace(_at(now, event, "act"), act=act, waits=waits)
    if isinstance(event, ActApproved | ActDenied):
        return replace(now, waits=False) if event.cycle == now.cycle else now
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


def with_reply(now: RightNow, reply: ReplySoFar, seconds: float) -> RightNow:
    """The same with what the mind writes at this time, in seconds since 1970. A reply of an earlier cycle, or about
    what has come already, changes nothing."""
    part = {"think": "thought", "decide": "act"}.get(reply.phase)
    has_come = reply.cycle == now.cycle and (part == "thought" or now.act)
    if part is None or reply.cycle < (now.cycle or 0) or has_come:
        return now
    text = safe_text(reply.text)
    text = text if len(text) <= WRITTEN_WIDTH else f"…{text[1 - WRITTEN_WIDTH :]}"
    thought, act = (text, "") if part == "thought" else (now.thought if reply.cycle == now.cycle else "", text)
    return replace(
        now,
        cycle=reply.cycle,
        phase="think" if part == "thought" else "act",
        began=round((seconds - reply.seconds) * 1000),
        thought=thought,
        act=act,
        waits=False,
        writes=part,
    )


def _at(now: RightNow, event: Event, phase: str) -> RightNow:
    began = round(event.time.timestamp() * 1000)
    return replace(now, cycle=event.cycle, phase=phase, began=began, waits=False)
