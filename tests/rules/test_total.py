"""The weight set and the total."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import BUILTIN_WEIGHTS, RewardSettings
from conch.errors import ConfigError
from conch.rewards import absent_weights, parts_of_act, weight_set, weights_in_tasks, weights_version
from conch.rewards.total import total
from conch.rules import RuleInfo, sums_to_one
from conch_schemas import Part, Score

SETTINGS = RewardSettings()
BUILTIN = weight_set((), SETTINGS)
BESIDE = dict.fromkeys(("intrinsic", "alignment", "diversity", "starving", "repetition", "ethical"), 0.0)
"""What has no weight in any act."""
TASK = {"progress": 0.0}
"""What has a weight in acts that belong to a task."""


def _score(component: str, value: float | None, status: str = "scored", reach: float = 1e9) -> Score:
    return Score.model_validate(
        {
            "component": component,
            "value": value,
            "range": (-reach, reach),
            "status": status,
            "scorer": "reward",
            "version": "1",
        }
    )


def _scored(values: Mapping[str, float]) -> dict[str, Score]:
    return {component: _score(component, value) for component, value in values.items()}


def _brevity(weight: float, name: str = "brevity") -> RuleInfo:
    return RuleInfo(name, weight=weight, low=0.0, high=1.0)


def test_the_built_in_parts_have_their_weights_and_scorers() -> None:
    """Five parts, summing to 1; only exploration is capped. Without one: six more, two of them watched; progress."""
    assert {part.component: part.weight for part in BUILTIN} == BUILTIN_WEIGHTS | BESIDE | TASK
    assert [part.scorer for part in BUILTIN[:5]] == ["reward", "reward", "needs", "reward", "curiosity"]
    assert [part.scorer for part in BUILTIN[5:]] == [
        *("curiosity", "reward", "progress"),
        *("curiosity", "needs", "curiosity", "reward"),
    ]
    assert {part.component: part.cap for part in BUILTIN if part.cap is not None} == {"exploration": 0.5}
    assert [part.role for part in BUILTIN] == ["paid"] * 8 + ["boost", "factor", "penalty", "gate"]


def test_progress_is_a_part_of_the_acts_of_a_task_alone() -> None:
    """It has a tenth there and the others nine tenths of their weights; outside a task they are as ever, without it."""
    within = {part.component: part.weight for part in parts_of_act(BUILTIN, task=True)}
    outside = parts_of_act(BUILTIN, task=False)
    assert weights_in_tasks(BUILTIN) == {name: weight for name, weight in within.items() if weight}

    tenths = {"format": 0.27, "execution": 0.225, "needs": 0.18, "goal": 0.135, "exploration": 0.09, "progress": 0.1}
    assert within == pytest.approx(tenths | BESIDE)
    assert {part.component: part.weight for part in outside} == BUILTIN_WEIGHTS | BESIDE
    assert outside == tuple(part for part in BUILTIN if part.component != "progress")


def test_added_parts_shrink_in_a_task_like_the_others() -> None:
    """Whatever the rules ask for, the weights of an act of a task sum to 1, also where they leave no rest."""
    some, all_ = (
        {part.component: part.weight for part in parts_of_act(weight_set([_brevity(asked)], SETTINGS), task=True)}
        for asked in (0.2, 1.0)
    )

    assert some["brevity"] == pytest.approx(0.18)
    assert some["format"] == pytest.approx(0.9 * 0.24)
    assert (all_["brevity"], all_["progress"]) == pytest.approx((0.9, 0.1))
    assert sums_to_one(some)
    assert sums_to_one(all_)


def test_other_weights_of_the_built_in_parts_may_be_the_base() -> None:
    """An added rule takes its share of them too; a table wins over them."""
    base = {"format": 0.1, "execution": 0.4, "needs": 0.2, "goal": 0.2, "exploration": 0.1}

    alone, shrunk, settled = (
        {part.component: part.weight for part in weight_set(rules, settings, builtin=base)}
        for rules, settings in (
            ([], SETTINGS),
            ([_brevity(0.5)], SETTINGS),
            ([], RewardSettings(weights=BUILTIN_WEIGHTS)),
        )
    )

    assert alone == base | BESIDE | TASK
    assert shrunk == pytest.approx(
        {name: weight / 2 for name, weight in base.items()} | BESIDE | TASK | {"brevity": 0.5}
    )
    assert settled == BUILTIN_WEIGHTS | BESIDE


def test_added_parts_shrink_the_built_in_ones() -> None:
    """A rule that asks for a fifth leaves four fifths to the built-in five."""
    parts = {part.component: part for part in weight_set([_brevity(0.2)], SETTINGS)}

    assert parts["brevity"].weight == 0.2
    assert parts["format"].weight == pytest.approx(0.24)
    assert sums_to_one({name: part.weight for name, part in parts.items()})


def test_a_watched_part_takes_nothing() -> None:
    """Weight 0 is in the set and leaves the others whole."""
    parts = weight_set([_brevity(0.0)], SETTINGS)

    assert parts[:-1] == BUILTIN
    assert (parts[-1].component, parts[-1].weight) == ("brevity", 0.0)


def test_the_order_of_plugins_does_not_matter() -> None:
    """The same rules found in another order are the same weight set of the same version."""
    one = weight_set([_brevity(0.1), _brevity(0.1, "kind")], SETTINGS)
    other = weight_set([_brevity(0.1, "kind"), _brevity(0.1)], SETTINGS)

    assert one == other
    assert weights_version(one) == weights_version(other) != weights_version(BUILTIN)


def test_added_weights_over_one_are_refused() -> None:
    """Rules that ask for more than the whole are refused with their sum."""
    with pytest.raises(ConfigError, match=r"sum to 1\.2"):
        weight_set([_brevity(0.6), _brevity(0.6, "kind")], SETTINGS)


@pytest.mark.parametrize("weight", [-0.1, 1.5, math.nan])
def test_an_added_weight_outside_the_unit_is_refused(weight: float) -> None:
    """A weight is a share."""
    with pytest.raises(ConfigError, match="brevity"):
        weight_set([_brevity(weight)], SETTINGS)


def test_two_rules_of_one_name_are_refused() -> None:
    """A component has one scorer; a plug-in cannot stand in for a built-in part."""
    with pytest.raises(ConfigError, match="format"):
        weight_set([_brevity(0.1, "format")], SETTINGS)


def test_a_table_settles_every_weight() -> None:
    """With `rewards.weights` nobody's request counts."""
    table = {"format": 0.5, "execution": 0.1, "needs": 0.1, "goal": 0.1, "exploration": 0.1, "brevity": 0.1}

    parts = weight_set([_brevity(0.9)], RewardSettings(weights=table))

    assert {part.component: part.weight for part in parts} == table | BESIDE


def test_a_table_may_pay_what_is_only_watched() -> None:
    """A weight of alignment, of the drives' mix or of progress makes it a share of the total."""
    table = BUILTIN_WEIGHTS | {"format": 0.1, "alignment": 0.1, "progress": 0.1}

    parts = {part.component: part for part in weight_set((), RewardSettings(weights=table))}

    assert (parts["alignment"].weight, parts["progress"].weight, parts["intrinsic"].weight) == (0.1, 0.1, 0.0)
    assert parts_of_act(tuple(parts.values()), task=False) == tuple(parts.values())  # every act has it
    assert parts["progress"].scorer == "progress"


@pytest.mark.parametrize("name", ["diversity", "repetition", "ethical"])
def test_what_bears_on_the_total_cannot_be_paid(name: str) -> None:
    """A gate, a penalty or a boost with a weight would count twice: the table is refused."""
    with pytest.raises(ConfigError, match=f"rewards.weights names {name}"):
        weight_set((), RewardSettings(weights=BUILTIN_WEIGHTS | {"format": 0.2, name: 0.1}))


def test_a_held_out_rule_cannot_be_paid() -> None:
    """A weight for a held-out part is refused with its name."""
    held_out = RuleInfo("exam", weight=0.1, low=0.0, high=1.0, held_out=True)

    with pytest.raises(ConfigError, match="exam is held out"):
        weight_set([held_out], SETTINGS)


def test_a_misspelt_part_is_named_beside_the_one_that_is_lacking() -> None:
    """The sentence has the nearest known name."""
    table = {"format": 0.5, "executoin": 0.5, "needs": 0.0, "goal": 0.0, "exploration": 0.0}

    with pytest.raises(ConfigError, match=r"lacks execution: .*executoin there: the nearest name is execution"):
        weight_set((), RewardSettings(weights=table))


@given(st.dictionaries(st.sampled_from(["brevity", "kind", "tact"]), st.floats(0.0, 0.3), min_size=1))
def test_a_weight_without_its_rule_is_set_aside_and_the_others_grow_in_proportion(absent: dict[str, float]) -> None:
    """The weights sum to 1, and those that are there keep their multiples of each other."""
    rest = 1 - math.fsum(absent.values())
    table = {name: weight * rest for name, weight in BUILTIN_WEIGHTS.items()} | absent

    parts = {part.component: part.weight for part in weight_set((), RewardSettings(weights=table))}

    assert parts == pytest.approx(BUILTIN_WEIGHTS | BESIDE)
    assert absent_weights(table, ()) == absent
    assert absent_weights(table, absent) == {}


def test_a_weight_comes_back_with_its_rule() -> None:
    """The table is in force as it is written."""
    table = BUILTIN_WEIGHTS | {"format": 0.2, "brevity": 0.1}

    parts = {part.component: part.weight for part in weight_set([_brevity(0.3)], RewardSettings(weights=table))}

    assert parts == table | BESIDE


def test_a_table_that_pays_only_what_nothing_scores_is_refused() -> None:
    """There is nothing that could take the weight."""
    table = dict.fromkeys(BUILTIN_WEIGHTS, 0.0) | {"brevity": 1.0}

    with pytest.raises(ConfigError, match=r"pays only what nothing scores"):
        weight_set((), RewardSettings(weights=table))


def test_a_table_that_lacks_a_part_is_refused() -> None:
    """The table names exactly all."""
    with pytest.raises(ConfigError, match="lacks exploration, goal"):
        weight_set((), RewardSettings(weights={"format": 0.5, "execution": 0.3, "needs": 0.2}))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"format": 0.5, "execution": 1.0, "exploration": 0.5}, 0.45),
        ({"format": 0.5, "execution": 0.2, "exploration": 0.0}, 0.20),
        ({"format": -1.0, "execution": 0.0, "exploration": 0.0}, -0.30),
    ],
)
def test_the_known_cycles_have_their_totals(values: dict[str, float], expected: float) -> None:
    """First good tool call 0.45, quiet cycle 0.20, invalid reply −0.30, before needs and goal come in."""
    assert total(BUILTIN, _scored(values)).total == pytest.approx(expected)


def test_a_capped_part_has_a_line_for_its_cap() -> None:
    """Exploration's whole value and what the cap takes are lines of their own."""
    result = total(BUILTIN, _scored({"exploration": 1.0}))

    assert [(line.step, line.amount) for line in result.breakdown] == [
        ("part:exploration", 0.1),
        ("cap:exploration", -0.05),
    ]
    assert result.total == pytest.approx(0.05)


def test_the_cycle_is_capped_by_a_line() -> None:
    """More than 1 is brought to 1 by a last line."""
    parts = weight_set([RuleInfo("lavish", weight=0.5, low=0.0, high=10.0)], SETTINGS)

    result = total(parts, _scored({"lavish": 10.0}))

    assert result.total == 1.0
    assert (result.breakdown[-1].step, result.breakdown[-1].amount) == ("cap:cycle", -4.0)


def test_coverage_leaves_out_what_was_not_applicable() -> None:
    """Scored weight over applicable weight; an error lowers it, not_applicable does not."""
    scores = _scored(dict.fromkeys(BESIDE, 1.0)) | {
        "format": _score("format", 0.5),
        "execution": _score("execution", None, "error"),
        "needs": _score("needs", 0.0),
        "goal": _score("goal", None, "not_applicable"),
        "exploration": _score("exploration", None, "timeout"),
    }

    result = total(parts_of_act(BUILTIN, task=False), scores)

    assert result.coverage == pytest.approx(0.5 / 0.85)
    assert result.complete


def test_a_missing_part_leaves_the_total_incomplete() -> None:
    """Complete needs a score of every part."""
    assert not total(BUILTIN, _scored({"format": 0.5})).complete


def test_nothing_applicable_is_fully_covered() -> None:
    """Of nothing that could be scored, all was scored."""
    scores = {part.component: _score(part.component, None, "not_applicable") for part in BUILTIN}

    result = total(BUILTIN, scores)

    assert (result.total, result.coverage, result.breakdown) == (0.0, 1.0, ())


def test_a_watched_part_pays_nothing() -> None:
    """A part of weight 0 adds no line."""
    assert total(weight_set([_brevity(0.0)], SETTINGS), _scored({"brevity": 1.0})).breakdown == ()


VALUES = st.floats(-1e6, 1e6)
SHARES = st.floats(0.0, 1.0)
BEARING = {"diversity": SHARES, "ethical": SHARES, "repetition": st.floats(-1.0, 0.0)}


@given(
    paid=st.dictionaries(st.sampled_from([*BUILTIN_WEIGHTS, "intrinsic", "alignment", "brevity", "extra"]), VALUES),
    bearing=st.fixed_dictionaries({}, optional=BEARING),
    share=SHARES,
    seed=st.randoms(use_true_random=False),
)
def test_every_order_gives_the_same_total(
    paid: dict[str, float], bearing: dict[str, float], share: float, seed: random.Random
) -> None:
    """Any order of the scores and of the lines gives the same bits, within −2..1, and the lines add up to them.

    Below −1 by a penalty alone; never above 0 under a closed gate.
    """
    parts = weight_set([_brevity(share)], SETTINGS)
    values = paid | bearing
    shuffled = list(values.items())
    seed.shuffle(shuffled)

    result = total(parts, _scored(values))
    lines = [line.amount for line in result.breakdown]
    seed.shuffle(lines)

    assert total(parts, _scored(dict(shuffled))) == result
    assert math.fsum(lines) == result.total
    assert -1.0 + bearing.get("repetition", 0.0) <= result.total + 1e-12  # the last bit of a rounded line
    assert result.total <= 1.0
    assert result.total <= 0.0 or bearing.get("ethical", 1.0) >= 0.6
    assert 0.0 <= result.coverage <= 1.0
    assert math.copysign(1.0, result.total) == 1.0 or result.total < 0.0


@given(weights=st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=4))
def test_only_tables_that_sum_to_one_are_accepted(weights: dict[str, float]) -> None:
    """An empty table and any other sum are refused."""
    assert sums_to_one(weights) == (bool(weights) and abs(math.fsum(weights.values()) - 1) <= 1e-6)


@given(asked=st.lists(SHARES, max_size=4))
def test_accepted_weights_always_sum_to_one(asked: list[float]) -> None:
    """Whatever the added rules ask for, the set sums to 1 or is refused."""
    plugins = [_brevity(weight, f"rule{index}") for index, weight in enumerate(asked)]
    if math.fsum(asked) > 1.0 + 1e-6:
        with pytest.raises(ConfigError):
            weight_set(plugins, SETTINGS)
        return

    parts: tuple[Part, ...] = weight_set(plugins, SETTINGS)

    assert sums_to_one({part.component: part.weight for part in parts})
