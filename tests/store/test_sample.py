"""Draws: how likely each experience is, what its weight corrects, what a limit allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from conch.errors import SampleError, UsageError
from conch.experience import ExperienceStore
from conch.experience.sample import ExperienceSampler, PriorityRule, SampleLimiter, SumTree
from conch_schemas import Action, Cut, Outcome

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts

VALUES = arrays(np.float64, st.integers(1, 400), elements=st.floats(0, 1e6, allow_subnormal=False))


@given(VALUES, st.lists(st.tuples(st.integers(0, 399), st.floats(0, 1e6)), max_size=20))
def test_a_tree_has_the_sum_of_its_values_whatever_was_set(
    values: np.ndarray[Any, np.dtype[np.float64]], changes: list[tuple[int, float]]
) -> None:
    """Set one by one or built anew: the same bits, so no error adds up."""
    tree = SumTree(values)
    for index, value in changes:
        index %= len(values)
        tree.set(np.array([index]), np.array([value]))
        values[index] = value

    assert tree.total == SumTree(values).total == pytest.approx(values.sum())
    assert tree.values(np.arange(len(values))).tolist() == values.tolist()


@given(VALUES, arrays(np.float64, 32, elements=st.floats(0, 1, exclude_max=True)))
def test_a_draw_is_where_the_running_sum_passes_the_point(
    values: np.ndarray[Any, np.dtype[np.float64]], points: np.ndarray[Any, np.dtype[np.float64]]
) -> None:
    """So an index has the chance of its value, and one without value is never drawn."""
    if values.sum() <= 0:
        return
    tree = SumTree(values)

    drawn = tree.draw(points)

    assert (values[drawn] > 0).all()
    ends = values.cumsum()
    slack = 1e-9 * ends[-1]
    assert (ends[drawn] >= points * ends[-1] - slack).all()
    assert (ends[drawn] - values[drawn] <= points * ends[-1] + slack).all()


def test_four_levels_draw_as_the_running_sum_does() -> None:
    """40,000 values are more than three levels of 32 hold."""
    values = np.random.default_rng(1).random(40_000)
    points = np.linspace(0, 0.999999, 500)

    drawn = SumTree(values).draw(points)

    assert drawn.tolist() == np.searchsorted(values.cumsum(), points * values.sum(), side="right").tolist()


def rested(store: ExperienceStore, facts: Any, shared_events: Any, totals: list[float]) -> None:
    """Cycles of one agent whose scores of execution are these: all of one skill."""
    shared_events(store, facts.weights())
    for cycle, value in enumerate(totals, 1):
        shared_events(
            store, facts.act(cycle), facts.reward(cycle, facts.score("execution", value)), facts.novelty(cycle)
        )
        shared_events(store, facts.needs(cycle), facts.reward(cycle, facts.score("format", 0.0), version="0"))
    store.expire(facts.now)


def test_a_chance_follows_surprise_age_and_uses(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """P(i) = p^alpha ÷ sum, of p = (surprise + floor) × 0.5^(age ÷ half_life) ÷ (1 + uses); weights (N × P)^-beta."""
    rested(store, facts, shared_events, [0.0, 0.0, 1.0, 0.0])
    rule = PriorityRule(alpha=0.5, beta=0.4, annealing=2, floor=0.1, half_life=2.0)
    sampler = ExperienceSampler(store.sampling, size=100, seed=3, priority=rule)
    totals = sampler.view.column("total").tolist()
    expected = [0.0, *(sum(totals[:n]) / n for n in (1, 2, 3))]
    surprise = [abs(total - mean) for total, mean in zip(totals, expected, strict=True)]
    assert sampler.view.column("surprise").tolist() == pytest.approx(surprise)
    uses = np.zeros(4)

    for beta in (0.4, 0.7, 1.0, 1.0):
        powers = ((np.array(surprise) + 0.1) * 0.5 ** (np.array([3, 2, 1, 0]) / 2) / (1 + uses)) ** 0.5
        chances = dict(zip((1, 2, 3, 4), powers / powers.sum(), strict=True))

        batch = sampler.prioritised(2)

        assert batch.chances.tolist() == pytest.approx([chances[cycle] for cycle in batch.cycles.tolist()])
        weights = (4 * batch.chances) ** -beta
        assert batch.weights.tolist() == pytest.approx((weights / weights.max()).tolist())
        uses[np.unique(batch.cycles) - 1] += 1
    assert len(set(uses)) > 1


def test_draws_are_as_frequent_as_their_chances(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """One from each equal part of the sum: in a batch of 1,000 each count is within one of its expectation."""
    rested(store, facts, shared_events, [0.0, 0.3, 1.0, -0.3, 0.1])
    batch = ExperienceSampler(store.sampling).prioritised(1000)

    for cycle in range(1, 6):
        mine = batch.cycles == cycle
        assert abs(mine.sum() - 1000 * batch.chances[mine][0]) <= 2


def test_a_trainers_surprise_replaces_the_first_one(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Until the total changes; an act outside of the view is passed over."""
    rested(store, facts, shared_events, [0.0, 0.0, 0.0])
    sampler = ExperienceSampler(store.sampling, priority=PriorityRule(floor=1e-6))
    act = int(sampler.view.column("act")[1])

    sampler.update([act, 999], [5.0, 1.0])

    assert sampler.prioritised(100).cycles.tolist().count(2) > 90
    version = facts.reward(2, facts.score("execution", 0.1, version="9"), version="9")
    shared_events(store, version)
    sampler.refresh()
    assert sampler.view.column("surprise")[1] < 0.1
    with pytest.raises(UsageError, match="finite and at least 0"):
        sampler.update([act], [float("nan")])


def test_a_batchs_surprises_are_its_acts_wherever_their_rows_stand_now(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """Drawn, then some are pushed out of the view and others take their slots: no other act gets their surprise."""
    rested(store, facts, shared_events, [0.0] * 6)
    sampler = ExperienceSampler(store.sampling, size=6, seed=5)
    batch = sampler.uniform(40)
    assert set(batch.cycles.tolist()) == {1, 2, 3, 4, 5, 6}
    sampler.update(batch.acts, batch.cycles + 10.0)
    view = sampler.view
    assert dict(zip(view.column("cycle").tolist(), view.column("surprise").tolist(), strict=True)) == {
        cycle: cycle + 10.0 for cycle in range(1, 7)
    }

    shared_events(store, *facts.judged(7), *facts.judged(8))
    sampler.refresh()
    sampler.update(batch.acts, batch.cycles + 20.0)

    found = dict(zip(view.column("cycle").tolist(), view.column("surprise").tolist(), strict=True))
    assert {cycle: found[cycle] for cycle in (3, 4, 5, 6)} == {cycle: cycle + 20.0 for cycle in (3, 4, 5, 6)}
    assert found[7] < 10
    assert found[8] < 10


def test_priorities_outlast_any_number_of_experiences(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """With a half-life of a thirtieth of an experience the scale doubles 30 times each: the sum stays finite, and the
    newest is drawn."""
    sampler = ExperienceSampler(store.sampling, priority=PriorityRule(alpha=1.0, half_life=1 / 30))
    shared_events(store, facts.weights())
    for cycle in range(1, 60):
        shared_events(store, *facts.judged(cycle))

        assert set(sampler.prioritised(4).cycles.tolist()) == {cycle}


def mixed(store: ExperienceStore, facts: Any, shared_events: Any) -> None:
    """Nine cycles of rest, and one that reads."""
    read = Action(kind="TOOL", valid=True, tool="filesystem", args={"operation": "read", "path": "a"})
    done = Outcome(status="success", output=Cut(text="", length=0, sha256="0" * 64))
    shared_events(store, facts.weights())
    for cycle in range(1, 10):
        shared_events(store, *facts.judged(cycle))
    shared_events(store, facts.act(10, action=read, outcome=done), *facts.judged(10)[1:])


@pytest.mark.parametrize("by", ["outcome", "tool"])
def test_a_balanced_batch_has_each_value_as_often(
    by: Any, store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """The one cycle with a tool is half of the batch; the chances say so."""
    mixed(store, facts, shared_events)

    batch = ExperienceSampler(store.sampling, seed=1).balanced(4000, by)

    assert 1800 < (batch.cycles == 10).sum() < 2200
    assert set(np.round(batch.chances, 6)) == {0.5, round(0.5 / 9, 6)}
    with pytest.raises(UsageError, match="by outcome, tool or need"):
        ExperienceSampler(store.sampling).balanced(1, "mood")  # type: ignore[arg-type]


def test_a_value_that_comes_later_is_balanced_too(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """The batch after the first act with that outcome has it."""
    mixed(store, facts, shared_events)
    sampler = ExperienceSampler(store.sampling, size=100)
    sampler.balanced(10, "outcome")
    failed = Outcome(status="error", output=Cut(text="", length=0, sha256="0" * 64), error="no")

    shared_events(store, facts.act(11, outcome=failed), *facts.judged(11)[1:])

    assert 11 in sampler.balanced(100, "outcome").cycles


def test_uniform_draws_all_alike_and_recent_the_newest(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """Of the view alone; recent ones oldest first, as many as there are."""
    mixed(store, facts, shared_events)
    sampler = ExperienceSampler(store.sampling, size=5)

    counts = np.bincount(sampler.uniform(5000).cycles, minlength=11)

    assert counts[:6].tolist() == [0] * 6
    assert counts[6:].min() > 850
    assert sampler.recent(3).cycles.tolist() == [8, 9, 10]
    assert sampler.recent(99).cycles.tolist() == [6, 7, 8, 9, 10]


def test_the_same_seed_draws_the_same(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Each way of drawing; another seed draws others."""
    mixed(store, facts, shared_events)

    def drawn(seed: int) -> list[list[int]]:
        sampler = ExperienceSampler(store.sampling, seed=seed)
        batches = (sampler.uniform(20), sampler.prioritised(20), sampler.balanced(20, "need"))
        return [batch.cycles.tolist() for batch in batches]

    assert drawn(1) == drawn(1) != drawn(2)


def test_a_limit_allows_so_many_rows_for_each_experience(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """A refused draw counts nothing; each new experience allows more."""
    shared_events(store, facts.weights(), *facts.judged(1))
    limiter = SampleLimiter(2.5, least=2)
    sampler = ExperienceSampler(store.sampling, limiter=limiter)

    with pytest.raises(SampleError, match="1 rows are asked for and 0 may be drawn: 1 experiences have come"):
        sampler.uniform(1)
    shared_events(store, *facts.judged(2))
    sampler.prioritised(4)
    with pytest.raises(SampleError, match="4 rows are drawn"):
        sampler.uniform(2)
    sampler.uniform(1)
    shared_events(store, *facts.judged(3))
    sampler.refresh()

    assert (limiter.drawn, limiter.allowance(sampler.view.came)) == (5, 2)


def test_a_revision_of_what_is_older_than_the_view_is_no_new_experience(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """It does not come into the view, and allows no more rows."""
    rested(store, facts, shared_events, [0.0] * 4)
    sampler = ExperienceSampler(store.sampling, size=2)
    came = sampler.view.came

    shared_events(store, facts.reward(1, facts.score("execution", 0.9, version="9"), version="9"))
    sampler.refresh()

    assert (sampler.view.came, sampler.recent(9).cycles.tolist()) == (came, [3, 4])


def test_of_an_empty_store_nothing_is_drawn(store: ExperienceStore) -> None:
    """One sentence, for each way of drawing."""
    sampler = ExperienceSampler(store.sampling)
    for draw in (sampler.uniform, sampler.recent, sampler.prioritised):
        with pytest.raises(SampleError, match="no experience to draw from yet"):
            draw(1)


@pytest.mark.parametrize("name", ["alpha", "beta", "annealing", "floor", "half_life"])
def test_a_value_outside_its_range_is_refused(name: str, store: ExperienceStore) -> None:
    """Of the priorities, the view, the limiter and a count."""
    with pytest.raises(UsageError, match=name):
        PriorityRule(**{name: -1})
    with pytest.raises(UsageError, match="size of the view"):
        ExperienceSampler(store.sampling, size=0)
    with pytest.raises(UsageError, match="at least 1"):
        ExperienceSampler(store.sampling).uniform(0)
    with pytest.raises(UsageError, match="above 0"):
        SampleLimiter(0)
    with pytest.raises(UsageError, match="at least 1"):
        SampleLimiter(1, least=0)
