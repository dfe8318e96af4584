"""The watchers' fold: what counts once, what begins an alarm, and what ends it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conch.config import WatchSettings
from conch.rewards.watch import AlarmChange, WatchState, fold
from conch_schemas import ExperienceRecorded, Line, ScoredPart

WATCH = WatchSettings(recent=20, earlier=40)
DIVERSITY = 0.3
SKILLS = ("shell.None", "filesystem.read", "notes.search", "git.log", "reply.None")

Make = Callable[..., ExperienceRecorded]


@pytest.fixture(scope="module")
def make(simulated: ModuleType) -> Make:
    """`make(seq, format=0.1, execution=0.05, quality=0.7)`: what parts add to the total, and a held-out score."""

    def experience(
        seq: int, *, quality: float | None = None, skill: str = "", characters: int = 40, **amounts: float
    ) -> ExperienceRecorded:
        plain = {"value": 1.0, "status": "scored", "explanation": "", "scorer": "reward", "version": "1"}
        scores = [ScoredPart(component=name, weight=0.5, **plain) for name in amounts]
        if quality is not None:
            scores.append(ScoredPart(component="quality", weight=0.0, role="held_out", **plain | {"value": quality}))
        made: ExperienceRecorded = simulated.experience(
            seq,
            skill or SKILLS[seq % len(SKILLS)],
            "x" * characters,
            {},
            scores=tuple(scores),
            total=sum(amounts.values()),
            breakdown=tuple(Line(step=f"part:{name}", amount=amount) for name, amount in amounts.items()),
        )
        return made

    return experience


def _run(
    experiences: Sequence[ExperienceRecorded] | Iterator[ExperienceRecorded], state: WatchState | None = None
) -> tuple[WatchState, list[AlarmChange]]:
    state, changes = state or WatchState(), []
    for experience in experiences:
        state, news = fold(state, experience, WATCH, DIVERSITY)
        changes += news
    return state, changes


def _begun(changes: Sequence[AlarmChange]) -> list[tuple[str, str | None]]:
    return [(change.alarm, change.component) for change in changes if change.active]


def _plain(make: Make, count: int, start: int = 1, **fixed: Any) -> list[ExperienceRecorded]:
    """Acts in which two parts of the total vary alike, and with them the held-out score."""
    draw = random.Random(start)
    found = []
    for seq in range(start, start + count):
        one, other = draw.gauss(0.1, 0.1), draw.gauss(0.1, 0.1)
        length = draw.randint(30, 60)
        parts = {"format": one, "execution": other, "quality": 0.5 + one + other + draw.gauss(0.0, 0.1)}
        found.append(make(seq, **{"characters": length} | parts | fixed))
    return found


def test_an_agent_that_goes_on_as_it_did_raises_nothing(make: Make) -> None:
    """However long."""
    assert _run(_plain(make, 300))[1] == []


def test_until_the_window_is_full_nothing_is_said(make: Make) -> None:
    """Nineteen acts that are all one tell nothing about twenty; the twentieth says what they were."""
    same = [make(seq, skill="shell.None", format=0.5 * (seq % 2), execution=0.0) for seq in range(1, 21)]

    assert _run(same[:19])[1] == []
    assert _begun(_run(same)[1]) == [("dominance", "format"), ("falling_entropy", None)]


def test_one_component_that_makes_the_variance_is_named(make: Make) -> None:
    """More than four fifths of it; the sentence has the figure."""
    acts = [make(seq, format=0.5 * (seq % 2), execution=0.02 * (seq % 3)) for seq in range(1, 21)]

    [change] = _run(acts)[1]

    assert (change.alarm, change.component, change.active, change.threshold, change.window) == (
        "dominance",
        "format",
        True,
        0.8,
        20,
    )
    assert change.value > 0.8
    assert change.what == f"format makes {change.value:.0%} of the total's variance over 20 acts"


def test_only_a_held_out_part_is_held_out(make: Make) -> None:
    """One that is watched with weight 0 may go where it likes."""
    act = make(1, quality=0.4, format=0.1)
    watched = act.scores[0].model_copy(update={"component": "intrinsic", "weight": 0.0})

    state, _ = _run([act.model_copy(update={"scores": (*act.scores, watched)})])

    assert state.held == {"quality": (0.4,)}
    assert state.paid == ("format",)


def test_a_part_that_is_alone_may_be_all(make: Make) -> None:
    """Where one component is paid, it is meant to make the total."""
    assert _run([make(seq, format=0.5 * (seq % 2)) for seq in range(1, 60)])[1] == []


def test_a_total_that_hardly_varies_is_dominated_by_nothing(make: Make) -> None:
    """A share of nearly nothing is not worth a word."""
    assert _run([make(seq, format=0.02 * (seq % 2), execution=0.4) for seq in range(1, 60)])[1] == []


def test_what_a_cap_takes_off_is_no_contribution(make: Make) -> None:
    """A part counts as what it added to the total, and the other steps under their own names."""
    act = make(1, format=0.3, exploration=0.1)
    lines = (*act.breakdown, Line(step="cap:exploration", amount=-0.05), Line(step="repetition", amount=-0.1))

    state, _ = _run([act.model_copy(update={"breakdown": lines})])

    assert state.parts == {"format": (0.3,), "exploration": (0.05,), "repetition": (-0.1,)}


def test_a_total_that_stands_still_has_collapsed(make: Make) -> None:
    """Once the newest acts are all paid the same; it says how little is left of the variance."""
    still = [make(seq, format=0.2, execution=0.2) for seq in range(61, 101)]

    [change] = _run([*_plain(make, 60), *still])[1]

    assert (change.alarm, change.active) == ("collapse", True)
    assert change.value < 0.1
    assert "hardly varies any more" in change.what


def test_an_agent_whose_few_errors_stop_has_not_collapsed(make: Make) -> None:
    """The variance was that of one act in ten; what the other nine are like has not changed."""
    draw = random.Random(1)
    acts = [
        make(
            seq, format=-0.9 if seq <= 60 and seq % 10 == 0 else draw.gauss(0.1, 0.02), execution=draw.gauss(0.1, 0.05)
        )
        for seq in range(1, 101)
    ]

    assert "collapse" not in dict(_begun(_run(acts)[1]))


@pytest.mark.parametrize(("characters", "words"), [(200, "4.4 times as long"), (10, "0.22 times as long")])
def test_replies_that_grow_or_shrink_are_told(make: Make, characters: int, words: str) -> None:
    """Three times as long, or a third; the total may be what it was."""
    [change] = _run([*_plain(make, 60), *_plain(make, 40, start=61, characters=characters)])[1]

    assert (change.alarm, change.active) == ("length_drift", True)
    assert words in change.what


def test_doing_the_same_again_and_again_is_low_diversity(make: Make) -> None:
    """The entropy that curiosity measures, below the same bound."""
    acts = [*_plain(make, 60), *_plain(make, 40, start=61, skill="shell.None")]

    [change] = _run(acts)[1]

    assert (change.alarm, change.threshold, change.active) == ("falling_entropy", DIVERSITY, True)


def test_few_kinds_of_act_that_move_goals_are_no_habit(make: Make) -> None:
    """A fifth of the acts is enough; where no act moves one any more, the alarm begins, and ends with the next ones."""
    works = [make(seq, skill="shell.None", goal=0.2 if seq % 4 == 0 else 0.0, execution=0.1) for seq in range(1, 101)]
    rests = [make(seq, skill="shell.None", goal=0.0, execution=0.1) for seq in range(101, 201)]
    again = [make(seq, skill="shell.None", goal=0.2, execution=0.1) for seq in range(201, 221)]

    changes = [change for change in _run([*works, *rests, *again])[1] if change.alarm == "falling_entropy"]

    assert [change.active for change in changes] == [True, False]
    assert changes[1].what.startswith("few kinds of act, and 20% of them moved a goal: the entropy")


def test_a_total_that_rises_while_the_held_out_score_falls_is_told(make: Make) -> None:
    """The sentence says by how much each went."""
    gamed = _plain(make, 40, start=61, execution=0.4, quality=0.1)

    changes = _run([*_plain(make, 60), *gamed])[1]

    [change] = [change for change in changes if change.alarm == "held_out"]
    assert (change.component, change.active, change.threshold) == ("quality", True, 1.0)
    assert change.what.startswith("the total left the held-out quality: +")
    assert "against −" in change.what


def test_a_total_that_rises_with_the_held_out_score_is_progress(make: Make) -> None:
    """Neither leaves the other."""
    better = _plain(make, 40, start=61, execution=0.4, quality=1.2)

    assert ("held_out", "quality") not in _begun(_run([*_plain(make, 60), *better])[1])


def test_a_held_out_score_that_falls_with_the_total_is_no_gaming(make: Make) -> None:
    """Whoever does worse in both earns nothing by it."""
    worse = _plain(make, 40, start=61, execution=-0.3, quality=0.1)

    assert ("held_out", "quality") not in _begun(_run([*_plain(make, 60), *worse])[1])


def test_a_held_out_score_that_falls_alone_is_no_gaming(make: Make) -> None:
    """Where the total did not rise, nothing was gained by what the held-out rule finds worse."""
    worse = _plain(make, 40, start=61, format=0.09, execution=0.09, quality=0.1)

    assert ("held_out", "quality") not in _begun(_run([*_plain(make, 60), *worse])[1])


def test_a_held_out_score_at_its_best_is_content(make: Make) -> None:
    """It can rise no further: a total that rises without it has not left it."""
    before = [
        make(seq, format=0.1 * (seq % 3), execution=0.1, quality=0.2 if seq in (9, 55) else 0.98 + 0.005 * (seq % 4))
        for seq in range(1, 61)
    ]
    better = [make(seq, format=0.1 * (seq % 3), execution=0.4, quality=0.98) for seq in range(61, 101)]

    assert ("held_out", "quality") not in _begun(_run([*before, *better])[1])


def test_two_odd_acts_prove_nothing(make: Make) -> None:
    """However far they move the means: the other eighteen acts are as they were."""
    odd = [*_plain(make, 2, start=61, execution=20.0, quality=-20.0), *_plain(make, 18, start=63)]

    assert ("held_out", "quality") not in _begun(_run([*_plain(make, 60), *odd])[1])


@pytest.mark.parametrize("quality", [0.9, None])
def test_a_held_out_rule_that_tells_nothing_accuses_nobody(make: Make, quality: float | None) -> None:
    """One that always says the same, or hardly ever anything."""
    acts = [*_plain(make, 60, quality=quality), *_plain(make, 40, start=61, execution=0.4, quality=quality)]

    assert ("held_out", "quality") not in _begun(_run(acts)[1])


def test_an_alarm_is_said_when_it_begins_and_when_it_is_over(make: Make) -> None:
    """Once each, however long it lasts; the end names the cycle of the beginning. To come back is no drift anew."""
    gamed = _plain(make, 200, start=61, characters=300)
    back = _plain(make, 200, start=261)

    changes = _run([*_plain(make, 60), *gamed, *back])[1]

    assert [(change.alarm, change.active) for change in changes] == [("length_drift", True), ("length_drift", False)]
    assert changes[0].begun == changes[1].begun
    assert 61 < (changes[0].begun or 0) <= 81
    assert "as long as before again" in changes[1].what


def test_a_figure_about_its_bound_does_not_flicker(make: Make) -> None:
    """It has to come back by a fifth of the way before the alarm is over: here it is 0.28, then 0.31, then 0.28."""
    lower = ["shell.None"] * 15 + ["git.log", "git.log", "reply.None", "reply.None", "notes.search"]
    higher = [*lower[1:], "notes.search"]
    acts = [
        make(seq, skill=skill, format=0.1, execution=0.1)
        for seq, skill in enumerate([*lower, *higher, *lower, *higher, *lower], start=1)
    ]

    state, changes = _run(acts)

    assert _begun(changes) == [("falling_entropy", None)]
    assert len(changes) == len(state.active) == 1


def test_an_alarm_survives_as_json(make: Make) -> None:
    """A state that was written down and read again goes on as if nothing had been: the alarm is not said again."""
    gamed = _plain(make, 60, start=61, execution=0.4, quality=0.1)
    state, _ = _run([*_plain(make, 60), *gamed[:40]])

    again = WatchState.model_validate_json(state.model_dump_json())

    assert again == state
    assert again.active
    assert _run(gamed[40:], again) == _run(gamed[40:], state)


def test_another_weight_set_begins_everything_anew(make: Make) -> None:
    """Totals of two sets are not compared: alarms end, and say why; what is late of the old set changes nothing."""
    gamed = _plain(make, 40, start=61, characters=300)
    state, _ = _run([*_plain(make, 60), *gamed])
    first = make(101, format=0.1, execution=0.1).model_copy(update={"weights": "another"})

    state, changes = _run([first, *gamed], state)

    assert [(change.alarm, change.active) for change in changes] == [("length_drift", False)]
    assert changes[0].what == "replies changed length: over, as another weight set is in force"
    assert (state.weights, state.seqs, state.active) == ("another", (101,), ())


def test_a_late_score_replaces_the_earlier_revision(make: Make) -> None:
    """Of an act its latest revision counts, wherever it stands; an earlier one that comes later does not."""
    acts = _plain(make, 30)
    late = make(5, format=0.7, execution=0.1, quality=0.2).model_copy(update={"revision": 2})

    state, _ = _run([*acts, late, acts[4]])

    assert state.totals[4] == 0.8
    assert state.held["quality"][4] == 0.2
    assert len(state.seqs) == 30


@pytest.mark.parametrize("late", [1, 20, 24, 25, 26, 40, 43])
def test_acts_stand_in_the_order_of_the_stream(make: Make, late: int) -> None:
    """One whose scores came late is recorded late; it stands where it was done, in every column that reaches so far."""
    acts = _plain(make, 45)

    assert _run([*acts[:late], *acts[late + 1 :], acts[late]])[0] == _run(acts)[0]


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_any_repetition_gives_the_same_state(make: Make, data: st.DataObject) -> None:
    """An experience twice, the last few again after a crash, all of it from the start: the same state and alarms."""
    gamed = _plain(make, 30, start=61, execution=0.4, quality=0.1, characters=400)
    acts = [*_plain(make, 60), *gamed, *_plain(make, 30, start=91)]
    acts += [act.model_copy(update={"revision": 2, "total": act.total + 0.1}) for act in acts[70:75]]
    repeated: list[ExperienceRecorded] = []
    for place, act in enumerate(acts):
        repeated.append(act)
        back = data.draw(st.integers(0, min(8, place)) if place % 9 == 0 else st.just(0))
        repeated += acts[place + 1 - back : place + 1]
    if data.draw(st.booleans()):
        repeated += acts

    assert _run(repeated) == _run(acts)


def test_the_state_is_bounded(make: Make) -> None:
    """However long an agent lives, and however many components somebody names."""
    acts = [make(seq, **{f"part{seq}-{number}": 0.01 for number in range(5)}) for seq in range(1, 200)]

    state, _ = _run(acts)

    assert len(state.seqs) == len(state.totals) == len(state.lengths) == 60
    assert len(state.parts) == 64
    assert {len(column) for column in (state.skills, *state.parts.values())} == {20}


_finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None, max_examples=60)
@given(rows=st.lists(st.tuples(_finite, _finite, _finite), min_size=1, max_size=8), times=st.integers(1, 80))
def test_no_experience_makes_it_raise(make: Make, rows: list[tuple[float, float, float]], times: int) -> None:
    """Totals and scores of any size, however often: what is said is a number, and the state can be written and read."""
    acts = [
        make(seq, quality=rows[seq % len(rows)][2], format=rows[seq % len(rows)][0], execution=rows[seq % len(rows)][1])
        for seq in range(1, times + 1)
    ]
    finite = [act.model_copy(update={"total": act.total if math.isfinite(act.total) else 0.0}) for act in acts]

    state, changes = _run(finite)

    assert all(math.isfinite(change.value) for change in changes)
    assert WatchState.model_validate_json(state.model_dump_json()) == state


def test_what_is_beyond_all_measure_counts_as_a_million(make: Make) -> None:
    """Squares of what a stranger may say would be infinite, and what is said of them no number."""
    draw = random.Random(1)
    acts = [make(seq, format=1e154 * draw.random() * (seq < 75), execution=0.1) for seq in range(1, 90)]

    state, changes = _run(acts)

    assert all(math.isfinite(change.value) for change in changes)
    assert set(state.parts["format"]) == {0.0, 1e6}
