"""What every experience store says of a whole life: totals in pages, removed ones, the acts that moved a goal."""

from __future__ import annotations

from datetime import timedelta

from conch.experience import ExperienceStore, RetentionLimits
from conch_schemas import RewardAssigned, Score
from tests.store.conftest import Apply, Facts


def goal_score(value: float, why: str) -> Score:
    """A score of the component goal."""
    return Score(
        component="goal", value=value, range=(0, 2), status="scored", explanation=why, scorer="reward", version="1"
    )


def moved(facts: Facts, cycle: int, value: float, why: str) -> RewardAssigned:
    """The scorer `reward` on a cycle, with this value of the component goal."""
    told = facts.reward(cycle)
    others = tuple(one for one in told.scores if one.component != "goal")
    return told.model_copy(update={"scores": (*others, goal_score(value, why))})


def test_totals_are_those_of_the_experiences(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """From a cycle on, the oldest first, of one agent; a gap of cycles is passed over."""
    shared_events(store, facts.weights(), facts.weights(agent="delta"), *facts.cycle(7, agent="delta"))
    for number in (1, 2, 60_003):
        shared_events(store, *facts.cycle(number), now=facts.at(number))

    told = [row for page in store.charts.totals("echo", 2) for row in page]

    assert told == [(one.cycle, one.total) for one in store.cycles.last("echo", 9)][1:]
    assert [len(page) for page in store.charts.totals("echo", 0)] == [2, 1]
    assert list(store.charts.totals("nobody", 0)) == []
    upto = [row for page in store.charts.totals("echo", 0, told[-1][0]) for row in page]
    assert [cycle for cycle, _ in upto] == sorted(cycle for cycle, _ in upto if cycle < told[-1][0])
    assert upto[-1][0] < told[-1][0]


def test_totals_within_spans_are_those_of_their_cycles(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """Of one agent, the oldest first; a span is up to the cycle behind its last, and one without a cycle has none. Also
    of more spans than a statement takes."""
    shared_events(store, facts.weights(), facts.weights(agent="delta"), *facts.judged(9, agent="delta"))
    for number in (1, 2, 3, 7):
        shared_events(store, *facts.judged(number))
    totals = {one.cycle: one.total for one in store.cycles.last("echo", 9)}

    assert store.charts.totals_within("echo", [(0, 2), (3, 4), (5, 7)]) == [(1, totals[1]), (3, totals[3])]
    assert store.charts.totals_within("echo", [(number, number + 1) for number in range(1100)]) == [*totals.items()]
    assert store.charts.totals_within("echo", []) == store.charts.totals_within("nobody", [(0, 9)]) == []


def test_skills_are_the_skills_and_totals_of_the_points(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """The last ones of one agent, the oldest first; with a bound those below it."""
    shared_events(store, facts.weights(), facts.weights(agent="delta"), *facts.judged(9, agent="delta"))
    for number in (1, 2, 3):
        shared_events(store, *facts.judged(number))
    told = [(one.cycle, one.skill, one.total) for one in store.charts.points("echo", 9)]

    assert store.charts.skills("echo", 9) == told
    assert store.charts.skills("echo", 2) == told[1:]
    assert store.charts.skills("echo", 1, before=3) == told[1:2]
    assert store.charts.skills("nobody", 9) == []


def test_when_a_cycle_acted_is_told_also_for_a_number_that_is_missing(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """The first act from that cycle on; None behind the last one. In the order of the numbers, however many."""
    shared_events(store, facts.weights(), *facts.cycle(1), *facts.cycle(4))

    assert store.charts.acted_at("echo", [1, 2, 5]) == [facts.at(1), facts.at(4), None]
    assert store.charts.acted_at("echo", [5, *[1] * 600, 2]) == [None, *[facts.at(1)] * 600, facts.at(4)]


def test_acts_that_moved_a_goal_are_counted_and_the_last_are_told(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """Those with a score of goal above 0; it is reached where the score is the greatest."""
    shared_events(store, facts.weights())
    for number, value in ((1, 1.0), (2, 0.0), (3, 2.0)):
        rest = [one for one in facts.cycle(number) if not isinstance(one, RewardAssigned)]
        shared_events(store, *rest, moved(facts, number, value, f"why {number}"))

    count, last = store.charts.goal_moves("echo", 9)

    assert count == 2
    assert [(one.cycle, one.reached, one.why) for one in last] == [(1, False, "why 1"), (3, True, "why 3")]
    assert [one.cycle for one in store.charts.goal_moves("echo", 1)[1]] == [3]
    assert store.charts.goal_moves("nobody", 9) == (0, [])


def test_a_late_change_of_an_old_cycle_is_found(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Only one that came after the change that is named, of a cycle below the one that is named."""
    shared_events(store, facts.weights(), *facts.cycle(1), *facts.cycle(2))
    seen = store.sampling.changes()

    assert not store.charts.is_changed("echo", 9, seen)
    shared_events(store, *facts.cycle(3))

    assert not store.charts.is_changed("echo", 3, seen)
    assert store.charts.is_changed("echo", 4, seen)
    assert not store.charts.is_changed("delta", 4, seen)


def test_removed_totals_stay_as_sums_by_blocks(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """What retention took away is known as count, sum, least and greatest of each hundred of cycles."""
    shared_events(store, facts.weights())
    for number in range(1, 251):
        shared_events(store, *facts.cycle(number), now=facts.at(number))
    before = dict(row for page in store.charts.totals("echo", 0) for row in page)
    now = facts.at(250) + timedelta(days=900)
    while store.prune(RetentionLimits(seconds=60.0), now).acts:
        pass

    blocks = store.charts.removed_totals("echo")

    gone = [total for cycle, total in before.items() if cycle <= 150]
    assert [(one.cycle, one.acts) for one in blocks] == [(0, 99), (100, 51)]
    assert round(sum(one.total for one in blocks), 6) == round(sum(gone), 6)
    assert (min(one.low for one in blocks), max(one.high for one in blocks)) == (min(gone), max(gone))
