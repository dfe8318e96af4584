"""Lean rows, filters and neighbours: what every experience store says to pages and charts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conch.experience import CycleFilter, CycleOrder, ExperienceStore, MemoryStore
from conch_schemas import Action, Cut, ExperienceRecorded, GoalCheck, Outcome
from tests.store.conftest import Apply, Facts

if TYPE_CHECKING:
    from tests.store.conftest import Place


READ = Action(kind="TOOL", valid=True, tool="filesystem", args={"operation": "read", "path": "notes/KELP.md"})
SHUT = Action(kind="TOOL", valid=False, reason="there is no such tool", tool="x" * 500)
FAILED = Outcome(status="error", output=Cut(text="no", length=2, sha256="0" * 64), error="no")


def a_life(store: ExperienceStore, facts: Any, shared_events: Any) -> None:
    """Cycle 1 rests, 2 reads, 3 fails and stays incomplete, 4 is invalid, 5 rests; and another agent's first."""
    shared_events(store, facts.weights(), facts.weights(agent="delta"), *facts.cycle(1), *facts.cycle(1, agent="delta"))
    shared_events(store, facts.act(2, action=READ, raw="TOOL: filesystem"), *facts.judged(2)[1:])
    shared_events(store, facts.act(3, outcome=FAILED), facts.reward(3), now=facts.at(3))
    store.expire(facts.at(3, 60))
    shared_events(store, facts.act(4, action=SHUT, raw="Über alles"), *facts.judged(4)[1:], facts.reflected(4))
    shared_events(store, *facts.cycle(5))


def test_a_point_says_what_its_experience_says(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Every field is that of the experience, the oldest first, late reflections and revisions with it."""
    a_life(store, facts, shared_events)
    shared_events(store, facts.needs(3), now=facts.at(3, 61))

    points = store.charts.points("echo", 99)

    for point, whole in zip(points, store.cycles.last("echo", 99), strict=True):
        assert (point.cycle, point.seq, point.acted_at) == (whole.cycle, whole.seq, whole.acted_at)
        assert (point.outcome, point.kind, point.valid) == (whole.outcome.status, whole.action.kind, whole.action.valid)
        assert (point.skill, point.tool) == (whole.action.skill, whole.action.tool and whole.action.tool[:100])
        assert (point.total, point.coverage, point.complete) == (whole.total, whole.coverage, whole.complete)
        assert point.revision == whole.revision
        assert point.needs_after == whole.needs_after
        names = ("component", "value", "weight", "status", "scorer", "version")
        said = [[getattr(score, name) for name in names] for score in point.scores]
        assert said == [[getattr(score, name) for name in names] for score in whole.scores]
        assert [(line.step, line.amount) for line in point.breakdown] == [
            (line.step, line.amount) for line in whole.breakdown
        ]
    assert [(point.cycle, point.revision) for point in points] == [(1, 1), (2, 1), (3, 2), (4, 1), (5, 1)]


def test_an_actions_cycle_is_known_by_its_id(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Of any agent; of an action that nobody has heard of there is none."""
    a_life(store, facts, shared_events)

    assert [store.cycles.cycle_of(str(facts.act(number).action_id)) for number in (1, 4)] == [1, 4]
    assert store.cycles.cycle_of("nobody's") is None


def test_what_goals_checks_said_is_told_act_by_act(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Of the last acts, the oldest first; an act without an active goal says nothing of any."""
    check = GoalCheck(goal="g", statement="Tidy up", outcome="partial", measure=0.5, best=0.25)
    shared_events(store, facts.weights(), facts.act(1), facts.act(2, goals=(check,)), facts.act(3))

    told = store.charts.goal_checks("echo", 2)

    assert [(cycle, [(one.goal, one.outcome, one.measure, one.best) for one in said]) for cycle, said in told] == [
        (2, [("g", "partial", 0.5, 0.25)]),
        (3, []),
    ]


def test_which_policy_earned_what_is_told_cycle_by_cycle(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """Of the last experiences, the oldest first; an act without a policy has none."""
    shared_events(store, facts.weights(), *facts.cycle(1))
    shared_events(store, facts.act(2).model_copy(update={"policy": "p2"}), *facts.judged(2)[1:])

    told = store.charts.policies("echo", 9)

    assert [(cycle, policy) for cycle, policy, _ in told] == [
        (one.cycle, one.policy) for one in store.cycles.last("echo", 9)
    ]
    assert [total for *_, total in told] == [point.total for point in store.charts.points("echo", 9)]
    assert told[-1][1] == "p2"


def test_points_come_in_pages(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """The last ones, or those before a cycle, which may be any number."""
    a_life(store, facts, shared_events)

    assert [point.cycle for point in store.charts.points("echo", 2)] == [4, 5]
    assert [point.cycle for point in store.charts.points("echo", 2, before=4)] == [2, 3]
    assert len(store.charts.points("echo", 9, before=10**30)) == 5
    assert store.charts.points("echo", 9, before=-(10**30)) == []
    assert store.charts.points("nobody", 9) == []


@pytest.mark.parametrize(
    ("filters", "cycles"),
    [
        (CycleFilter(), [5, 4, 3, 2, 1]),
        (CycleFilter(outcome="error"), [3]),
        (CycleFilter(kind="TOOL"), [4, 2]),
        (CycleFilter(tool="filesystem"), [2]),
        (CycleFilter(tool="x" * 100), [4]),
        (CycleFilter(skill="filesystem.read"), [2]),
        (CycleFilter(skill="invalid"), [4]),
        (CycleFilter(need="curiosity"), [5, 4, 2, 1]),
        (CycleFilter(complete=False), [3]),
        (CycleFilter(complete=True, kind="DO_NOTHING"), [5, 1]),
        (CycleFilter(least=0.21), [5, 4, 2, 1]),
        (CycleFilter(most=0.2), [3]),
        (CycleFilter(least=-1.0, most=-0.5), []),
        (CycleFilter(first=2, last=3), [3, 2]),
        (CycleFilter(first=-(10**30), last=10**30, outcome="none"), [5, 4, 2, 1]),
        (CycleFilter(text="kelp"), [2]),
        (CycleFilter(text="filesystem.read notes/"), [2]),
        (CycleFilter(text="ÜBER"), [4]),
        (CycleFilter(text="THOUGHT 5"), [5]),
        (CycleFilter(text="no such tool"), [4]),
        (CycleFilter(text="INVALID"), [4]),
        (CycleFilter(text="Do_Nothing"), [5, 3, 1]),
        (CycleFilter(text="rest", first=2), [5, 3]),
        (CycleFilter(text="conch.v1"), []),
        (CycleFilter(text="%"), []),
    ],
)
def test_a_filter_lets_through_what_it_says(
    store: ExperienceStore, facts: Facts, shared_events: Apply, filters: CycleFilter, cycles: list[int]
) -> None:
    """Every condition that is named holds; text is looked for in thought, reply and action, and nowhere else."""
    a_life(store, facts, shared_events)

    found = store.cycles.find("echo", filters, 99)

    assert [one.cycle for one in found] == cycles
    assert [store.cycles.get("echo", cycle) for cycle in cycles] == found


def test_a_rule_and_a_goal_are_filters_too(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """A rule: where its score is not 0 or an error; a goal: where its own check came further, which pays."""
    a_life(store, facts, shared_events)
    paid = (facts.score("format", 0.0), facts.score("execution", None, status="error"))
    moved = [GoalCheck(goal=name, statement=name, outcome="partial", measure=0.5, best=0.0) for name in ("g", "h")]
    shared_events(
        store, facts.act(6, goals=(moved[0],)), facts.reward(6, *paid, facts.score("goal", 0.5)), *facts.judged(6)[2:]
    )
    shared_events(
        store, facts.act(7, goals=(moved[1],)), facts.reward(7, *paid, facts.score("goal", 0.5)), *facts.judged(7)[2:]
    )
    shared_events(
        store, facts.act(8, goals=(moved[0],)), facts.reward(8, *paid, facts.score("goal", 0.0)), *facts.judged(8)[2:]
    )
    every = store.cycles.find("echo", CycleFilter(), 99)

    def at(filters: CycleFilter) -> list[int | None]:
        return [one.cycle for one in store.cycles.find("echo", filters, 99)]

    for rule in {score.component for one in every for score in one.scores}:
        said = [
            one.cycle
            for one in every
            if any(each.component == rule and (each.value or each.status == "error") for each in one.scores)
        ]
        assert at(CycleFilter(rule=rule)) == said
    assert at(CycleFilter(goal="g")) == [6]
    assert at(CycleFilter(goal="h", least=-1.0, text="nowhere to be found")) == []
    assert at(CycleFilter(goal="nobody's")) == []


@pytest.mark.parametrize("by", ["cycle", "need", "skill", "outcome", "ms", "total"])
@pytest.mark.parametrize("filters", [CycleFilter(first=2), CycleFilter(text="t")])
@pytest.mark.parametrize("falling", [True, False])
def test_cycles_come_in_any_order(
    store: ExperienceStore, facts: Facts, shared_events: Apply, by: Any, filters: CycleFilter, falling: bool
) -> None:
    """By each key, up and down, of equals the newest first, what has none at the end; page by page as well."""
    a_life(store, facts, shared_events)
    found = store.cycles.find("echo", filters, 99)
    order = CycleOrder(by, falling)

    def key(one: ExperienceRecorded) -> Any:
        told = {"cycle": one.cycle, "skill": one.action.skill[:100], "outcome": one.outcome.status, "total": one.total}
        needs = one.needs_before or {}
        told["need"] = min(sorted(needs), key=needs.__getitem__) if needs else None
        told["ms"] = sum(ms for phase, ms in one.ms.items() if phase != "reflect")
        return told[by]

    known = sorted((one for one in found if key(one) is not None), key=key, reverse=falling)
    expected = [one.cycle for one in [*known, *(one for one in found if key(one) is None)]]
    ranked = store.cycles.ranked("echo", filters, order, 99)

    assert len(found) > 1
    assert [one.cycle for one in ranked] == expected
    pages = [store.cycles.ranked("echo", filters, order, 2, skip) for skip in range(0, len(found), 2)]
    assert [one.cycle for page in pages for one in page] == expected


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    least=st.none() | st.sampled_from([0.0, 0.2]),
    kind=st.none() | st.sampled_from(["TOOL", "DO_NOTHING"]),
    text=st.none() | st.sampled_from(["rest", "e", "nowhere"]),
    size=st.integers(1, 4),
)
def test_pages_together_are_the_whole(
    pages: MemoryStore, least: float | None, kind: str | None, text: str | None, size: int
) -> None:
    """Page after page by the last cycle of each gives what one page of everything gives, whatever the filter."""
    filters = CycleFilter(least=least, kind=kind, text=text)
    found: list[int] = []

    while page := pages.cycles.find("echo", filters, size, found[-1] if found else None):
        found += [one.cycle or 0 for one in page]

    assert found == [one.cycle for one in pages.cycles.find("echo", filters, 99)]


@pytest.fixture(scope="module")
def pages(facts: Facts, shared_events: Apply) -> Iterator[MemoryStore]:
    with MemoryStore() as store:
        a_life(store, facts, shared_events)
        yield store


def test_text_is_found_beyond_the_first_page_that_is_looked_through(facts: Facts, shared_events: Apply) -> None:
    """However many cycles lie between."""
    with MemoryStore() as store:
        shared_events(store, facts.weights(), facts.act(1, raw="NEEDLE"), *facts.judged(1)[1:], *facts.cycle(2))
        for start in range(3, 700, 100):
            shared_events(store, *(event for cycle in range(start, start + 100) for event in facts.judged(cycle)))

        assert [one.cycle for one in store.cycles.find("echo", CycleFilter(text="needle"), 9)] == [1]


def test_a_cycle_has_neighbours(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """The nearest recorded ones on both sides, of the same agent, whether or not the cycle itself is there."""
    a_life(store, facts, shared_events)

    assert store.cycles.neighbours("echo", 1) == (None, 2)
    assert store.cycles.neighbours("echo", 5) == (4, None)
    assert store.cycles.neighbours("echo", 99) == (5, None)
    assert store.cycles.neighbours("delta", 1) == (None, None)
    assert store.cycles.neighbours("echo", 10**30) == (5, None)


def test_the_last_cycles_are_counted_by_what_they_are(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """Alike ones together, the most frequent first; only of the last so many."""
    a_life(store, facts, shared_events)

    tallies = store.charts.tallies("echo", 99)
    newest = store.charts.tallies("echo", 2)

    assert (tallies[0].outcome, tallies[0].kind, tallies[0].cycles) == ("none", "DO_NOTHING", 2)
    assert sum(tally.cycles for tally in tallies) == 5
    assert sorted((tally.skill, tally.cycles) for tally in newest) == [("do_nothing", 1), ("invalid", 1)]


def test_what_each_skill_earned_is_summed_by_buckets(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """Of neighbouring cycles of one agent, oldest first; counts and sums are those of the experiences."""
    a_life(store, facts, shared_events)
    lived = store.cycles.last("echo", 99)

    found = store.charts.behaviours("echo", 2)

    assert [one.bucket for one in found] == sorted(one.bucket for one in found)
    for one in found:
        mine = [each.total for each in lived if ((each.cycle or 0) // 2, each.action.skill) == (one.bucket, one.skill)]
        assert one.cycles == len(mine)
        assert one.total == pytest.approx(sum(mine))
    assert sum(one.cycles for one in found) == len(lived)
    assert store.charts.behaviours("delta", 2) == []


def test_an_act_that_turns_out_to_stand_earlier_is_what_counts(
    store: ExperienceStore, facts: Facts, placed: Place
) -> None:
    """The row's columns go with the act that holds, as the whole experience does."""
    store.apply(placed(facts.weights(), *facts.judged(1), first=10), upto=14, now=facts.now)

    store.apply(placed(facts.act(1, action=READ, outcome=FAILED), first=11), upto=14, now=facts.now)
    store.apply(placed(facts.act(1, action=READ, outcome=FAILED), first=5), upto=14, now=facts.now)

    (point,), whole = store.charts.points("echo", 9), store.cycles.get("echo", 1)
    assert whole is not None
    assert (point.skill, point.outcome, point.seq) == (whole.action.skill, whole.outcome.status, whole.seq)
    assert (point.skill, point.outcome, point.seq) == ("filesystem.read", "error", 5)
