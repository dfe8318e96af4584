"""What the store says of agents, for a table of all of them: cheap figures of each, the rest of those on one page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from conch.experience import ExperienceReader
from conch.views import costs_words
from conch_services.dashboard.drawings.numerals import signed

LAST: Final = 100
"""Cycles that the mean and the cost are over."""
CURVE_CYCLES: Final = 400
"""Newest cycles of a curve."""
CURVE_POINTS: Final = 40
WIDTH, HEIGHT = 120.0, 24.0
"""Of the drawing of a curve."""
LEAST_SPAN: Final = 0.1
"""Least range of a curve's axis: less is a level line."""


class AgentBrief(NamedTuple):
    """What the table is sorted by."""

    agent: str
    cycle: int | None
    """Its last recorded cycle; None: it has none."""
    mean: float | None
    """Mean total of its last 100 cycles."""


class AgentMore(NamedTuple):
    """The rest of an agent's row."""

    curve: str
    """The path of its rewards in buckets of neighbouring cycles; empty: fewer than two."""
    curve_words: str
    goals: int
    """Goals that its newest act was checked against."""
    best: float | None
    """The best measure among them."""
    reached: int
    """Of them, how many are reached."""
    cost: str
    """Of its last 100 cycles, in words; empty: it used no tokens."""
    policy: str
    """The first digits of the digest of the policy that acted last."""


NOTHING_MORE: Final = AgentMore("", "", 0, None, 0, "", "")


def briefs(reader: ExperienceReader, agents: Sequence[str]) -> list[AgentBrief]:
    """The brief figures of these agents, some 0.2 ms each."""
    return [
        AgentBrief(name, reader.cycles.last_cycle(name), reader.charts.figures(name, LAST).mean_total)
        for name in agents
    ]


def more_of(reader: ExperienceReader, brief: AgentBrief) -> AgentMore:
    """The rest of one row, some 5 ms."""
    if brief.cycle is None:
        return NOTHING_MORE
    charts = reader.charts
    since = max(0, brief.cycle - CURVE_CYCLES + 1)
    totals = [total for page in charts.totals(brief.agent, since) for _, total in page]
    checks = [check for _, some in charts.goal_checks(brief.agent, 1) for check in some if check.outcome != "error"]
    measures = [max(check.best, check.measure) for check in checks]
    policies = charts.policies(brief.agent, 1)
    means = bucketed(totals)
    return AgentMore(
        curve=path(means),
        curve_words=f"{signed(means[0], 2)} to {signed(means[-1], 2)} over {len(totals)} cycles" if means else "",
        goals=len(checks),
        best=max(measures, default=None),
        reached=sum(check.outcome == "achieved" for check in checks),
        cost=costs_words(charts.costs(brief.agent, LAST)),
        policy=((policies[-1][1] or "") if policies else "")[:8],
    )


def bucketed(totals: Sequence[float], most: int = CURVE_POINTS) -> list[float]:
    """The means of neighbouring totals, at most `most` of them."""
    size = max(1, -(-len(totals) // most))
    return [sum(part) / len(part) for at in range(0, len(totals), size) if (part := totals[at : at + size])]


def path(means: Sequence[float]) -> str:
    """The path of these means from left to right, with the greatest at the top; empty for fewer than two."""
    if len(means) < 2:
        return ""
    middle, span = (max(means) + min(means)) / 2, max(max(means) - min(means), LEAST_SPAN)
    step = WIDTH / (len(means) - 1)
    room = HEIGHT - 4.0
    points = (f"{at * step:.1f} {2.0 + room * (0.5 - (mean - middle) / span):.1f}" for at, mean in enumerate(means))
    return "M" + "L".join(points)
