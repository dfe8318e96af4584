"""Retention: the oldest cycles go, what is said of all of them stays."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conch.experience import ExperienceStore, MemoryStore, RetentionLimits, ScoredSince, removal_of
from conch.experience.queries import prune
from conch.views.witness.verification import chain_start
from conch.witness import ChainState, seal, verify
from conch_schemas import ActionTaken, Event, MarkWitnessed, RewardAssigned
from tests.witnessed import recorded

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts


EVERYTHING = RetentionLimits(seconds=1.0)
"""Nothing is young enough hours later."""


@pytest.fixture(autouse=True)
def few_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three cycles of each agent stay in any case, instead of a hundred."""
    monkeypatch.setattr(prune, "KEPT_CYCLES", 3)


def life(facts: Any, cycles: int, agent: str = "echo") -> list[Event]:
    """The weight set, and these cycles with the marks that a witness makes of them."""
    events: list[Event] = [facts.weights(agent=agent)]
    state = ChainState()
    for cycle in range(1, cycles + 1):
        for fact in facts.cycle(cycle, agent):
            if isinstance(fact, MarkWitnessed):
                continue
            events.append(fact)
            if isinstance(fact, ActionTaken):
                act = fact
            if isinstance(fact, ActionTaken | RewardAssigned):
                state, mark = seal(state, fact)
                if isinstance(fact, RewardAssigned):
                    state, mark = seal(state, recorded(act, fact.scores))
                assert mark is not None
                witnessed = facts.mark(cycle, agent)
                events.append(witnessed.model_copy(update={"id": mark.id, "mark": mark}))
    return events


def pruned(store: ExperienceStore, keep: RetentionLimits, now: Any) -> int:
    """Prune until nothing is left to do; how many acts were removed."""
    acts = 0
    while found := store.prune(keep, now).acts:
        acts += found
    return acts


def problems(store: ExperienceStore, agent: str = "echo") -> list[str]:
    """What `conch mark verify` finds."""
    starts = {agent: start} if (start := chain_start(store.retention.removals(agent))) is not None else {}
    acts = [action for action, _ in store.chain.acts(agent)]
    scored = [one for one in store.chain.score_sets(agent) if one[1] == "reward"]  # only these have marks here
    return [one.kind for one in verify(store.chain.marks(agent), acts, scored, starts)]


def test_without_bounds_nothing_is_removed(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """The default keeps everything."""
    shared_events(store, *life(facts, 8))

    assert pruned(store, RetentionLimits(), facts.now + timedelta(days=9999)) == 0
    assert len(store.cycles.last("echo", 99)) == 8


def test_the_oldest_cycles_go_and_the_newest_stay(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """By age: whole cycles from the first one on, but never the newest ones of an agent; it is recorded."""
    shared_events(store, *life(facts, 8))

    removed = pruned(store, RetentionLimits(seconds=60.0), facts.at(6, 60.5))
    rest = pruned(store, EVERYTHING, facts.now)

    assert (removed, rest) == (5, 0)
    assert [one.cycle for one in store.cycles.last("echo", 99)] == [6, 7, 8]
    assert [cycle for _, cycle in store.chain.acts("echo")] == [6, 7, 8]
    assert store.cycles.get("echo", 5) is None
    [removal] = store.retention.removals("echo")
    assert removal[:4] == ("store.keep.days", 1, 5, 5)
    assert removal_of([removal], 5) is removal
    assert removal_of([removal], 6) is None
    for table in ("scores", "contexts", "needs", "experiences", "acts"):
        rows = store._file.db.execute(f"SELECT count(DISTINCT act) FROM {table}").fetchone()  # type: ignore[attr-defined]
        assert rows == (3,), table


def test_a_step_removes_something_however_slow_the_machine(
    store: ExperienceStore, facts: Facts, shared_events: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No time at all is left: a step still removes a few cycles, so that zero means that nothing is due."""
    monkeypatch.setattr("conch.experience.prune.PRUNE_SECONDS", -1.0)
    monkeypatch.setattr(prune, "_PORTION", 2)
    shared_events(store, *life(facts, 8))

    assert [store.prune(EVERYTHING, facts.now).acts for _ in range(4)] == [2, 2, 1, 0]


def test_of_several_agents_each_keeps_its_newest(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """An agent that is quiet loses nothing to one that is busy: the oldest act goes first, but no agent's newest."""
    shared_events(store, *life(facts, 2, "quiet"), *life(facts, 9))

    pruned(store, RetentionLimits(bytes=1), facts.now)

    assert [one.cycle for one in store.cycles.last("quiet", 99)] == [1, 2]
    assert [one.cycle for one in store.cycles.last("echo", 99)] == [7, 8, 9]


def test_what_waits_for_scores_stays_with_all_behind_it(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """An act that is not recorded yet, and one whose scores may still come, are not removed; nor is what follows."""
    incomplete = [one for one in life(facts, 8) if not (isinstance(one, RewardAssigned) and one.cycle == 3)]
    shared_events(store, *incomplete, now=facts.at(8))

    removed = pruned(store, RetentionLimits(bytes=1), facts.at(9))
    store.expire(facts.at(60))
    graced = pruned(store, RetentionLimits(bytes=1, grace=300.0), facts.at(5, 300.5))

    assert (removed, graced) == (2, 3)
    assert store.cycles.last("echo", 99)[0].cycle == 6


def test_marks_go_with_their_acts_and_the_chain_still_verifies(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """The last removed mark's hash is kept, and the first kept mark must follow it."""
    shared_events(store, *life(facts, 8))

    pruned(store, EVERYTHING, facts.now)

    [removal] = store.retention.removals("echo")
    assert (removal.first_mark, removal.last_mark, removal.marks) == (0, 9, 10)
    assert [mark.sequence for mark in store.chain.marks("echo")] == list(range(10, 16))
    assert problems(store) == []


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("DELETE FROM marks WHERE sequence = 10", "missing"),
        ("DELETE FROM marks WHERE sequence = 12", "missing"),
        ("DELETE FROM marks WHERE sequence > 13", "unwitnessed"),
        ("DELETE FROM removals", "missing"),
        (f"UPDATE removals SET hash = '{'0' * 64}'", "changed"),
        ("UPDATE removals SET last_mark = 11", "changed"),
        ("UPDATE removals SET first_mark = 1", "missing"),
    ],
)
def test_tampering_after_pruning_is_found(
    store: ExperienceStore, facts: Facts, shared_events: Apply, sql: str, kind: str
) -> None:
    """Kept marks that were cut out, and a record of removals that does not fit them."""
    shared_events(store, *life(facts, 8))
    pruned(store, EVERYTHING, facts.now)

    store._file.db.execute(sql)  # type: ignore[attr-defined]

    assert kind in problems(store)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM marks WHERE sequence = 4",
        "UPDATE marks SET body = (SELECT unpacked(body) FROM marks WHERE sequence = 5) WHERE sequence = 4",
        "UPDATE marks SET body = '{}' WHERE sequence = 4",
        "INSERT INTO marks SELECT agent, sequence, 'twin', hash, seq, act, body FROM marks WHERE sequence = 4",
    ],
)
def test_marks_that_were_tampered_with_are_not_removed(
    store: ExperienceStore, facts: Facts, shared_events: Apply, sql: str
) -> None:
    """The cycles go, the evidence stays, and the agent is named."""
    shared_events(store, *life(facts, 8))
    store._file.db.execute(sql)  # type: ignore[attr-defined]
    before = store._file.db.execute("SELECT count(*) FROM marks").fetchone()  # type: ignore[attr-defined]

    found = store.prune(EVERYTHING, facts.now)

    assert (found.acts, found.marks, found.unverified) == (5, 0, {"echo"})
    assert store._file.db.execute("SELECT count(*) FROM marks").fetchone() == before  # type: ignore[attr-defined]


def test_late_facts_of_a_removed_act_change_nothing(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """A score, the act itself again, its marks: counted; the position goes on, and nothing comes back."""
    events = life(facts, 8)
    shared_events(store, *events)
    pruned(store, EVERYTHING, facts.now)
    rows = store._file.db.execute("SELECT count(*) FROM actions").fetchone()  # type: ignore[attr-defined]

    recorded = shared_events(store, facts.reward(2, facts.score("joy", 1.0, "human"), scorer="human"), *facts.cycle(1))
    again = store.apply(list(enumerate(events[1:19], start=2)), upto=19, now=facts.now)

    assert (recorded, again) == ((), ())
    assert store.retention.came_late() == 1 + 9 + 18
    assert store.position() == len(events) + 10
    assert store._file.db.execute("SELECT count(*) FROM actions").fetchone() == rows  # type: ignore[attr-defined]
    assert [one.cycle for one in store.cycles.last("echo", 99)] == [6, 7, 8]
    assert problems(store) == []


def test_a_late_score_of_a_kept_act_counts(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Also where it names a cycle that was removed: it is the act that counts."""
    shared_events(store, *life(facts, 8))
    pruned(store, EVERYTHING, facts.now)
    late = facts.reward(7, facts.score("joy", 1.0, "human"), scorer="human")

    (experience,) = shared_events(store, late.model_copy(update={"cycle": 1}))

    assert (experience.cycle, experience.revision, store.retention.came_late()) == (7, 2, 0)


def test_a_mark_about_a_removed_act_belongs_to_the_chain(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """A score that comes late gets its mark from the witness; it is kept, and the chain verifies with it."""
    events = life(facts, 8)
    last = [event.mark for event in events if isinstance(event, MarkWitnessed)][-1]
    state = ChainState(sequence=last.sequence + 1, previous=last.hash)
    late = facts.reward(2, facts.score("joy", 1.0, "human"), scorer="human")
    _, mark = seal(state, late)
    shared_events(store, *events)
    pruned(store, EVERYTHING, facts.now)

    shared_events(store, late, facts.mark(2).model_copy(update={"id": "late", "mark": mark}))

    assert list(store.chain.marks("echo"))[-1] == mark
    assert problems(store) == []


def test_a_backfill_counts_what_was_removed(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Acts that are gone are told apart from acts that were never there; where none was meant, none is counted."""
    shared_events(store, *life(facts, 8))
    pruned(store, EVERYTHING, facts.now)

    of_all = store.backfill.unscored("echo", "joy", "1", ScoredSince())
    of_some = store.backfill.unscored("echo", "joy", "1", ScoredSince(cycle=6))

    assert (of_all.acts, of_all.missing, of_all.removed) == (3, 3, 5)
    assert (of_some.acts, of_some.removed) == (3, 0)


def told(store: ExperienceStore) -> tuple[list[Any], list[float]]:
    """Every figure over all that ever was: those that are exact, and means."""
    figures = [store.charts.figures(agent, 9999) for agent in ("echo", None)]
    stats = [store.charts.component_stats(agent, 9999) for agent in ("echo", None)]
    exact = [(one.count, one.incomplete, one.outcomes) for one in figures]
    exact += [
        (one.component, one.scorer, one.version, one.weight, one.count, one.scored, one.errors, one.timeouts)
        for some in stats
        for one in some
    ]
    means = [value for one in figures for value in (one.mean_total, one.coverage)]
    means += [value for some in stats for one in some for value in (one.mean, one.coverage) if value is not None]
    scorers = [
        store.backfill.scorers(),
        store.backfill.scorers("echo"),
        store.cycles.last_cycle("echo"),
        store.agents(),
    ]
    return [*exact, *scorers], means


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_figures_over_everything_do_not_depend_on_what_was_removed(facts: Facts, data: st.DataObject) -> None:
    """Whatever was scored how, wherever and however often the store is pruned, kept rows and sums say the same."""
    values = data.draw(st.lists(st.sampled_from([None, -1.0, 0.1, 0.5, 1.5]), min_size=5, max_size=14))
    events = [facts.weights()]
    for cycle, value in enumerate(values, start=95):
        act, _, needs, novelty = facts.judged(cycle)
        scores = (facts.score("format", value, version=str(1 + cycle % 3)), facts.score("goal", None))
        scored = facts.reward(cycle, *scores)
        events += [act, scored, needs, novelty] if data.draw(st.booleans()) else [act, scored, needs]
    stream = list(enumerate(events, start=1))
    cuts = data.draw(st.lists(st.integers(95, 95 + len(values)), max_size=4))

    with MemoryStore() as whole, MemoryStore() as cut:
        for store in (whole, cut):
            store.apply(stream, upto=len(stream), now=facts.now)
            store.expire(facts.now)
        for cycle in cuts:
            pruned(cut, RetentionLimits(seconds=60.0), facts.at(cycle, 60.5))

        gone = len(whole.cycles.last("echo", 99)) - len(cut.cycles.last("echo", 99))
        assert gone == min(max([0, *(cycle - 94 for cycle in cuts)]), len(values) - 3) or not cuts
        (exact, means), (whole_exact, whole_means) = told(cut), told(whole)
        assert exact == whole_exact
        assert means == pytest.approx(whole_means)


def test_a_window_takes_whole_blocks_of_what_was_removed(
    store: ExperienceStore, facts: Facts, shared_events: Apply
) -> None:
    """The last N: kept ones, then sums of removed ones as far as they fit, and the count says how many those are."""
    shared_events(store, facts.weights(), *(fact for cycle in range(96, 108) for fact in facts.judged(cycle)))

    pruned(store, EVERYTHING, facts.now)

    assert [store.charts.figures("echo", last).count for last in (2, 3, 7, 8, 11, 12)] == [2, 3, 3, 8, 8, 12]
