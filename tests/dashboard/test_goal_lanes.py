"""What the checks of goals measured over the cycles: one lane a goal."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from conch.experience import ShownCheck
from conch_services.dashboard.drawings.goal_lanes import LANE_HEIGHT, LANE_WIDTH, goal_lanes


def said(goal: str, measure: float, outcome: str = "neutral") -> ShownCheck:
    """What the check of a goal said."""
    return ShownCheck(goal, f"{goal}.", outcome, measure, 0.0)


def test_a_lane_tells_where_its_goal_began_rose_and_was_reached() -> None:
    """The area steps up where the measure does, and ends behind the cycle that achieved the goal."""
    checks = [
        (10, [said("a", 0.0)]),
        (11, [said("a", 0.5)]),
        (12, [said("a", 0.5)]),
        (13, [said("a", 1.0, "achieved")]),
    ]

    [lane] = goal_lanes([*checks, (19, [said("b", 0.2)])], ["a"], (10, 19))

    assert lane.path == "M0 20H0V20H100V10H300V0H400V20Z"
    assert (lane.measure, lane.reached) == (1.0, 13)
    assert lane.words == "0.00 in cycle 10, 1.00 in cycle 13"


def test_a_check_that_failed_leaves_the_level_as_it_was() -> None:
    """A goal of which every check failed has no lane."""
    checks = [(1, [said("a", 0.5), said("b", 0.0, "error")]), (2, [said("a", 0.0, "error")])]

    [lane] = goal_lanes(checks, ["b", "a"], (1, 2))

    assert (lane.goal, lane.measure) == ("a", 0.5)


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0, 1)), min_size=1, max_size=40, unique_by=lambda one: one[0]))
def test_whatever_was_measured_stays_within_the_drawing(some: list[tuple[int, float]]) -> None:
    """Every place of the path, and closed."""
    checks = [(cycle, [said("a", measure)]) for cycle, measure in sorted(some)]

    [lane] = goal_lanes(checks, ["a"], (checks[0][0], checks[-1][0]))

    across = [float(x) for x in re.findall(r"[MH]([\d.]+)", lane.path)]
    down = [float(y) for y in re.findall(r"V([\d.]+)", lane.path)]
    assert across == sorted(across)
    assert across[-1] == LANE_WIDTH
    assert all(0 <= y <= LANE_HEIGHT for y in down)
    assert lane.path.endswith("Z")
