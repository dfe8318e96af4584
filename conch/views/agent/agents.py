"""The view of a home's agents, for the HTTP API."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from conch.views.base import View


class AgentRow(View):
    """An agent that acts, or has acted."""

    agent: str
    running: bool
    """Whether the run in progress has it."""
    last_cycle: int | None
    """Number of its last cycle; None: it has none."""
    mean: float | None
    """Mean of the totals of its last 100 cycles; None without any."""


class Agents(View):
    """Every agent of the home."""

    schema_: Literal["conch.v1.agents"] = Field(default="conch.v1.agents", alias="schema")
    agents: tuple[AgentRow, ...]
