"""When cycles begin."""

from __future__ import annotations

import pytest

from conch.cycle.schedule import Schedule


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_several_agents_have_a_place_each_in_the_interval() -> None:
    """The first cycles are spread over the interval; an agent alone begins at once."""
    several = [Schedule(10.0, number / 4, Clock()).first() for number in range(4)]

    assert several == [0.0, 2.5, 5.0, 7.5]
    assert Schedule(10.0, None, Clock()).first() == 0.0


@pytest.mark.parametrize("place", [None, 0.5])
def test_a_cycle_begins_an_interval_after_the_one_before(place: float | None) -> None:
    """However long it took, as long as that is less; a late one begins at once."""
    clock = Clock()
    cycle_schedule = Schedule(10.0, place, clock)
    cycle_schedule.begin()

    clock.now += 4.0
    assert cycle_schedule.rest() == pytest.approx(6.0)
    clock.now += 9.0
    assert cycle_schedule.rest() == pytest.approx(-3.0)


def test_what_held_up_all_leaves_nobody_in_step() -> None:
    """After a long stall each goes back to its own place; an agent alone goes on at once."""
    clock = Clock()
    rhythms = [Schedule(10.0, place, clock) for place in (0.0, 0.25, 0.5, None)]
    for cycle_schedule in rhythms:
        cycle_schedule.begin()

    clock.now += 63.0

    assert [cycle_schedule.rest() for cycle_schedule in rhythms] == pytest.approx([7.0, 9.5, 2.0, -53.0])


def test_without_an_interval_nobody_rests() -> None:
    """Zero seconds from one cycle to the next are no rhythm to keep to."""
    clock = Clock()
    cycle_schedule = Schedule(0.0, 0.5, clock)
    cycle_schedule.begin()

    clock.now += 5.0

    assert cycle_schedule.rest() <= 0.0
