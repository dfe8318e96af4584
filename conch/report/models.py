"""What a report holds: the same document as its page shows, as JSON within the page."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from conch.views import View, WholeCycle
from conch_schemas import Mark


class ReportedComponent(View):
    """A component of the reward over the cycles of a run."""

    component: str
    scorer: str
    weight: float
    """In the newest of the cycles."""
    scored: int
    """Cycles in which it was scored."""
    mean: float | None
    """Of the scored values; None without any."""


class ReportedGoal(View):
    """A goal that its check found reached."""

    goal: str
    cycle: int
    """The first cycle in which it was."""


class ReportedCycle(View):
    """A cycle of a run in a line."""

    cycle: int
    action: str
    outcome: str
    total: float


class ReportedRun(View):
    """An agent's recorded cycles in figures."""

    home: str
    """Name of the home's directory."""
    agent: str
    cycles: int
    first: int
    """Number of the first cycle, like `last`."""
    last: int
    began: str
    """When the first act was published, UTC; `ended`: the last one."""
    ended: str
    mean_total: float
    coverage: float
    """Mean, 0..1."""
    valid: float
    """Share of the replies that were valid actions, 0..1."""
    succeeded: float | None
    """Share of the tool calls whose outcome is success, 0..1; None without any call."""
    outcomes: dict[str, int]
    components: tuple[ReportedComponent, ...]
    """Of the last 1,000 cycles, the heaviest first."""
    goals: tuple[ReportedGoal, ...]
    """Goals reached, in the order in which they were."""
    policies: tuple[str, ...]
    """Digests of the policies that acted, in the order of their first cycle."""
    curve: tuple[float, ...]
    """Mean totals of equally many cycles each, oldest first."""
    best: tuple[ReportedCycle, ...]
    worst: tuple[ReportedCycle, ...]
    marks: int
    """Marks in the chain."""
    chain: str
    """What their verification found, in a sentence."""
    last_marks: tuple[Mark, ...]
    """The last marks of the chain, oldest first."""


class Report(View):
    """One cycle, one run, or two of a kind side by side."""

    schema_: Literal["conch.v1.report"] = Field(default="conch.v1.report", alias="schema")
    title: str
    made: str
    """When it was made, UTC."""
    version: str
    """Of Conch."""
    cycles: tuple[WholeCycle, ...] = ()
    runs: tuple[ReportedRun, ...] = ()

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Every mark that it holds."""
        return tuple(mark for one in self.cycles for mark in one.marks) + tuple(
            mark for one in self.runs for mark in one.last_marks
        )
