"""When cycles begin."""

from __future__ import annotations

import pytest

from conch.cycle.schedule import Rhythm


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_several_agents_have_a_place_each_in_the_interval() -> None:
    """The first cycles are spread over the interval; an agent alone begins at once."""
    several = [Rhythm(10.0, number / 4, Clock()).first() for number in range(4)]

    assert several == [0.0, 2.5, 5.0, 7.5]
    assert Rhythm(10.0, None, Clock()).first() == 0.0


@pytest.mark.parametrize("place", [None, 0.5])
def test_a_cycle_begins_an_interval_after_the_one_before(place: float | None) -> None:
    """However long it took, as long as that is less; a late one begins at once."""
    clock = Clock()
    rhythm = Rhythm(10.0, place, clock)
    rhythm.begin()

    clock.now += 4.0
    assert rhythm.rest() == pytest.approx(6.0)
    clock.now += 9.0
    assert rhythm.rest() == pytest.approx(-3.0)


def test_what_held_up_all_leaves_nobody_in_step() -> None:
    """After a long stall each goes back to its own place; an agent alone goes on at once."""
    clock = Clock()
    rhythms = [Rhythm(10.0, place, clock) for place in (0.0, 0.25, 0.5, None)]
    for rhythm in rhythms:
        rhythm.begin()

    clock.now += 63.0

    assert [rhythm.rest() for rhythm in rhythms] == pytest.approx([7.0, 9.5, 2.0, -53.0])


def test_without_an_interval_nobody_rests() -> None:
    """Zero seconds from one cycle to the next are no rhythm to keep to."""
    clock = Clock()
    rhythm = Rhythm(0.0, 0.5, clock)
    rhythm.begin()

    clock.now += 5.0

    assert rhythm.rest() <= 0.0
