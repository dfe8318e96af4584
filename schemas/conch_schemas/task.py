"""The step of an act in its task, and the event of a task episode's progress."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from conch_schemas.action import Unit
from conch_schemas.envelope import Event, Value, consequence_id


class TaskStep(Value):
    """The state of a task after an act, as the act has it. Unknown values are left out."""

    phase: str | None = None
    """planning, coding, testing, critique or done; None: determined by `roles`."""
    roles: dict[str, Unit] | None = None
    """Shares of the messages by role: planner, coder_runner, critic."""
    test_pass_rate: Unit | None = None
    tokens_used: int | None = Field(default=None, ge=0)
    """Output tokens since the episode began."""
    topology: str | None = None
    switch_committed: bool = False
    """Whether a switch of the topology was committed in this step."""


class TaskProgressed(Event):
    """The state of a task after a step. Unknown values are left out."""

    TYPE: ClassVar = "task.progressed"
    type: Literal["conch.v1.task.progressed"] = "conch.v1.task.progressed"
    episode: str
    """The episode's name: its steps follow each other in stream order."""
    phase: str | None = None
    """planning, coding, testing, critique or done; None: determined by `roles`."""
    roles: dict[str, Unit] | None = None
    """Shares of the messages by role: planner, coder_runner, critic."""
    test_pass_rate: Unit | None = None
    tokens_used: int | None = Field(default=None, ge=0)
    """Output tokens since the episode began."""
    topology: str | None = None
    switch_committed: bool = False
    """Whether a switch of the topology was committed in this step."""
    terminal: bool = False
    """Whether this is the last step of the episode."""


def task_step_id(act: str) -> str:
    """The id of the `task.progressed` of an act, from the act's own id."""
    return consequence_id(act, "cycle", "1", TaskProgressed)
