"""What an alarm says of itself: its meaning with what to do, and its figure beside the bounds."""

from __future__ import annotations

from typing import get_args

import pytest

from conch.rewards.watch import MEANINGS, bounds
from conch_schemas import AlarmKind


def test_every_kind_says_what_it_means_and_what_to_do() -> None:
    """One sentence each: the meaning, a colon, what to do."""
    assert set(MEANINGS) == set(get_args(AlarmKind))
    for told in MEANINGS.values():
        meaning, _, do = told.partition(": ")
        assert meaning
        assert do.endswith(".")
        assert told.count(".") == 1


@pytest.mark.parametrize(
    ("alarm", "value", "threshold", "said"),
    [
        ("dominance", 0.91, 0.8, "0.91, alarm above 0.8; over again below 0.64"),
        ("held_out", 1.4, 1.0, "1.4, alarm above 1; over again below 0.8"),
        ("collapse", 0.052, 0.1, "0.052, alarm below 0.1; over again above 0.28"),
        ("falling_entropy", 0.298, 0.3, "0.298, alarm below 0.3; over again above 0.44"),
        ("length_drift", 3.5, 3.0, "3.5, alarm above 3; over again below 2.6"),
        ("length_drift", 0.2, 1 / 3, "0.2, alarm below 0.333; over again above 0.385"),
    ],
)
def test_a_figure_stands_beside_its_bounds(alarm: AlarmKind, value: float, threshold: float, said: str) -> None:
    """On which side of which number the alarm is, and where it is over again."""
    assert bounds(alarm, value, threshold) == said
