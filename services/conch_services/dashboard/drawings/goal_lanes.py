"""What the checks of goals measured, cycle after cycle, one lane a goal. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from conch.experience import ShownCheck

LANE_WIDTH, LANE_HEIGHT = 1000.0, 20.0
"""Size of a lane, in the units of its drawing."""


@dataclass(frozen=True)
class GoalLane:
    """One goal over the cycles that are shown."""

    goal: str
    path: str
    """The area below what was measured, one step for each change."""
    measure: float
    """What was measured last, 0..1."""
    reached: int | None
    """The cycle that achieved it; None: none of these did."""
    words: str
    """The same in words."""


def goal_lanes(
    checks: Sequence[tuple[int, Sequence[ShownCheck]]], goals: Collection[str], span: tuple[int, int]
) -> list[GoalLane]:
    """A lane for each of `goals` that a check of these cycles (cycle, what was said) has measured, in their order, over
    the cycles `span`, both ends included. A check that failed leaves the level as it was."""
    measured: dict[str, list[tuple[int, ShownCheck]]] = {goal: [] for goal in goals}
    for cycle, said in checks:
        for one in said:
            if one.outcome != "error" and one.goal in measured:
                measured[one.goal].append((cycle, one))
    return [_lane(goal, some, span) for goal, some in measured.items() if some]


def _lane(goal: str, some: Sequence[tuple[int, ShownCheck]], span: tuple[int, int]) -> GoalLane:
    scale = LANE_WIDTH / (span[1] + 1 - span[0])
    points, level = [f"M{_at(some[0][0], span, scale)} {LANE_HEIGHT:g}"], -1.0
    for cycle, one in some:
        if one.measure != level:
            points.append(f"H{_at(cycle, span, scale)}V{round(LANE_HEIGHT * (1.0 - one.measure), 1):g}")
            level = one.measure
    reached = next((cycle for cycle, one in some if one.outcome == "achieved"), None)
    last, (first, began) = some[-1], some[0]
    path = "".join([*points, f"H{_at(last[0] + 1, span, scale)}V{LANE_HEIGHT:g}Z"])
    words = f"{began.measure:.2f} in cycle {first}, {last[1].measure:.2f} in cycle {last[0]}"
    return GoalLane(goal, path, last[1].measure, reached, words)


def _at(cycle: int, span: tuple[int, int], scale: float) -> str:
    return f"{round((cycle - span[0]) * scale, 1):g}"
