"""Composition: weighted sums, rules made of rules, advantages, batches."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable
from functools import partial
from statistics import mean, stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch import rule
from conch.errors import ConfigError, ContractError
from conch.rewards.compose import (
    Gate,
    Message,
    Sequential,
    Trajectory,
    WeightedRewardConfig,
    WeightedSum,
    cache_key,
    compute_advantages,
    compute_weighted_reward,
    group_advantages,
    length_penalty,
    positives_and_negatives,
    score_batch,
    verdict,
)

TALK = Trajectory((Message("user", "hi"), Message("assistant", "hello")), (250, 250), {"answer": "hello"})
REWARDS = st.floats(-1e6, 1e6)


def _says(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


def _says_later(value: Any) -> Callable[[Any], Awaitable[Any]]:
    """A plain function whose result is to be awaited."""

    async def later() -> Any:
        await asyncio.sleep(0)
        return value

    return lambda _: later()


def _raises(error: BaseException) -> Callable[[Any], float]:
    def rule(_: Any) -> float:
        raise error

    return rule


# -- the weighted sum --------------------------------------------------------------------------------------------------


async def test_sync_and_async_rules_make_one_total() -> None:
    """What is awaitable is awaited, whatever the function looks like."""

    async def plainly_async(trajectory: Trajectory) -> float:
        return 0.25 if trajectory.facts["answer"] == "hello" else 0.0

    rules = {"a": _says(1.0), "b": _says_later(0.5), "c": partial(plainly_async)}
    total, parts = await compute_weighted_reward(TALK, rules, WeightedRewardConfig({"a": 0.5, "b": 0.3, "c": 0.2}))

    assert total == pytest.approx(0.7)
    assert {name: part.value for name, part in parts.items()} == {"a": 1.0, "b": 0.5, "c": 0.25}


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ({}, "empty"),
        ({"a": 0.5, "b": 0.4}, "sum to 0.9"),
        ({"a": 0.5, "b": 0.500002}, "sum to 1"),
        ({"a": math.nan, "b": 1.0}, "weight of a"),
        ({"a": math.inf, "b": -math.inf}, "weight of a"),
    ],
)
def test_weights_that_cannot_be_are_refused(weights: dict[str, float], says: str) -> None:
    """An empty table, one that does not sum to 1 within 1e-6, one with what is no number."""
    with pytest.raises(ConfigError, match=says):
        WeightedRewardConfig(weights)


async def test_names_must_match_exactly() -> None:
    """A rule without a weight, and a weight without a rule, are named."""
    with pytest.raises(ConfigError, match="no weight is given for B"):
        await compute_weighted_reward(TALK, {"a": _says(1), "B": _says(1)}, WeightedRewardConfig({"a": 1.0}))
    with pytest.raises(ConfigError, match="the weights name b"):
        await score_batch([], {"a": _says(1)}, WeightedRewardConfig({"a": 0.5, "b": 0.5}))


def test_a_config_cannot_be_changed_later() -> None:
    """Neither through itself nor through the table that it was made of."""
    table = {"a": 1.0}
    config = WeightedRewardConfig(table)
    table["a"] = 2.0

    assert config.weights == {"a": 1.0}
    with pytest.raises(TypeError):
        config.weights["a"] = 2.0  # type: ignore[index]


@pytest.mark.parametrize(
    ("bad", "status", "says"),
    [
        (_raises(ValueError("no [b]tests[/b]\x1b[31m")), "error", "ValueError: no"),
        (_raises(SystemExit(3)), "error", "SystemExit: 3"),
        (_raises(TimeoutError("the judge is slow")), "timeout", "the judge is slow"),
        (_says(math.nan), "error", "nan"),
        (_says_later(math.inf), "error", "inf"),
        (_says("11 of 10"), "error", "'11 of 10'"),
        (_says((1.0, 2.0)), "error", "(1.0, 2.0)"),
        (_says(1e200), "error", "outside"),
        (_says([1.0]), "error", "[1.0]"),
    ],
)
async def test_a_part_that_fails_is_never_a_zero(bad: Callable[[Any], Any], status: str, says: str) -> None:
    """There is no total without it, and the other parts are what they are."""
    config = WeightedRewardConfig({"good": 0.5, "bad": 0.5})

    total, parts = await compute_weighted_reward(TALK, {"bad": bad, "good": _says(1.0)}, config)

    assert total is None
    assert (parts["bad"].value, parts["bad"].status) == (None, status)
    assert says in parts["bad"].explanation
    assert "\x1b" not in parts["bad"].explanation
    assert parts["good"].value == 1.0


@pytest.mark.parametrize(
    ("said", "value", "why"),
    [(True, 1.0, ""), (False, 0.0, ""), ((0.5, "half\n\x1b[31m"), 0.5, "half"), ((None, "no tests"), None, "no tests")],
)
async def test_a_rule_says_a_truth_value_or_a_value_with_its_reason(said: Any, value: float | None, why: str) -> None:
    """True is 1, False is 0, and the reason is kept as safe text of one line."""
    found = await verdict(_says(said), TALK)

    assert (found.value, found.status) == (value, "scored" if value is not None else "not_applicable")
    assert found.explanation.startswith(why)
    assert "\x1b" not in found.explanation
    assert "\n" not in found.explanation


async def test_a_part_that_is_not_applicable_counts_nothing() -> None:
    """As in the live total the others keep their shares; if none is applicable there is no total."""
    config = WeightedRewardConfig({"a": 0.75, "b": 0.25})

    some = await compute_weighted_reward(TALK, {"a": _says(1.0), "b": _says_later(None)}, config)
    none = await compute_weighted_reward(TALK, {"a": _says(None), "b": _says(None)}, config)

    assert (some.total, some.parts["b"].status) == (0.75, "not_applicable")
    assert none.total is None


async def test_what_a_rule_waited_for_may_be_cancelled() -> None:
    """Then the rule has failed, and no other; cancelled itself, it is."""

    async def cancelled(_: Any) -> float:
        waiting = asyncio.ensure_future(asyncio.sleep(60))
        waiting.cancel()
        await waiting
        return 1.0

    def closes(_: Any) -> float:
        raise GeneratorExit

    batch = await score_batch([TALK, TALK], {"a": cancelled}, WeightedRewardConfig({"a": 1.0}))

    assert batch.rewards == (None, None)
    assert (await verdict(closes, TALK)).status == "error"
    asking = asyncio.create_task(verdict(lambda _: asyncio.sleep(60, 1.0), TALK))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_none_at_once_is_refused() -> None:
    """In a sentence, before any rule is asked."""
    with pytest.raises(ConfigError, match="at_once is 0"):
        await score_batch([TALK], {"a": lambda _: 1.0}, WeightedRewardConfig({"a": 1.0}), at_once=0)


async def test_a_declared_range_holds() -> None:
    """A rule declared with a range that returns a value outside it has failed."""

    @rule(range=(0.0, 1.0))
    def eager(_: Any) -> float:
        return 1.5

    said = await verdict(eager, TALK)

    assert (said.status, said.explanation) == ("error", "returned 1.5, outside its range 0..1")


# -- rules made of rules -----------------------------------------------------------------------------------------------


async def test_sequential_stops_at_zero() -> None:
    """The first zero is the value, and no rule behind it is run; else the last one speaks."""
    asked: list[str] = []

    def asks(name: str, value: float | None) -> Callable[[Any], float | None]:
        return lambda _: (asked.append(name), value)[1]

    stopped = await Sequential(asks("a", 1.0), asks("b", 0.0), asks("c", 1.0))(TALK)
    through = await Sequential(asks("d", 1.0), asks("e", None), asks("f", -0.5), asks("g", None))(TALK)

    assert (stopped, through) == (0.0, -0.5)
    assert asked == ["a", "b", "d", "e", "f", "g"]
    assert await Sequential(_says(None))(TALK) is None
    with pytest.raises(ConfigError, match="at least one"):
        Sequential()


@pytest.mark.parametrize(("value", "is_worth"), [(0.5, 0.5), (0.499, 0.0), (0.9, 0.9), (-1.0, 0.0), (None, None)])
async def test_a_gate_lets_through_what_reaches_its_threshold(value: float | None, is_worth: float | None) -> None:
    """Below it is 0; what is not applicable stays so."""
    assert await Gate(_says_later(value), 0.5)(TALK) == is_worth


async def test_rules_made_of_rules_nest_and_fail_as_one() -> None:
    """A gate before a weighted sum; what fails inside fails the whole, by name, and is no zero."""
    config = WeightedRewardConfig({"x": 0.5, "y": 0.5})
    whole = Sequential(Gate(_says(1.0), 1.0), WeightedSum({"x": _says(1.0), "y": _says_later(0.5)}, config))
    broken = Sequential(_says(1.0), WeightedSum({"x": _says(1.0), "y": _raises(TimeoutError("late"))}, config))

    assert await whole(TALK) == 0.75
    said = await verdict(broken, TALK)
    assert (said.value, said.status, said.explanation) == (None, "timeout", "y: late")
    with pytest.raises(ContractError, match="ZeroDivisionError"):
        await Gate(_raises(ZeroDivisionError("1/0")), 0.5)(TALK)


# -- length and cache key ----------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 5000), max_size=5))
def test_length_costs_between_500_and_2000_tokens(tokens: list[int]) -> None:
    """1 up to 500 in all, 0 from 2000, linear between; of no completion 1."""
    worth, total = length_penalty(Trajectory((), tuple(tokens))), sum(tokens)

    if total <= 500:
        assert worth == 1.0
    elif total >= 2000:
        assert worth == 0.0
    else:
        assert worth == pytest.approx(1 - (total - 500) / 1500)


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.text()), max_size=4))
def test_a_cache_key_tells_roles_and_contents_and_their_order(said: list[tuple[str, str]]) -> None:
    """The same for messages and tables, whatever else these say; another for any other words, roles or order."""
    messages = [Message(role, content) for role, content in said]
    tables = [{"content": content, "role": role, "time": place} for place, (role, content) in enumerate(said)]
    key = cache_key(messages)

    assert len(key) == 32
    assert cache_key(tables) == key
    assert cache_key([*messages, Message("user", "")]) != key
    for one, other in itertools.pairwise(range(len(messages))):
        swapped = messages.copy()
        swapped[one], swapped[other] = messages[other], messages[one]
        assert (cache_key(swapped) == key) == (messages[one] == messages[other])


# -- advantages --------------------------------------------------------------------------------------------------------


@given(st.lists(REWARDS, min_size=2, max_size=8))
def test_advantages_are_the_rewards_centred_and_scaled(rewards: list[float]) -> None:
    """Less the mean; divided by the sample deviation where that exceeds 1e-8."""
    spread = stdev(rewards)
    scale = spread if spread > 1e-8 else 1.0

    found = compute_advantages(rewards)

    near = pytest.approx([(reward - mean(rewards)) / scale for reward in rewards], abs=1e-6, rel=1e-6)
    assert list(found) == near or abs(spread - 1e-8) < 1e-9
    plain = compute_advantages(rewards, baseline=3.0, normalize=False)
    assert list(plain) == [reward - 3.0 for reward in rewards]


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=8), st.permutations(range(8)))
def test_advantages_go_with_their_rewards(rewards: list[float], order: list[int]) -> None:
    """In whatever order the rewards stand, each has the same advantage, bit for bit."""
    places = [place for place in order if place < len(rewards)]

    moved = compute_advantages([rewards[place] for place in places])

    assert [moved[places.index(place)] for place in range(len(rewards))] == compute_advantages(rewards)


def test_advantages_are_a_list() -> None:
    """Of no rewards it is empty."""
    assert compute_advantages([]) == []
    assert compute_advantages([1.0, 0.0], normalize=False) == [0.5, -0.5]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e200])
def test_advantages_of_what_is_no_number_are_refused(bad: float) -> None:
    """As a reward and as a baseline."""
    with pytest.raises(ContractError, match="finite"):
        compute_advantages([0.0, bad])
    with pytest.raises(ContractError, match="finite"):
        compute_advantages([0.0, 1.0], baseline=bad)


@given(st.lists(st.tuples(st.none() | st.sampled_from([0.0, 0.1, 0.3, 1.0]), st.integers(0, 3)), max_size=12))
def test_a_group_without_spread_is_reported_and_moves_nothing(rows: list[tuple[float | None, int]]) -> None:
    """Advantages are those of the group alone; equal rewards, or one alone, give exactly 0; what has no reward none."""
    found = group_advantages([reward for reward, _ in rows], [group for _, group in rows])

    for group in {group for _, group in rows}:
        places = [place for place, (reward, own) in enumerate(rows) if own == group and reward is not None]
        values = [reward for place in places if (reward := rows[place][0]) is not None]
        assert (group in found.flat) == (bool(values) and len(set(values)) == 1)
        expected = [0.0] * len(values) if group in found.flat else compute_advantages(values)
        assert [found.advantages[place] for place in places] == expected
    assert [a is None for a in found.advantages] == [reward is None for reward, _ in rows]


@given(st.lists(st.none() | st.floats(-1, 1) | st.sampled_from([0.3, -0.3]), max_size=9))
def test_examples_to_follow_and_to_avoid_lie_at_the_edges(rewards: list[float | None]) -> None:
    """At least 0.3, at most −0.3, both ends included; what was not scored is neither."""
    positive, negative = positives_and_negatives(rewards)

    for place, reward in enumerate(rewards):
        assert (place in positive) == (reward is not None and reward >= 0.3)
        assert (place in negative) == (reward is not None and reward <= -0.3)
    assert sorted(positive) == list(positive)


def test_what_differs_by_rounding_alone_is_no_spread() -> None:
    """A deviation up to 1e-8 is none: the advantages are exactly 0."""
    found = group_advantages([1.0, 1.0 + 1e-9, 0.0, 1.0], ["a", "a", "b", "b"])

    assert found.advantages[:2] == (0.0, 0.0)
    assert found.flat == ("a",)


# -- batches -----------------------------------------------------------------------------------------------------------


def _fact(name: str) -> Callable[[Trajectory], Any]:
    return lambda trajectory: trajectory.facts.get(name)


def _batch(name: str, *values: Any) -> list[Trajectory]:
    return [Trajectory((), (), {name: value}) for value in values]


async def test_what_failed_is_in_no_mean() -> None:
    """A trajectory whose rule failed has no reward and no advantage; the others' are as if it were not there."""
    config = WeightedRewardConfig({"x": 1.0})

    with_it = await score_batch(_batch("x", 1.0, "broken", 0.0), {"x": _fact("x")}, config)
    without = await score_batch(_batch("x", 1.0, 0.0), {"x": _fact("x")}, config)

    assert with_it.rewards == (1.0, None, 0.0)
    assert with_it.advantages == (without.advantages[0], None, without.advantages[1])
    assert with_it.parts[1]["x"].status == "error"


async def test_a_batch_knows_its_groups() -> None:
    """Advantages are of the group; a baseline counts for a group without spread, which is reported in any case."""
    batch, rules = _batch("x", 1.0, 0.0, 1.0, 1.0), {"x": _fact("x")}
    config = WeightedRewardConfig({"x": 1.0})

    found = await score_batch(batch, rules, config, groups="aabb")
    based = await score_batch(batch, rules, config, groups="aabb", baseline=0.5, normalize=False)

    assert found.advantages == (pytest.approx(math.sqrt(0.5)), pytest.approx(-math.sqrt(0.5)), 0.0, 0.0)
    assert based.advantages == (0.5, -0.5, 0.5, 0.5)
    assert found.flat == based.flat == ("b",)
    with pytest.raises(ConfigError, match="4 trajectories have 3 groups"):
        await score_batch(batch, rules, config, groups="aab")
    assert await score_batch([], rules, config) == ((), (), (), ())


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=6), st.floats(1, 1e6))
async def test_normalized_then_summed_no_part_rules_by_its_scale(
    values: list[tuple[float, float]], scale: float
) -> None:
    """Blowing one part up changes no reward, as each part is brought to mean 0 and deviation 1 before the sum."""
    config = WeightedRewardConfig({"x": 0.5, "y": 0.5})
    rules = {"x": lambda pair: round(pair[0], 3), "y": lambda pair: round(pair[1], 3)}
    blown = {"x": rules["x"], "y": lambda pair: round(pair[1], 3) * scale}

    plain = await score_batch(values, rules, config, aggregation="normalize_then_sum")
    large = await score_batch(values, blown, config, aggregation="normalize_then_sum")

    assert list(large.rewards) == pytest.approx(list(plain.rewards), abs=1e-6)
    assert sum(reward for reward in plain.rewards if reward is not None) == pytest.approx(0.0, abs=1e-9)


async def test_no_more_than_told_are_scored_side_by_side() -> None:
    """Twenty trajectories, three at once: as many are under way, never more."""
    under_way, most = 0, 0

    async def slow(_: Trajectory) -> float:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return 1.0

    found = await score_batch(_batch("x", *range(20)), {"slow": slow}, WeightedRewardConfig({"slow": 1.0}), at_once=3)

    assert most == 3
    assert found.rewards == (1.0,) * 20


async def test_a_cancelled_batch_leaves_no_rule_running() -> None:
    """Whoever cancels it has everything ended."""
    begun, ended = asyncio.Event(), 0

    async def endless(_: Trajectory) -> float:
        nonlocal ended
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended += 1
        return 1.0

    task = asyncio.create_task(score_batch(_batch("x", 1, 2), {"e": endless}, WeightedRewardConfig({"e": 1.0})))
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == 2
