"""Goals: a statement and a check that a program can decide."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from conch_schemas.envelope import Event, Value


class CommandCheck(Value):
    """Achieved when the command exits with the status, run in the workspace, in the sandbox. Measure: 0 or 1."""

    kind: Literal["command"] = "command"
    command: str
    exit_status: int = 0


class FileCheck(Value):
    """Achieved when the file exists in the workspace and its content holds. Measure: the share of `contains` found."""

    kind: Literal["file"] = "file"
    path: str
    contains: tuple[str, ...] = ()
    """Every one of these texts; none: the file need only exist."""
    equals: str | None = None
    """The whole content, outer white space aside."""


class TestsCheck(Value):
    """Achieved when all tests pass. Measure: the share that passes, read from unittest's or pytest's summary."""

    __test__ = False

    kind: Literal["tests"] = "tests"
    command: str = "python3 -m unittest"


Check = Annotated[CommandCheck | FileCheck | TestsCheck, Field(discriminator="kind")]


class Goal(Value):
    """What the agent is after."""

    id: str
    statement: str = Field(min_length=1, max_length=2000)
    check: Check
    priority: Annotated[float, Field(ge=0, le=1)] = 0.5
    deadline: datetime | None = None
    parent: str | None = None
    """The goal this one is a part of."""


class GoalSet(Event):
    """A goal is active from here."""

    TYPE: ClassVar = "goal.set"
    type: Literal["conch.v1.goal.set"] = "conch.v1.goal.set"
    goal: Goal
    by: Literal["user", "agent", "home"] = "user"
    """`home`: from conch.yaml."""


class GoalReached(Event):
    """The goal's own check held. Once a goal."""

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
