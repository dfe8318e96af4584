"""Totals of acts under several weight sets: a change of the weights is no learning and no fall."""

from __future__ import annotations

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from conch.experience import ExperiencePoint
from conch.views import LifeEvidence, checkpoint, cohorts_of, life_trend, life_verdict, one_weighing
from conch_schemas import Part, WeightsSet
from tests.scored import point


def parts(**weights: float) -> tuple[Part, ...]:
    """A weight set."""
    return tuple(Part(component=name, weight=one, range=(-1, 1), scorer="tests") for name, one in weights.items())


def weights(version: str, *some: Part) -> WeightsSet:
    """The fact of it."""
    return WeightsSet(id=version, source="/a/b", agent="echo", version=version, parts=some)


def lived(before: tuple[Part, ...], after: tuple[Part, ...], cycles: int = 1000) -> list[ExperiencePoint]:
    """A level life: the weights change in its middle, the scores do not."""
    chance = random.Random(1)
    found = []
    for cycle in range(cycles):
        now = before if cycle < cycles // 2 else after
        values: dict[str, float | None] = {one.component: chance.gauss(MEANS[one.component], 0.1) for one in now}
        found.append(point(now, values, cycle))
    return found


MEANS = {"format": 0.9, "needs": 0.1, "kind": 0.5}


def kind_of(points: list[ExperiencePoint], totals: list[float]) -> str:
    """The verdict on a life of these totals."""
    upto = checkpoint(len(points))
    trend = life_trend(cohorts_of([one.cycle for one in points][:upto], totals[:upto]), totals[:100])
    return life_verdict(LifeEvidence(len(points), upto, 0, upto, trend)).kind


def test_a_change_of_weights_is_no_learning_and_no_fall() -> None:
    """The recorded totals alone would say that it learnt, or that it fell."""
    low, high = parts(format=0.2, needs=0.8), parts(format=0.8, needs=0.2)
    for before, after, recorded in ((low, high, {"learning", "risen", "levelled"}), (high, low, {"falling"})):
        points = lived(before, after)
        weighing = one_weighing([weights("a", *before), weights("b", *after)], points)

        assert kind_of(points, [one.total for one in points]) in recorded
        assert kind_of(points, [weighing.total(one) for one in points]) == "unchanged"
        assert (weighing.is_other, weighing.left_out) == (True, ())


def test_a_rule_that_came_later_counts_nothing() -> None:
    """With its score in the newer half alone, its arrival would be taken for a rise."""
    before, after = parts(format=0.5, needs=0.5), parts(format=0.4, needs=0.4, kind=0.2)
    points = lived(before, after)

    weighing = one_weighing([weights("a", *before), weights("b", *after)], points)

    assert weighing.left_out == ("kind",)
    assert kind_of(points, [weighing.total(one) for one in points]) == "unchanged"


def test_weights_of_rules_that_came_later_alone_pay_nothing() -> None:
    """No total under them says anything of a life whose acts have none of their scores."""
    before, after = parts(format=1.0), parts(kind=1.0)
    points = lived(before, after)
    sets = [weights("a", *before), weights("b", *after)]

    assert not one_weighing(sets, points).pays
    assert one_weighing(sets, points[500:]).pays


def test_a_score_that_is_still_to_come_leaves_nothing_out() -> None:
    """An act that is not complete yet may lack any."""
    before, after = parts(format=0.2, needs=0.8), parts(format=0.8, needs=0.2)
    points = [*lived(before, after, 10), point(after, {"format": 0.5}, 10)]

    assert not points[-1].complete
    assert one_weighing([weights("a", *before), weights("b", *after)], points).left_out == ()


@given(st.dictionaries(st.sampled_from(["format", "needs"]), st.floats(-1, 1).map(lambda one: round(one, 3))))
def test_one_weight_set_keeps_the_recorded_totals(values: dict[str, float | None]) -> None:
    """As they are; and made anew under their own set they are the same."""
    own = parts(format=0.7, needs=0.3)
    act = point(own, values)

    alone = one_weighing([weights("a", *own)], [act])
    again = one_weighing([weights("b", *parts(format=0.1, needs=0.9)), weights("a", *own)], [act])

    assert (alone.total(act), alone.is_other) == (act.total, False)
    assert math.isclose(again.total(act), act.total, abs_tol=1e-12)
