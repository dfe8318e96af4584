"""What bears on the whole total: the boost of diversity, the penalty of repetition, the gate of the constitution."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import BUILTIN_WEIGHTS, ConstitutionSettings, RewardSettings
from conch.rewards import weight_set
from conch.rewards.total import Total, total
from conch.rules import RuleInfo
from conch_schemas import Part, Score

LAVISH = weight_set([RuleInfo("lavish", weight=0.5, low=0.0, high=1e6)], RewardSettings())
"""With a part that buys whatever it likes."""


def _total(values: Mapping[str, float], parts: tuple[Part, ...] = LAVISH) -> Total:
    return total(parts, {name: _score(name, value) for name, value in values.items()})


def _score(component: str, value: float) -> Score:
    return Score(component=component, value=value, range=(-1e9, 1e9), status="scored", scorer="any", version="1")


def _steps(result: Total) -> list[str]:
    return [line.step for line in result.breakdown]


def test_the_steps_come_in_their_order() -> None:
    """Parts and their caps, the boost, the cap of the cycle, the penalty, the gate last."""
    values = {"lavish": 9.0, "exploration": 1.0, "format": 0.5, "diversity": 0.1, "repetition": -0.2, "ethical": 0.5}

    result = _total(values)

    assert _steps(result) == [
        *("part:format", "part:exploration", "cap:exploration", "part:lavish"),
        *("diversity", "cap:cycle", "repetition", "gate:ethical"),
    ]
    assert -1e-12 < result.total <= 0.0


def test_low_diversity_pays_exploration_twice_under_its_cap() -> None:
    """Below 0.3 the boost adds what exploration paid, its cap included; from 0.3 on nothing."""
    low, enough = (_total({"exploration": 1.0, "diversity": value}) for value in (0.29, 0.3))

    assert [line.amount for line in low.breakdown if line.step == "diversity"] == [pytest.approx(0.05 * 0.5)]
    assert low.total == pytest.approx(2 * enough.total)
    assert "exploration pays double" in low.breakdown[-1].why
    assert "diversity" not in _steps(enough)


def test_nothing_explored_is_not_doubled() -> None:
    """Twice nothing is nothing, and no line."""
    assert _steps(_total({"exploration": 0.0, "diversity": 0.0})) == ["part:exploration"]


def test_a_repetition_costs_after_the_cap() -> None:
    """What was cut off by the cap of the cycle does not pay for the penalty."""
    result = _total({"lavish": 100.0, "repetition": -0.5})

    assert result.total == 0.5


def test_a_penalty_may_bring_a_total_below_minus_one() -> None:
    """The cap of the cycle comes before it."""
    parts = weight_set([RuleInfo("harsh", weight=1.0, low=-9.0, high=0.0)], RewardSettings())

    assert _total({"harsh": -9.0, "repetition": -0.5}, parts).total == -1.5


def test_the_first_time_has_no_line() -> None:
    """A penalty of nothing is no step."""
    assert _steps(_total({"format": 0.5, "repetition": 0.0})) == ["part:format"]


@given(wealth=st.floats(0.0, 1e6), ethical=st.floats(0.0, 1.0), rest=st.floats(-0.3, 1.0))
def test_nothing_buys_a_gate_back(wealth: float, ethical: float, rest: float) -> None:
    """Below the floor the total is at most 0 however much the other parts pay; at or above it the gate does nothing."""
    values = {"lavish": wealth, "execution": rest, "exploration": 1.0, "diversity": 0.0}

    closed, free = _total(values | {"ethical": ethical}), _total(values)

    if ethical < 0.6:
        assert closed.total <= 0.0
        assert closed.total == pytest.approx(min(0.0, free.total), abs=1e-12)
    else:
        assert closed == free


def test_a_closed_gate_leaves_a_loss_as_it_is() -> None:
    """It takes what was gained and forgives nothing."""
    result = _total({"format": -1.0, "ethical": 0.0})

    assert result.total == pytest.approx(-0.15)
    assert _steps(result) == ["part:format"]


def test_a_gate_that_is_switched_off_is_watched_alone() -> None:
    """Without `constitution.gate` *ethical* has neither a weight nor a threshold."""
    parts = weight_set((), RewardSettings(), ConstitutionSettings(gate=False))

    assert _total({"format": 0.5, "ethical": 0.0}, parts).total == pytest.approx(0.15)


def test_the_floor_can_be_set() -> None:
    """`constitution.floor` is the threshold."""
    parts = weight_set((), RewardSettings(), ConstitutionSettings(floor=0.95))

    assert _total({"format": 0.5, "ethical": 0.9}, parts).total == 0.0
    assert _total({"format": 0.5, "ethical": 0.95}, parts).total == pytest.approx(0.15)


def test_a_held_out_part_changes_no_total() -> None:
    """What is held out is shown and counts nothing."""
    parts = weight_set([RuleInfo("exam", weight=0.0, low=0.0, high=1.0, held_out=True)], RewardSettings())

    assert _total({"format": 0.5, "exam": 1.0}, parts) == _total({"format": 0.5, "exam": 0.0}, parts)


def test_what_could_not_be_scored_neither_boosts_nor_bears() -> None:
    """A boost, a penalty or a gate without a value does nothing; none of them is ever taken for a 0."""
    scores = {"format": _score("format", 0.5), "exploration": _score("exploration", 0.5)}
    unsaid = {
        name: Score(component=name, range=(-1, 1), status=status, scorer="any", version="1")
        for name, status in (("diversity", "error"), ("repetition", "timeout"), ("ethical", "not_applicable"))
    }

    result = total(LAVISH, scores | unsaid)

    assert _steps(result) == ["part:format", "part:exploration"]
    assert result.coverage == total(LAVISH, scores).coverage


COMPONENTS = [*BUILTIN_WEIGHTS, "lavish"]


@given(
    paid=st.dictionaries(st.sampled_from(COMPONENTS), st.floats(-1e6, 1e6)),
    diversity=st.floats(0.0, 1.0),
    repetition=st.floats(-1.0, 0.0),
    ethical=st.floats(0.0, 1.0),
)
def test_the_lines_add_up_exactly_in_any_order(
    paid: dict[str, float], diversity: float, repetition: float, ethical: float
) -> None:
    """The exactly rounded sum of the lines is the total, forwards and backwards, and never −0.0."""
    bearing = {"diversity": diversity, "repetition": repetition, "ethical": ethical}

    for order in itertools.permutations(bearing):
        result = _total({name: bearing[name] for name in order} | paid)
        amounts = [line.amount for line in result.breakdown]
        assert math.fsum(amounts) == math.fsum(amounts[::-1]) == result.total
        assert result == _total(paid | bearing)
        assert math.copysign(1.0, result.total) == 1.0 or result.total < 0.0
