"""A person's decision on a goal that the agent set itself. Pure."""

from __future__ import annotations

from typing import Literal

from conch.cycle.state.memory import AgentMemory
from conch.errors import UsageError
from conch.text import safe_text, well_formed

WHY_CHARACTERS = 500
"""Most characters of a person's reason; the rest is cut."""
GoalDecision = Literal["accept", "veto"]
"""What a person says of a goal that the agent set itself."""


def is_decided(memory: AgentMemory, named: str, said: GoalDecision) -> bool:
    """Whether this decision on this goal was taken before: then nothing is left to publish.

    A person may veto a goal that was accepted. Raises UsageError for an acceptance after a veto, for a goal that a
    person or the home set, and for one that is not active.
    """
    shown = safe_text(named, one_line=True)[:60]
    if named in memory.vetoed:
        if said == "veto":
            return True
        raise UsageError(f"the goal {shown} was vetoed and is over: conch goal add sets it as yours")
    active = memory.goals.get(named)
    if active is None and named in memory.known_goals:
        raise UsageError(f"the goal {shown} is over: it was reached or dropped")
    if active is None:
        raise UsageError(f"there is no active goal {shown!r}: conch goal list shows them")
    if not active.own:
        raise UsageError(f"the goal {shown} is not the agent's own and pays already: conch goal drop ends it")
    return said == "accept" and active.accepted


def reason_of(why: str) -> str:
    """A person's reason, as an event holds it."""
    return well_formed(why).strip()[:WHY_CHARACTERS]
