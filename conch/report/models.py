"""What a report holds: the same document as its page shows, as JSON within the page."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from conch.views import GoalPaceShown, LineageShown, VerdictKind, View, WholeCycle
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


class ReportedAdapter(View):
    """Acts under one adapter, or under the base alone."""

    adapter: str | None
    """Digest; None: the base alone."""
    cycles: int
    mean: float
    """Mean total of these acts."""
    free: int
    """Replies that were decoded without a constraint."""
    valid: int
    """Those of them that were valid actions."""
    succeeded: int
    """Acts whose outcome is success."""


class ReportedCost(View):
    """What one round of training took; None where it made no adapter."""

    generation: int
    method: str
    rows: int
    tokens: int | None
    """Of the rows, once."""
    minutes: float | None
    peak_mib: float | None
    phase: str


class ReportedTraining(View):
    """What training has made of an agent."""

    lineage: LineageShown
    """With the round whole whose adapter acts, else the newest."""
    adapters: tuple[ReportedAdapter, ...]
    """In the order of their first acts."""
    costs: tuple[ReportedCost, ...]
    """Of each round, oldest first."""

    @property
    def names(self) -> dict[str | None, str]:
        """Of the base and of each adapter, for people."""
        made = {one.adapter: one.generation for one in self.lineage.generations if one.generation is not None}
        return {
            one.adapter: "base"
            if one.adapter is None
            else f"generation {made[one.adapter]}"
            if one.adapter in made
            else one.adapter[:12]
            for one in self.adapters
        }


class ReportedVerdict(View):
    """Whether the agent got better, in words, as the first page of the dashboard says it."""

    kind: VerdictKind
    headline: str
    """One sentence."""
    details: tuple[str, ...]
    """Further sentences, with the figures."""
    start: float | None
    """Mean total of the first 100 cycles; None of fewer than 200."""
    pace: GoalPaceShown | None = None
    """Acts for a goal; None: there were no goals, or too few acts."""


class ReportedChange(View):
    """A figure of the first and of the last 100 cycles, in words."""

    title: str
    first: str
    last: str
    difference: str
    kind: str
    """good, bad, or empty where a change is neither."""


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
    training: ReportedTraining | None = None
    """None: nothing was trained."""
    changes: tuple[ReportedChange, ...] = ()
    """What changed from the first to the last 100 cycles; empty of fewer than 200."""
    verdict: ReportedVerdict | None = None
    """None: in a report of a version that made none."""


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
