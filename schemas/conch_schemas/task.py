"""The state of a task episode, step by step."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from conch_schemas.action import Unit
from conch_schemas.envelope import Event


class TaskProgressed(Event):
    """Where a task stands after a step. What is not known is left out."""

    TYPE: ClassVar = "task.progressed"
    type: Literal["conch.v1.task.progressed"] = "conch.v1.task.progressed"
    episode: str
    """Which task: steps of one episode follow each other in the order of the stream."""
    phase: str | None = None
    """planning, coding, testing, critique or done; None: told by `roles`."""
    roles: dict[str, Unit] | None = None
    """Shares of the messages by role: planner, coder_runner, critic."""
    test_pass_rate: Unit | None = None
    tokens_used: int | None = Field(default=None, ge=0)
    """Since the episode began."""
    topology: str | None = None
    switch_committed: bool = False
    """Whether a switch of the topology was committed in this step."""
    terminal: bool = False
    """The last step: the episode is over."""
