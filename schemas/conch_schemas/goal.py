"""Goals, their checks, and the events that set, accept, reach and drop them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from conch_schemas.envelope import Event, Value


class CommandCheck(Value):
    """Achieved when the command, run in the workspace in the sandbox, exits with the status. Measure: 0 or 1."""

    kind: Literal["command"] = "command"
    command: str
    exit_status: int = 0


class FileCheck(Value):
    """Achieved when the file exists in the workspace with the given content. Measure: the share of `contains` found."""

    kind: Literal["file"] = "file"
    path: str
    contains: tuple[str, ...] = ()
    """Texts that must all occur; none: the file need only exist."""
    equals: str | None = None
    """The whole content, ignoring outer white space."""


class TestsCheck(Value):
    """Achieved when all tests pass. Measure: the share that passes, read from unittest's or pytest's summary."""

    __test__ = False

    kind: Literal["tests"] = "tests"
    command: str = "python3 -m unittest"


Check = Annotated[CommandCheck | FileCheck | TestsCheck, Field(discriminator="kind")]


class Goal(Value):
    """A statement of what the agent is to achieve, with its check and priority."""

    id: str
    statement: str = Field(min_length=1, max_length=2000)
    check: Check
    priority: Annotated[float, Field(ge=0, le=1)] = 0.5
    deadline: datetime | None = None
    parent: str | None = None
    """The goal this one is a part of."""
    hidden: bool = False
    """Whether the agent's mind is told the statement and the measure alone: neither the check nor what it found."""

    @property
    def told_check(self) -> Check | None:
        """The check, as far as the mind may know it; None where it is hidden."""
        return None if self.hidden else self.check

    def as_told(self) -> Goal:
        """The goal as the mind may know it: of a hidden check the kind is left, which says what the measure is."""
        if not self.hidden:
            return self
        blank: Check
        match self.check:
            case CommandCheck():
                blank = CommandCheck(command="")
            case FileCheck():
                blank = FileCheck(path="")
            case TestsCheck():
                blank = TestsCheck(command="")
        return self.model_copy(update={"check": blank})


class GoalSet(Event):
    """A goal became active."""

    TYPE: ClassVar = "goal.set"
    type: Literal["conch.v1.goal.set"] = "conch.v1.goal.set"
    goal: Goal
    by: Literal["user", "agent", "home"] = "user"
    """Origin of the goal. `home`: from conch.yaml, or with new material for the workspace. `agent`: the agent set it
    itself, by the act that the event names; it pays in *goal* once a person has accepted it."""
    piece: Annotated[int, Field(ge=0)] | None = None
    """The number of the piece of material that the goal came with; None: it came without one."""


class GoalAccepted(Event):
    """A person accepted a goal that the agent set itself: from now on it pays in *goal*."""

    TYPE: ClassVar = "goal.accepted"
    type: Literal["conch.v1.goal.accepted"] = "conch.v1.goal.accepted"
    goal: str
    """The goal's id."""
    by: Literal["user"] = "user"
    why: str = ""
    """The person's reason; empty: none was given."""


class GoalReached(Event):
    """The goal's own check succeeded. Published once per goal."""

    TYPE: ClassVar = "goal.reached"
    type: Literal["conch.v1.goal.reached"] = "conch.v1.goal.reached"
    goal: str
    statement: str


class GoalDropped(Event):
    """The goal is no longer active."""

    TYPE: ClassVar = "goal.dropped"
    type: Literal["conch.v1.goal.dropped"] = "conch.v1.goal.dropped"
    goal: str
    why: str = ""
    vetoed: bool = False
    """Whether a person vetoed it: a goal that the agent set itself, and may not propose again."""
