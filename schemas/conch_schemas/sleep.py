"""The events of an agent that sleeps while there is nothing to do, and wakes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from conch_schemas.envelope import Event

WakeReason = Literal["message", "goal", "approval", "file", "sensor", "deadline", "resume", "start", "stop"]
"""What wakes an agent: a person's message; a goal that somebody else set, accepted, changed or dropped; a person's
decision on an act; a changed file of the workspace; a sensor's new value; a goal's deadline; the end of a pause; a
start of the run; its stop."""


class AgentSlept(Event):
    """The agent sleeps, as there is nothing to do: it has no cycle and asks its mind nothing.

    A sleep whose time is over with nothing changed goes on as a longer one, which is another event.
    """

    TYPE: ClassVar = "agent.slept"
    type: Literal["conch.v1.agent.slept"] = "conch.v1.agent.slept"
    number: int = Field(ge=0)
    """Of the agent's sleeps, from 0 on."""
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """How long the sleep is meant to last, by a clock that nobody sets."""
    until: datetime
    """Its end by the clock on the wall, UTC, for display."""
    why: str
    """Why there is nothing to do, in a sentence."""


class AgentWoke(Event):
    """The agent is awake: its next cycle follows, unless it is told to stop."""

    TYPE: ClassVar = "agent.woke"
    type: Literal["conch.v1.agent.woke"] = "conch.v1.agent.woke"
    number: int = Field(ge=0)
    """Of the sleep that it ended."""
    by: WakeReason
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """How long the agent slept, from its first sleep in a row on; 0 at a start, as its process ended meanwhile."""
    why: str
    """What woke it, in a sentence."""
