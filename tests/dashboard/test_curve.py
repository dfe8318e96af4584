"""The curve of a life: its buckets say what the totals say, however they came."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from conch.experience import LifeBlock
from conch.views import changes_between
from conch_services.dashboard.story.curve import BINS, MOST_BUCKETS, LifeBucket, LifeCurve
from tests.dashboard.test_rewards import point

BIN = 3.0 / BINS
lives = st.lists(
    st.tuples(st.integers(1, 40), st.floats(-2.0, 1.0).map(lambda one: round(one, 4))), min_size=1, max_size=1500
)
"""Gap to the cycle before, total."""


def numbered(life: Sequence[tuple[int, float]], first: int) -> list[tuple[int, float]]:
    """(cycle, total) of a life whose first cycle is about `first`."""
    cycle, made = first, []
    for gap, total in life:
        cycle += gap
        made.append((cycle, total))
    return made


def curve_of(totals: Sequence[tuple[int, float]], page: int) -> LifeCurve:
    """Added in pages of so many."""
    made = LifeCurve()
    for at in range(0, len(totals), page):
        made.add(totals[at : at + page])
    return made


@settings(max_examples=60, deadline=None)
@given(lives, st.integers(0, 5000), st.integers(1, 400))
def test_each_bucket_says_what_its_cycles_say(life: list[tuple[int, float]], first: int, page: int) -> None:
    """Count, mean, least and greatest are exact, the edges of the band to a bin; at most 400 buckets."""
    totals = numbered(life, first)
    curve = curve_of(totals, page)

    buckets = curve.buckets()

    assert len(buckets) <= MOST_BUCKETS
    assert sum(one.cycles for one in buckets) == len(totals)
    for one in buckets:
        mine = sorted(total for cycle, total in totals if one.first <= cycle < one.first + curve.width)
        assert (one.cycles, one.low, one.high) == (len(mine), mine[0], mine[-1])
        assert math.isclose(one.mean, math.fsum(mine) / len(mine), abs_tol=1e-9)
        for edge, share in ((one.lower, 0.1), (one.upper, 0.9)):
            rank = mine[max(1, math.ceil(share * len(mine))) - 1]
            assert edge is not None
            assert abs(edge - rank) <= BIN


@settings(max_examples=40, deadline=None)
@given(lives, st.integers(0, 3000), st.floats(0.0, 1.0))
def test_what_is_forgotten_and_added_again_is_as_it_was(
    life: list[tuple[int, float]], first: int, share: float
) -> None:
    """The end of a life is read again as its scores come late."""
    totals = numbered(life, first)
    curve = curve_of(totals, 100)
    before = curve.buckets()

    begin = curve.forget(totals[int(share * (len(totals) - 1))][0])
    curve.add([one for one in totals if one[0] >= begin])

    assert [rounded(one) for one in curve.buckets()] == [rounded(one) for one in before]


def rounded(one: LifeBucket) -> LifeBucket:
    """A sum in another order differs in its last digits."""
    return one._replace(mean=round(one.mean, 9))


def test_removed_cycles_count_with_mean_least_and_greatest_and_have_no_band() -> None:
    """Their histogram is gone with them."""
    curve = LifeCurve()
    curve.add_removed([LifeBlock(0, 100, 20.0, -0.5, 0.5), LifeBlock(100, 50, 20.0, 0.2, 0.6)])
    curve.add([(cycle, 0.4) for cycle in range(150, 1000)])

    first, second, *others = curve.buckets()

    assert (first.cycles, round(first.mean, 6), first.low, first.high, first.lower) == (100, 0.2, -0.5, 0.5, None)
    assert (second.cycles, round(second.mean, 6)) == (50, 0.4)
    assert {(one.lower, one.upper) for one in others} == {(0.4, 0.4)}


def test_a_curve_without_cycles_has_no_buckets() -> None:
    """Nothing to draw, and nothing to divide by."""
    curve = LifeCurve()
    curve.add([])

    assert (curve.buckets(), curve.behind) == ([], 0)


def test_a_share_changes_by_points() -> None:
    """What changed between two ends, on the page and in a report: from 50 to 100 % are 50 points more."""
    ends = [[point(at)._replace(valid=odd or at % 2 == 0) for at in range(100)] for odd in (False, True)]

    rows = {one.title: tuple(one)[1:] for one in changes_between(*ends)}

    assert rows["Valid replies"] == ("50 %", "100 %", "+50 points", "good")
    assert rows["Reward"][2:] == ("±0", "")


def test_a_change_within_chance_is_neither_good_nor_bad() -> None:
    """Its difference is told without a colour; one whose 95 % interval leaves 0 out has one."""
    chance = random.Random(3)
    first, close, away = ([point(at, format=chance.gauss(mean, 0.2)) for at in range(100)] for mean in (0.4, 0.45, 1.0))

    [small] = [one for one in changes_between(first, close) if one.title == "Reward"]
    [large] = [one for one in changes_between(first, away) if one.title == "Reward"]

    assert (small.difference != "±0", small.kind) == (True, "")
    assert (large.difference[0], large.kind) == ("+", "good")


def test_a_change_of_a_few_values_has_no_colour() -> None:
    """Two invalid replies and two valid ones are as alike as chance makes them."""
    ends = [[point(at)._replace(valid=valid) for at in range(2)] for valid in (False, True)]

    [replies] = [one for one in changes_between(*ends) if one.title == "Valid replies"]

    assert (replies.difference, replies.kind) == ("+100 points", "")
