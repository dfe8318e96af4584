"""What every experience store promises."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from conch.errors import CheckError, ContractError
from conch.experience import ExperienceStore
from conch.experience.store import Awaited
from conch.order import MOST_LEAP
from conch_schemas import (
    MAX_EVENT_BYTES,
    Action,
    Cut,
    ExperienceRecorded,
    MessageReceived,
    Outcome,
    Part,
    consequence_id,
    encode,
)

TOTAL = 0.3 * 0.5 + 0.25 * 0.2 + 0.2 * 0.125 + 0.1 * 0.5


def test_a_cycle_is_recorded_with_its_last_part(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """An experience is recorded at revision 1 when every part of its weight set has come, not before."""
    *most, last = facts.judged(1)

    before = feed(store, facts.weights(), *most)
    (experience,) = feed(store, last)

    assert before == ()
    assert experience.total == pytest.approx(TOTAL)
    assert (experience.complete, experience.coverage, experience.revision, experience.seq) == (True, 1.0, 1, 2)
    assert [(part.component, part.status) for part in experience.scores] == [
        ("format", "scored"),
        ("execution", "scored"),
        ("needs", "scored"),
        ("goal", "not_applicable"),
        ("exploration", "scored"),
    ]


def test_an_experience_says_what_its_act_said(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """Everything known of the act is joined in; the id follows from the act and the revision."""
    (experience,) = feed(store, facts.weights(), *facts.cycle(3))
    act = facts.act(3)

    assert experience.id == consequence_id(act.id, "store", "1", ExperienceRecorded)
    assert (experience.agent, experience.cycle, experience.action_id) == ("echo", 3, act.action_id)
    assert (experience.causation_id, experience.source, experience.policy) == (act.id, act.source, "p1")
    assert (experience.thought, experience.claims[0].evidence, experience.memory) == ("thought 3", "a.txt", ("a note",))
    assert (experience.messages[0].content, experience.reflection) == ("what now?", "reflection 3")
    assert (experience.needs_before, experience.needs_after) == ({"curiosity": 0.5}, {"curiosity": 0.65})
    assert experience.ms == {"think": 1.0, "ground": 2.0, "decide": 3.0, "act": 4.0, "reflect": 5.0}
    assert (experience.acted_at, experience.time, experience.weights) == (act.time, facts.now, "w1")


def test_scores_may_come_before_their_act(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """A score whose act is not known yet waits for it."""
    act, *scores = facts.judged(1)

    assert feed(store, facts.weights(), *scores) == ()
    assert feed(store, act)[0].complete


def test_what_is_missing_at_the_deadline_is_a_timeout(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """Past its deadline an act is recorded as incomplete, its missing parts as timeout, and nothing is due any more."""
    feed(store, facts.weights(), facts.act(1), facts.reward(1))
    deadline = store.next_deadline()

    early = store.expire(facts.at(1, 29.9))
    (experience,) = store.expire(facts.at(1, 30.0))

    assert (deadline, early) == (facts.at(1, 30.0), ())
    assert not experience.complete
    assert {part.component for part in experience.scores if part.status == "timeout"} == {"needs", "exploration"}
    assert experience.coverage == pytest.approx(0.55 / 0.85)
    assert (store.next_deadline(), store.pending("echo"), store.expire(facts.at(99))) == (None, 0, ())


def test_a_producers_clock_ahead_delays_nothing(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """An act dated in the future is waited for as if it were made now."""
    feed(store, facts.weights(), facts.act(1, time=facts.at(1, 86400.0)), now=facts.noon)

    assert store.next_deadline() == facts.noon + timedelta(seconds=30)


def test_each_part_has_its_own_deadline(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """An act waits for a slow judge; once that one is there, only as long as the others may take."""
    judge = Part(component="taste", weight=0.0, range=(0, 1), scorer="judge", deadline=300.0)
    feed(store, facts.weights((*facts.parts, judge)), facts.act(1), now=facts.at(1))
    slow = store.next_deadline()

    feed(store, facts.reward(1, facts.score("taste", 0.5, "judge"), scorer="judge"), now=facts.at(1))

    assert slow == facts.at(1, 300.0)
    assert store.next_deadline() == facts.at(1, 30.0)


def test_late_parts_replace_timeouts_and_raise_the_revision(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """What comes after the deadline counts: a higher revision with a new id, complete once every part is there."""
    feed(store, facts.weights(), facts.act(1), facts.reward(1), now=facts.at(1))
    (first,) = store.expire(facts.at(1, 31.0))

    (second,) = feed(store, facts.needs(1), now=facts.at(1, 40.0))
    (third,) = feed(store, facts.novelty(1), now=facts.at(1, 41.0))

    assert [e.revision for e in (first, second, third)] == [1, 2, 3]
    assert [e.complete for e in (first, second, third)] == [False, False, True]
    assert third.total == pytest.approx(TOTAL)
    assert len({first.id, second.id, third.id}) == 3
    assert store.cycle("echo", 1) == third


def test_repetition_changes_nothing_and_is_counted(store: ExperienceStore, facts: Any, feed: Any, placed: Any) -> None:
    """The same facts again, at the same places or at later ones, give no row, no revision, only a count."""
    events = [facts.weights(), *facts.cycle(1)]
    feed(store, *events)
    recorded = store.cycle("echo", 1)

    again = store.apply(placed(*events), upto=len(events), now=facts.noon)
    published_twice = feed(store, *events[1:])

    assert (again, published_twice) == ((), ())
    assert store.duplicates == 2 * len(events) - 1
    assert store.cycle("echo", 1) == recorded
    assert (len(list(store.acts("echo"))), len(list(store.marks("echo")))) == (1, 1)


def test_the_place_moves_with_the_rows(store: ExperienceStore, facts: Any, placed: Any) -> None:
    """`upto` is stored with the facts, also where the last events are none of the store's; going back is by hand."""
    said = MessageReceived(id="m", source="conch/echo/x", agent="echo", text="hello")
    store.apply(placed(facts.act(1), said), upto=7, now=facts.noon)
    ahead = store.position()

    store.apply(placed(facts.act(1)), upto=1, now=facts.noon)
    kept = store.position()
    store.set_position(3)

    assert (ahead, kept, store.position()) == (7, 7, 3)


def test_an_act_from_far_beyond_is_no_act_of_the_agent(store: ExperienceStore, facts: Any, placed: Any) -> None:
    """Believed, a forged number would be where the agent goes on; the next act is stored as ever."""
    forged = facts.act(3 + MOST_LEAP)

    with pytest.raises(ContractError, match="right behind cycle 2") as refused:
        store.apply(placed(facts.act(1), facts.act(2), forged), upto=3, now=facts.noon)
    store.apply([(1, facts.act(1)), (2, facts.act(2)), (4, facts.act(3))], upto=4, now=facts.noon)
    with pytest.raises(ContractError, match="right behind cycle 3"):
        store.apply([(5, facts.act(4 + MOST_LEAP))], upto=5, now=facts.noon)

    assert refused.value.seq == 3
    assert store.last_cycle("echo") == 3


@pytest.mark.parametrize("change", [{"action_id": None}, {"cycle": None}, {"cycle": 2**63}])
def test_a_fact_without_a_place_stops_its_batch(
    store: ExperienceStore, facts: Any, placed: Any, change: dict[str, Any]
) -> None:
    """A fact that no row can hold is named by its place, and nothing of its batch is stored."""
    events = placed(facts.weights(), facts.act(1), facts.act(2).model_copy(update=change))

    with pytest.raises(ContractError) as refused:
        store.apply(events, upto=3, now=facts.noon)

    assert refused.value.seq == 3
    assert (store.position(), store.agents()) == (0, ())


def test_the_weight_set_before_the_act_is_the_acts(store: ExperienceStore, facts: Any, placed: Any) -> None:
    """Which weights count is decided by places in the stream, not by which was read first."""
    only_format = (Part(component="format", weight=1.0, range=(-1, 0.5), scorer="reward"),)
    by_place = [
        (1, facts.weights()),
        *placed(*facts.judged(1), first=2),
        (6, facts.weights(only_format, "w2")),
        *placed(*facts.judged(2), first=7),
    ]

    store.apply(by_place[6:], upto=10, now=facts.noon)
    store.apply(by_place[:6][::-1], upto=10, now=facts.noon)

    first, second = store.cycles("echo", 10)
    assert (first.weights, first.total) == ("w1", pytest.approx(TOTAL))
    assert (second.weights, second.total, second.scores[0].weight) == ("w2", 0.5, 1.0)
    assert {part.weight for part in second.scores[1:]} == {0.0}


def test_an_agents_weights_are_its_own(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """A weight set of one agent says nothing of another's acts."""
    feed(store, facts.weights(), *facts.judged(1, agent="delta"))

    assert store.pending("delta") == 1


def test_an_act_without_weights_is_recorded_unpaid(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """Where no weight set was ever set, an act waits 30 s for one and is recorded incomplete: total 0, coverage 0."""
    feed(store, *facts.judged(1), now=facts.at(1))
    assert store.expire(facts.at(1, 29.0)) == ()

    (experience,) = store.expire(facts.at(1, 30.0))

    assert (experience.total, experience.coverage, experience.complete, experience.weights) == (0.0, 0.0, False, "")
    assert {part.weight for part in experience.scores} == {0.0}


def test_the_latest_version_of_a_scorer_counts(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """A later version of a score takes the place of the earlier, whichever comes last; an older one changes nothing."""
    feed(store, facts.weights(), *facts.judged(1))
    newer = facts.reward(1, facts.score("format", -1.0, version="10"), version="10")
    older = facts.reward(1, facts.score("format", 0.25, version="9"), version="9")

    (revised,) = feed(store, newer)
    ignored = feed(store, older)

    assert (revised.revision, revised.scores[0].value, revised.scores[0].version) == (2, -1.0, "10")
    assert revised.total == pytest.approx(TOTAL - 0.45)
    assert ignored == ()
    assert len(revised.scores) == 5


def test_scores_nobody_waits_for_stand_beside_with_weight_0(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """A component outside the weight set, or another scorer's claim on a part, is shown and pays nothing."""
    beside = (facts.score("joy", 1.0, "joy"), facts.score("needs", 1.0, "joy"))
    act, rules, _, novelty = facts.judged(1)

    waiting = feed(store, facts.weights(), act, rules, novelty, facts.reward(1, *beside, scorer="joy"))
    (experience,) = feed(store, facts.needs(1))

    assert waiting == ()
    assert experience.total == pytest.approx(TOTAL)
    assert [(p.component, p.scorer, p.value, p.weight) for p in experience.scores[5:]] == [
        ("joy", "joy", 1.0, 0.0),
        ("needs", "joy", 1.0, 0.0),
    ]


def test_a_score_beside_that_comes_later_is_a_revision(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """A backfilled score changes what is said of an act, not its total."""
    feed(store, facts.weights(), *facts.judged(1))

    (experience,) = feed(store, facts.reward(1, facts.score("joy", 1.0, "joy"), scorer="joy"))

    assert (experience.revision, experience.total) == (2, pytest.approx(TOTAL))


def test_a_value_outside_its_parts_range_is_an_error(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """A scorer cannot pay more than its part's range by stating a wider one."""
    act, _, needs, novelty = facts.judged(1)
    greedy = facts.reward(
        1, facts.score("format", 1e9, range=(0.0, 1e9)), facts.score("execution", 0.2), facts.score("goal", None)
    )

    (experience,) = feed(store, facts.weights(), act, greedy, needs, novelty)

    assert (experience.scores[0].status, experience.scores[0].value, experience.complete) == ("error", None, True)
    assert experience.total == pytest.approx(TOTAL - 0.15)


def test_a_late_reflection_is_read_and_revises_nothing(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """Context that comes after the verdict is joined in by the reads; the revision stays."""
    feed(store, facts.weights(), *facts.judged(1))

    late = feed(store, facts.reflected(1), facts.thought(1), facts.decided(1))
    experience = store.cycle("echo", 1)

    assert late == ()
    assert experience is not None
    assert (experience.reflection, experience.ms["reflect"], experience.revision) == ("reflection 1", 5.0, 1)
    assert (experience.thought, experience.messages[0].content) == ("thought 1", "what now?")


def test_catching_up_records_nothing_as_late_that_the_stream_holds(
    store: ExperienceStore, facts: Any, feed: Any
) -> None:
    """Applied hours later, an act waits by the clock of the stream: its scores stand a little further down."""
    act, *scores = facts.judged(1)
    hours_later = facts.at(1, 7200.0)

    waiting = feed(store, facts.weights(), act, now=hours_later)
    (experience,) = feed(store, *scores, now=hours_later)

    assert waiting == ()
    assert (experience.complete, experience.revision) == (True, 1)


def test_a_busy_stream_brings_deadlines_too(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """An act whose parts never come is recorded by the facts of later cycles, without waiting for a quiet moment."""
    feed(store, facts.weights(), facts.act(1), now=facts.at(1))

    (experience,) = feed(store, facts.act(31), now=facts.at(31))

    assert (experience.cycle, experience.complete) == (1, False)


def test_what_is_recorded_waits_in_the_outbox(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """Each revision stays to be published, as it was, in order, until it is marked."""
    (first,) = feed(store, facts.weights(), *facts.judged(1))
    (second,) = feed(store, facts.reward(1, facts.score("joy", 1.0, "joy"), scorer="joy"))
    waiting = store.unpublished()

    store.mark_published([first.id, "nobody's"])
    store.mark_published([])

    assert waiting == (first, second)
    assert store.unpublished() == (second,)


def test_timeouts_wait_in_the_outbox_too(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """What `expire` records is to be published like the rest."""
    feed(store, facts.weights(), facts.act(1))

    assert store.expire(facts.at(1, 60.0)) == store.unpublished()


def test_many_deadlines_come_in_portions(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """One call records at most 500; the next deadline says that there are more."""
    feed(store, facts.weights(), *(facts.act(n) for n in range(1, 521)), now=facts.noon)

    portions = []
    while (due := store.next_deadline()) and due <= facts.at(1000):
        portions.append(len(store.expire(facts.at(1000))))

    assert portions == [500, 20]


def test_an_experience_always_fits_an_event(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """Facts that are too large together are published without the prompt and long words; the verdict stays."""
    big = "x" * (MAX_EVENT_BYTES - 4096)
    wordy = facts.reward(
        1, facts.score("format", 0.5, explanation=big), facts.score("execution", 0.2), facts.score("goal", None)
    )
    feed(store, facts.weights(), facts.decided(1, prompt=big), facts.act(1), facts.needs(1), facts.novelty(1))

    (experience,) = feed(store, wordy)

    assert len(encode(experience)) < MAX_EVENT_BYTES
    assert experience.total == pytest.approx(TOTAL)
    assert store.unpublished() == (experience,)


BIG = "x" * (MAX_EVENT_BYTES - 4096)
LARGE_ACTS: list[dict[str, Any]] = [
    {"raw": BIG},
    {"outcome": Outcome(status="success", output=Cut(text=BIG, length=1, sha256=""))},
    {"outcome": Outcome(status="error", error=BIG, output=Cut(text="", length=0, sha256=""))},
    {"action": Action(kind="INVALID", valid=False, reason=BIG)},
    {"model": BIG},
    {"policy": BIG},
    {"episode": BIG},
    {"ms": {str(number): 1.0 for number in range(40_000)}},
]


@pytest.mark.parametrize("parts", LARGE_ACTS, ids=[next(iter(parts)) for parts in LARGE_ACTS])
def test_an_act_that_fills_an_event_does_not_stop_the_store(
    store: ExperienceStore, facts: Any, feed: Any, parts: dict[str, Any]
) -> None:
    """Whatever is long in an act that somebody else has made, its experience fits an event."""
    stranger = facts.reward(1, facts.score("c" * 200_000, scorer="s" * 200_000), scorer="stranger")
    act, *scores = facts.judged(1)

    (experience,) = feed(store, facts.weights(), *scores, stranger, act.model_copy(update=parts))

    assert len(encode(experience)) < MAX_EVENT_BYTES
    assert experience.total == pytest.approx(TOTAL)


def test_cycles_are_the_last_ones_oldest_first(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """`limit` takes from the end, `before` pages back; an agent or all of them."""
    feed(store, facts.weights(), facts.weights(agent="delta"))
    for n in (1, 2, 3):
        feed(store, *facts.judged(n))
    feed(store, *facts.judged(9, agent="delta"))

    def numbers(*query: Any) -> list[int | None]:
        return [experience.cycle for experience in store.cycles(*query)]

    assert numbers("echo", 2) == [2, 3]
    assert numbers("echo", 2, 3) == [1, 2]
    assert numbers(None, 2) == [3, 9]
    assert numbers(None, 9, store.cycles(None, 1)[0].seq) == [1, 2, 3]
    assert numbers("nobody", 5) == []
    assert store.agents() == ("delta", "echo")


def test_reads_tell_the_recorded_from_the_pending(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """An act is pending until it is recorded; it has no experience before, and counts as the last cycle at once."""
    feed(store, facts.weights(), *facts.judged(1), facts.act(2))

    assert (store.pending("echo"), store.pending(), store.pending("delta")) == (1, 1, 0)
    assert (store.last_cycle("echo"), store.last_cycle("delta")) == (2, None)
    assert (store.cycle("echo", 2), store.cycle("echo", 3)) == (None, None)
    assert list(store.acts("echo")) == [(facts.act(n).action_id, n) for n in (1, 2)]


def test_what_acts_wait_for_is_told(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """How many acts of a moment and before wait, and for which parts, whoever else has scored them."""
    feed(store, facts.weights(), *facts.judged(1), facts.act(2), facts.reward(2), facts.needs(2), facts.act(3))

    assert store.awaited(facts.at(1)) == Awaited(0, ())
    assert store.awaited(facts.at(2)) == Awaited(1, ("exploration",))
    assert store.awaited(facts.at(3)) == Awaited(2, ("format", "execution", "needs", "goal", "exploration"))
    feed(store, facts.act(4, agent="delta"))
    assert store.awaited(facts.at(4)).acts == 3


def test_needs_have_a_history(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """Changes of needs are kept whole, also those that belong to no action."""
    outside = facts.needs(3).model_copy(update={"id": "n", "action_id": None, "cycle": None, "score": None})
    changes = [facts.needs(1), facts.needs(2), outside]

    feed(store, *changes)

    assert store.needs_history("echo", 2) == changes[1:]


def test_marks_come_in_sequence_page_after_page(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """Marks are read by their sequence, whatever order they came in, from any place."""
    feed(store, *(facts.mark(n) for n in range(1100, 0, -1)))

    assert [mark.sequence for mark in store.marks("echo")] == list(range(1100))
    assert [mark.sequence for mark in store.marks("echo", start=1095)] == list(range(1095, 1100))


def test_forged_marks_are_kept_for_the_verifier(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """A second mark at a taken sequence, or under a taken id, does not vanish and does not replace the first."""
    true = facts.mark(1)
    other_id = facts.mark(2, sequence=0)
    same_id = facts.mark(1, response="forged", hash="f" * 64)

    feed(store, true, other_id, same_id)

    assert list(store.marks("echo")) == [true.mark, other_id.mark, same_id.mark]


def test_components_have_figures(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """Per component and scorer: how often, mean, percentiles, errors, coverage over the last experiences."""
    feed(store, facts.weights())
    for n, value in enumerate((0.5, 0.25, None, 0.0), start=1):
        scored = facts.score("format", value, status="scored" if value is not None else "error")
        rest = (facts.score("execution", 0.2), facts.score("goal", None))
        feed(store, facts.act(n), facts.reward(n, scored, *rest), facts.needs(n), facts.novelty(n))

    stats = {one.component: one for one in store.component_stats("echo")}

    heaviest = store.component_stats(None)[0]
    assert heaviest == stats["format"]
    assert (heaviest.count, heaviest.scored, heaviest.errors, heaviest.coverage) == (4, 3, 1, 0.75)
    assert (heaviest.mean, heaviest.p50, heaviest.p95) == (0.25, 0.25, 0.5)
    assert (stats["goal"].mean, stats["goal"].coverage) == (None, 1.0)
    assert (stats["needs"].scorer, stats["needs"].version, stats["needs"].weight) == ("needs", "1", 0.2)
    assert store.component_stats("echo", last=1)[0].mean == 0.0


def test_a_status_has_simple_figures(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """Mean total, coverage, incomplete ones and outcomes of the last experiences; None where there are none."""
    empty = store.figures("echo")
    feed(store, facts.weights(), *facts.judged(1), *facts.judged(2), facts.act(3))
    store.expire(facts.at(99))

    figures = store.figures("echo", last=2)

    assert (empty.count, empty.mean_total, empty.coverage, empty.outcomes) == (0, None, None, {})
    assert (figures.count, figures.incomplete, figures.outcomes) == (2, 1, {"none": 2})
    assert figures.mean_total == pytest.approx(TOTAL / 2)


def test_another_stream_starts_behind_all_there_is(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """A new stream's sequence numbers start again; its facts still come after the old ones, in order and in force."""
    store.set_epoch("first")
    feed(store, facts.weights(), *facts.judged(1))
    store.set_epoch("first")
    old = store.position()

    store.set_epoch("second")
    new = store.position()
    feed(store, facts.weights(facts.parts, "w2"), *facts.judged(2))

    one, two = store.cycles("echo", 2)
    assert (old, new, store.epoch()) == (5, 0, "second")
    assert (one.weights, two.weights) == ("w1", "w2")
    assert one.seq < two.seq
    assert one.revision == 1


def test_a_rewound_store_still_places_a_new_stream_behind(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """Rewinding the position forgets no place that was taken."""
    feed(store, facts.weights(), *facts.judged(1))
    store.set_epoch("first")
    store.set_position(0)

    store.set_epoch("second")
    feed(store, facts.weights(facts.parts, "w2"), *facts.judged(2))

    assert [experience.weights for experience in store.cycles("echo", 2)] == ["w1", "w2"]


def test_a_mark_that_is_no_mark_is_named(store: ExperienceStore, facts: Any, feed: Any) -> None:
    """A row of the chain that was made unreadable fails the check, by its sequence."""
    feed(store, facts.mark(1), facts.mark(2))
    store._db.execute("UPDATE marks SET body = '{}' WHERE sequence = 1")  # type: ignore[attr-defined]

    with pytest.raises(CheckError, match="sequence 1"):
        list(store.marks("echo"))
