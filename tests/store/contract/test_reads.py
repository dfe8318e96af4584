"""What a store tells: cycles, what waits, needs, figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from conch.experience import CostSummary, ExperienceStore, ScoredSince
from conch.experience.store import PendingActs
from conch_schemas import ActionTaken, Cost, Usage
from tests.store.contract.conftest import TOTAL

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts


def test_cycles_are_the_last_ones_oldest_first(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """`limit` takes from the end, `before` pages back; an agent or all of them."""
    shared_events(store, facts.weights(), facts.weights(agent="delta"))
    for n in (1, 2, 3):
        shared_events(store, *facts.judged(n))
    shared_events(store, *facts.judged(9, agent="delta"))

    def numbers(*query: Any) -> list[int | None]:
        return [experience.cycle for experience in store.cycles.last(*query)]

    assert numbers("echo", 2) == [2, 3]
    assert numbers("echo", 2, 3) == [1, 2]
    assert numbers(None, 2) == [3, 9]
    assert numbers(None, 9, store.cycles.last(None, 1)[0].seq) == [1, 2, 3]
    assert numbers("nobody", 5) == []
    assert store.agents() == ("delta", "echo")


def test_a_walk_gives_every_experience_oldest_first(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Across pages, of an agent or of all; from a cycle or a moment on, and of those the last so many."""
    shared_events(store, facts.weights(), facts.weights(agent="delta"))
    for n in range(1, 202):
        shared_events(store, *facts.judged(n))
    shared_events(store, *facts.judged(300, agent="delta"))

    def numbers(*query: Any) -> list[int | None]:
        return [experience.cycle for experience in store.cycles.walk(*query)]

    assert numbers("echo", ScoredSince()) == list(range(1, 202))
    assert numbers(None, ScoredSince()) == [*range(1, 202), 300]
    assert numbers("echo", ScoredSince(cycle=200)) == numbers("echo", ScoredSince(time=facts.at(200))) == [200, 201]
    assert numbers(None, ScoredSince(cycle=200), 2) == [201, 300]
    assert numbers("echo", ScoredSince(), 101) == list(range(101, 202))
    assert numbers("nobody", ScoredSince()) == []


def test_reads_tell_the_recorded_from_the_pending(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """An act is pending until it is recorded; it has no experience before, and counts as the last cycle at once."""
    shared_events(store, facts.weights(), *facts.judged(1), facts.act(2))

    assert (store.cycles.pending("echo"), store.cycles.pending(), store.cycles.pending("delta")) == (1, 1, 0)
    assert (store.cycles.last_cycle("echo"), store.cycles.last_cycle("delta")) == (2, None)
    assert (store.cycles.get("echo", 2), store.cycles.get("echo", 3)) == (None, None)
    assert list(store.chain.acts("echo")) == [(facts.act(n).action_id, n) for n in (1, 2)]


def test_what_acts_wait_for_is_told(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """How many acts of a moment and before wait, and for which parts, whoever else has scored them."""
    shared_events(store, facts.weights(), *facts.judged(1), facts.act(2), facts.reward(2), facts.needs(2), facts.act(3))

    assert store.cycles.awaited(facts.at(1)) == PendingActs(0, ())
    assert store.cycles.awaited(facts.at(2)) == PendingActs(1, ("exploration",))
    assert store.cycles.awaited(facts.at(3)) == PendingActs(2, ("format", "execution", "needs", "goal", "exploration"))
    shared_events(store, facts.act(4, agent="delta"))
    assert store.cycles.awaited(facts.at(4)).acts == 3


def test_needs_have_a_history(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Changes of needs are kept whole, also those that belong to no action."""
    outside = facts.needs(3).model_copy(update={"id": "n", "action_id": None, "cycle": None, "score": None})
    changes = [facts.needs(1), facts.needs(2), outside]

    shared_events(store, *changes)

    assert store.charts.needs_history("echo", 2) == changes[1:]


def test_components_have_figures(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Per component and scorer: how often, mean, percentiles, errors, coverage over the last experiences."""
    shared_events(store, facts.weights())
    for n, value in enumerate((0.5, 0.25, None, 0.0), start=1):
        scored = facts.score("format", value, status="scored" if value is not None else "error")
        rest = (facts.score("execution", 0.2), facts.score("goal", None))
        shared_events(store, facts.act(n), facts.reward(n, scored, *rest), facts.needs(n), facts.novelty(n))

    stats = {one.component: one for one in store.charts.component_stats("echo")}

    heaviest = store.charts.component_stats(None)[0]
    assert heaviest == stats["format"]
    assert (heaviest.count, heaviest.scored, heaviest.errors, heaviest.coverage) == (4, 3, 1, 0.75)
    assert (heaviest.mean, heaviest.p50, heaviest.p95) == (0.25, 0.25, 0.5)
    assert (stats["goal"].mean, stats["goal"].coverage) == (None, 1.0)
    assert (stats["needs"].scorer, stats["needs"].version, stats["needs"].weight) == ("needs", "1", 0.2)
    assert store.charts.component_stats("echo", last=1)[0].mean == 0.0


def test_a_status_has_simple_figures(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Mean total, coverage, incomplete ones and outcomes of the last experiences; None where there are none."""
    empty = store.charts.figures("echo")
    shared_events(store, facts.weights(), *facts.judged(1), *facts.judged(2), facts.act(3))
    store.expire(facts.at(99))

    figures = store.charts.figures("echo", last=2)

    assert (empty.count, empty.mean_total, empty.coverage, empty.outcomes) == (0, None, None, {})
    assert (figures.count, figures.incomplete, figures.outcomes) == (2, 1, {"none": 2})
    assert figures.mean_total == pytest.approx(TOTAL / 2)


def test_costs_are_summed_and_what_is_unknown_is_counted(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """By currency, over the last cycles; one that used no tokens and has no cost is neither known nor unknown."""
    spent = {"usage": Usage(input_tokens=10, output_tokens=1)}
    costs: list[dict[str, Any]] = [
        {"cost": Cost(amount=9.0, currency="EUR"), **spent},
        {"cost": Cost(amount=0.25, currency="EUR"), **spent},
        {"cost": Cost(amount=0.5, currency="EUR")},
        {"cost": Cost(amount=2.0, currency="USD"), **spent},
        spent,
        {},
    ]
    shared_events(store, facts.weights())
    for cycle, changes in enumerate(costs, 1):
        scored = [fact for fact in facts.judged(cycle) if not isinstance(fact, ActionTaken)]
        shared_events(store, facts.act(cycle, **changes), *scored)

    for agent in ("echo", None):
        assert store.charts.costs(agent, last=5) == CostSummary({"EUR": 0.75, "USD": 2.0}, known=3, unknown=1)
    assert store.charts.costs("nobody") == CostSummary({}, known=0, unknown=0)
    assert store.cycles.get("echo", 1).cost == Cost(amount=9.0, currency="EUR")
