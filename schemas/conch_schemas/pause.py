"""The events of an agent that a person lets wait and go on."""

from __future__ import annotations

from typing import ClassVar, Literal

from conch_schemas.envelope import Event


class AgentPaused(Event):
    """A person paused the agent: it waits before its next cycle."""

    TYPE: ClassVar = "agent.paused"
    type: Literal["conch.v1.agent.paused"] = "conch.v1.agent.paused"


class AgentResumed(Event):
    """A person let a paused agent go on."""

    TYPE: ClassVar = "agent.resumed"
    type: Literal["conch.v1.agent.resumed"] = "conch.v1.agent.resumed"
