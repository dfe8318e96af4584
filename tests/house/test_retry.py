"""Waits between tries, and how often what died is started again."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch import retry
from conch.retry import MOST_RESTARTS, RESTART_SECONDS, Backoff, CircuitBreaker, Restarts

NAMED = {name: one for name, one in vars(retry).items() if isinstance(one, Backoff)}
SECONDS = st.floats(0.001, 1000)
SPREADS = st.tuples(st.floats(0.1, 1.0), st.floats(1.0, 2.0))


class Clock:
    """Seconds that pass when they are told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@given(
    seconds=st.lists(SECONDS, min_size=1, max_size=8),
    spread=SPREADS,
    failures=st.integers(1, 10_000),
    seed=st.integers(),
)
def test_a_wait_is_within_its_spread(
    seconds: list[float], spread: tuple[float, float], failures: int, seed: int
) -> None:
    """Of the wait that stands for so many failures, the last one for all that are more."""
    backoff = Backoff(tuple(seconds), spread)
    expected = seconds[min(failures, len(seconds)) - 1]

    wait = backoff.after(failures, random.Random(seed))

    assert expected * spread[0] * (1 - 1e-9) <= wait <= expected * spread[1] * (1 + 1e-9)


@given(first=SECONDS, most=SECONDS)
def test_doubling_goes_from_the_first_wait_to_the_longest(first: float, most: float) -> None:
    """Each is twice the one before it, up to the longest; none is longer than that, or than the first."""
    seconds = Backoff.doubling(first, most).seconds

    assert seconds[0] == first
    assert seconds[-1] == max(first, most)
    assert all(after == min(2 * before, most) for before, after in pairwise(seconds))
    assert len(seconds) <= 1 + max(0, math.ceil(math.log2(most / first)))


def test_without_a_spread_nothing_is_drawn() -> None:
    """The waits are as they are written."""
    assert [Backoff((0.1, 0.5, 2.0)).after(failures) for failures in (1, 2, 3, 4)] == [0.1, 0.5, 2.0, 2.0]


@pytest.mark.parametrize("name", NAMED)
def test_every_named_back_off_grows_and_ends(name: str) -> None:
    """No wait is shorter than the one before it, none is longer than a minute (five where another mind replies
    meanwhile), and a spread does not reverse."""
    backoff = NAMED[name]

    assert list(backoff.seconds) == sorted(backoff.seconds)
    assert 0 < backoff.seconds[0] <= backoff.seconds[-1] <= (300 if name == "MIND_REST" else 60)
    assert 0 < backoff.spread[0] <= backoff.spread[1]


def test_what_dies_five_times_in_a_minute_is_left_down() -> None:
    """The fifth death within a minute is the last; what lies further back does not count."""
    clock = Clock()
    restarts = Restarts(Backoff((0.1, 0.2)), clock)

    early = [restarts.died() for _ in range(MOST_RESTARTS - 1)]
    clock.now += RESTART_SECONDS + 0.1
    late = [restarts.died() for _ in range(MOST_RESTARTS)]

    assert early == [True] * (MOST_RESTARTS - 1)
    assert late == [True] * (MOST_RESTARTS - 1) + [False]


@given(gaps=st.lists(st.floats(0, 40), min_size=1, max_size=60))
def test_a_death_is_the_last_exactly_when_five_lie_within_a_minute(gaps: list[float]) -> None:
    """However the deaths lie in time."""
    clock = Clock()
    restarts, deaths = Restarts(Backoff((0.1,)), clock), []

    for gap in gaps:
        clock.now += gap
        deaths.append(clock.now)
        recent = [death for death in deaths if death >= clock.now - RESTART_SECONDS]
        assert restarts.died() is (len(recent) < MOST_RESTARTS)


def test_the_wait_grows_with_the_deaths_of_late() -> None:
    """And begins anew after a quiet minute."""
    clock, waits = Clock(), []
    restarts = Restarts(Backoff((0.1, 0.2, 0.5)), clock)

    for seconds in (0.0, 1.0, 1.0, RESTART_SECONDS + 1):
        clock.now += seconds
        restarts.died()
        waits.append(restarts.wait())

    assert waits == [0.1, 0.2, 0.5, 0.1]


def opened(clock: Clock, most: int = 3) -> CircuitBreaker:
    """A breaker that opened just now."""
    breaker = CircuitBreaker(most, Backoff((5.0, 10.0)), clock)
    for _ in range(most):
        breaker.failed("boom")
    breaker.gave_up()
    assert breaker.failed("boom")
    return breaker


def test_a_breaker_opens_after_so_many_failures_alike_of_two_events() -> None:
    """One event that fails on all its tries does not open it, however many those are."""
    breaker = CircuitBreaker(3, Backoff((5.0,)), Clock())

    alone = [breaker.failed("boom") for _ in range(20)]
    breaker.gave_up()

    assert not any(alone)
    assert breaker.tries(5) == 5
    assert breaker.failed("boom")
    assert (breaker.is_open, breaker.tries(5)) == (True, 0)


@given(st.lists(st.sampled_from(["boom", "bang", "handled", "gave up"]), max_size=60), st.integers(0, 6))
def test_a_success_and_another_error_begin_the_count_anew(steps: list[str], most: int) -> None:
    """Only failures in a row with the same error count; with 0 it never opens."""
    breaker, row, gave_up, last = CircuitBreaker(most, Backoff((5.0,)), Clock()), 0, False, ""

    for step in steps:
        if step == "handled":
            breaker.succeeded()
            row, gave_up, last = 0, False, ""
        elif step == "gave up":
            breaker.gave_up()
            gave_up = True
        elif not breaker.is_open:
            row, gave_up = (row + 1, gave_up) if step == last else (1, False)
            last = step
            assert breaker.failed(step) is (most > 0 and row >= most and gave_up)


def test_an_open_breaker_gives_one_event_a_try_after_each_wait() -> None:
    """The waits grow while the tries fail."""
    clock = Clock()
    breaker, tries = opened(clock), []

    for seconds in (4.9, 0.2, 0.0, 9.7, 0.4, 0.0):
        clock.now += seconds
        tries.append(breaker.tries(5))

    assert tries == [0, 1, 0, 0, 1, 0]


def test_an_open_breaker_closes_with_the_first_success() -> None:
    """From then on events get all their tries, and the count begins anew."""
    breaker = opened(Clock())

    assert breaker.succeeded()
    assert (breaker.is_open, breaker.tries(5)) == (False, 5)
    assert not breaker.failed("boom")
    assert not breaker.succeeded()
