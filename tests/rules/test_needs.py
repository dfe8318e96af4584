"""Needs: how they change, and what that is worth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import NeedSettings, NeedsSettings, Settings
from conch.consumer import ServiceContext, bind
from conch.errors import ConfigError
from conch.needs import (
    NeedsMeasure,
    NeedsState,
    counted_reward,
    delta_reward,
    fold,
    initial_state,
    most_pressing,
    pressing,
    priorities_of,
    starving_factor,
    table_of,
)
from conch_schemas import ActionTaken, AgentWoke, RewardAssigned, Score, decode, encode
from conch_services.needs.consumer import needs

Act = Callable[..., ActionTaken]

SETTINGS = NeedsSettings()
BORN = {"sustainability": 0.7, "reliability": 0.7, "curiosity": 0.5, "excellence": 0.6}


def _run(
    *facts: ActionTaken | RewardAssigned | AgentWoke, settings: NeedsSettings = SETTINGS
) -> tuple[NeedsState, list[NeedsMeasure]]:
    state, changes, table = initial_state(settings), [], table_of(settings)
    for fact in facts:
        state, change = fold(state, fact, table)
        changes += [change] if change else []
    return state, changes


def _moved(change: NeedsMeasure) -> dict[str, float]:
    return {need: change.after[need] - level for need, level in change.before.items() if change.after[need] != level}


def _woke(seconds: float, number: int = 0) -> AgentWoke:
    return AgentWoke(
        id=f"woke-{number}", source="conch/echo/uuid", agent="echo", number=number, by="message", seconds=seconds,
        why="a message came",
    )  # fmt: skip


def test_asleep_the_needs_drift_at_a_tenth_of_the_pace_and_sustainability_recovers() -> None:
    """Of a second that would have been a cycle; nothing of that is scored, and the same wake counts once."""
    hungry = SETTINGS.model_copy(update={"start": SETTINGS.start.model_copy(update={"sustainability": 0.1})})
    _, [change] = _run(_woke(60.0), _woke(60.0), settings=hungry)

    assert change.drift == pytest.approx({"curiosity": -0.12, "excellence": -0.06})
    assert change.after["sustainability"] == pytest.approx(0.3)
    assert (change.score, change.beside) == (None, ())


def test_a_slow_agent_misses_fewer_cycles_by_a_sleep() -> None:
    """Its cycles are a minute apart: an hour of sleep is sixty of them."""
    state, change = fold(initial_state(SETTINGS), _woke(3600.0), table_of(SETTINGS, 60.0))

    assert change is not None
    assert change.drift == pytest.approx({"curiosity": -0.12, "excellence": -0.06})
    assert state.levels["curiosity"] == pytest.approx(0.38)


@given(seconds=st.floats(0.0, 1e9), level=st.floats(0.0, 1.0))
def test_no_sleep_starves_a_need(seconds: float, level: float) -> None:
    """However long: a level falls to a tenth above that of starvation at most, and one below stays where it is."""
    state = initial_state(SETTINGS).model_copy(update={"levels": dict.fromkeys(BORN, level)})
    after, _ = fold(state, _woke(seconds), table_of(SETTINGS))

    for need, there in after.levels.items():
        assert min(level, 0.2) - 1e-9 <= there <= 1.0
        assert need == "sustainability" or there <= level


def test_a_start_after_a_kill_changes_no_need() -> None:
    """How long it was asleep is not known."""
    assert _run(_woke(0.0))[1] == []


def _praise(action: ActionTaken, value: float = 1.0, scorer: str = "human") -> RewardAssigned:
    score = Score(component="praise", value=value, range=(-1, 1), status="scored", scorer=scorer, version="1")
    return RewardAssigned(
        id=f"praise of {action.id}",
        source=action.source,
        agent=action.agent,
        cycle=action.cycle,
        action_id=action.action_id,
        scorer=scorer,
        version="1",
        scores=(score,),
    )


def test_an_agent_is_born_with_four_needs() -> None:
    """Satisfaction at birth, and priorities that sum to 1 in every preset."""
    assert initial_state(SETTINGS).levels == BORN
    for preset in ("balanced", "learning", "production", "creative"):
        assert sum(priorities_of(NeedsSettings.model_validate({"preset": preset})).values()) == pytest.approx(1.0)


def test_time_drifts_ahead_of_the_act_and_is_not_scored(act: Act) -> None:
    """Curiosity and excellence fall every cycle; a quiet second DO_NOTHING is worth exactly 0."""
    _, changes = _run(act(0, "DO_NOTHING"), act(1, "DO_NOTHING"))

    assert changes[0].before == pytest.approx(BORN | {"curiosity": 0.48, "excellence": 0.59})
    assert changes[1].drift == pytest.approx({"curiosity": -0.02, "excellence": -0.01})
    assert changes[1].score is not None
    assert changes[1].score.value == 0.0


def test_drift_counts_cycles_not_acts(act: Act) -> None:
    """A second step of a cycle costs no time; a cycle that was never seen does."""
    _, changes = _run(act(0), act(0, step=1), act(3))

    assert changes[1].drift == {}
    assert changes[2].drift == pytest.approx({"curiosity": -0.06, "excellence": -0.03})


@pytest.mark.parametrize(
    ("words", "moved"),
    [
        ({"output": "a file"}, {"reliability": 0.05, "excellence": 0.15, "curiosity": 0.1}),
        ({"output": "  \n"}, {"reliability": 0.05, "excellence": 0.15}),
        ({"status": "error"}, {"reliability": -0.2, "sustainability": -0.1}),
        ({"status": "timeout"}, {"reliability": -0.2, "sustainability": -0.1}),
        ({"status": "blocked"}, {"reliability": -0.2, "sustainability": -0.1}),
        ({"kind": "INVALID"}, {"reliability": -0.25, "excellence": -0.1}),
        ({"valid": False}, {"reliability": -0.25, "excellence": -0.1}),
        ({"kind": "REFLECT"}, {"curiosity": 0.15}),
        ({"kind": "DO_NOTHING"}, {"sustainability": 0.2}),
        ({"status": "unknown"}, {}),
    ],
)
def test_an_act_moves_its_needs(act: Act, words: dict[str, str], moved: dict[str, float]) -> None:
    """Each outcome of the cycle is an event with its own effect on the needs."""
    _, changes = _run(act(0, **words))

    assert _moved(changes[0]) == pytest.approx(moved)


def test_a_message_answered_helps(act: Act) -> None:
    """Answering a person raises reliability and excellence beside what any success gives."""
    _, changes = _run(act(0, tool="reply", answered="m1"))

    assert _moved(changes[0]) == pytest.approx({"reliability": 0.15, "excellence": 0.25})


def test_doing_nothing_rests_once_in_a_row(act: Act) -> None:
    """The second DO_NOTHING gives nothing; after another act it rests again."""
    _, changes = _run(act(0, "DO_NOTHING"), act(1, "DO_NOTHING"), act(2, status="error"), act(3, "DO_NOTHING"))

    assert ["sustainability" in _moved(change) for change in changes] == [True, False, True, True]


def test_information_is_new_once(act: Act) -> None:
    """An output that differs only in its numbers is not new."""
    _, changes = _run(act(0, output="12 files"), act(1, output="13 files"), act(2, output="no files"))

    assert ["curiosity" in _moved(change) for change in changes] == [True, False, True]


def test_a_crash_leaves_the_row_of_rest_alone(act: Act) -> None:
    """An unknown outcome neither scores nor breaks a row of DO_NOTHING."""
    state, changes = _run(act(0, "DO_NOTHING"), act(1, status="unknown"))

    assert state.rested
    assert changes[1].score is not None
    assert (changes[1].score.status, changes[1].score.value) == ("not_applicable", None)
    assert changes[1].drift


def test_praise_satisfies_once(act: Act) -> None:
    """A person's positive score moves three needs and is no part of a reward; of one act, once."""
    action = act(0, "REFLECT")
    again = _praise(action, 0.5).model_copy(update={"id": "said anew"})
    state, changes = _run(action, _praise(action), _praise(action), again)

    assert len(changes) == 2
    assert _moved(changes[1]) == pytest.approx({"reliability": 0.15, "excellence": 0.15, "curiosity": 0.05})
    assert changes[1].score is None
    assert state.place == (0, 0)


@pytest.mark.parametrize(("value", "scorer"), [(0.0, "human"), (-1.0, "human"), (1.0, "brevity"), (1.0, "reward")])
def test_only_a_persons_positive_score_is_praise(act: Act, value: float, scorer: str) -> None:
    """A blame, a shrug and a program's score satisfy nobody."""
    assert _run(_praise(act(0), value, scorer))[1] == []


def test_levels_stay_within_the_unit(act: Act) -> None:
    """A long run of mistakes starves at 0, and what is starved cannot worsen, so it costs no more."""
    _, changes = _run(*(act(cycle, "INVALID") for cycle in range(20)))

    assert changes[-1].after["reliability"] == 0.0
    assert changes[-1].score is not None
    assert changes[-1].score.value == 0.0


def test_counted_and_delta_score_the_same_change_differently(act: Act) -> None:
    """Counted pays by sign and priority, delta by size and priority."""
    counted = _run(act(0, status="error"))[1][0].score
    delta = _run(act(0, status="error"), settings=NeedsSettings(mode="delta"))[1][0].score

    assert counted is not None
    assert counted.value == pytest.approx(-0.3 * (0.25 + 0.30))
    assert delta is not None
    assert delta.value == pytest.approx(0.30 * -0.2 + 0.25 * -0.1)


def test_needs_of_ones_own_replace_the_four(act: Act) -> None:
    """Priority, start, drift and events come from the settings."""
    calm = NeedSettings(priority=1.0, start=0.5, drift=-0.1, events={"reflected": 0.3})
    state, changes = _run(act(0, "REFLECT"), settings=NeedsSettings(own={"calm": calm}))

    assert state.levels == pytest.approx({"calm": 0.7})
    assert changes[0].most_pressing == "calm"


def test_the_numbers_of_the_four_needs_can_be_set(act: Act) -> None:
    """Start, drift, the deltas of an event, and what an improvement counts; what is not named stays as it is."""
    given = {
        "start": {"curiosity": 0.2},
        "drift": {"curiosity": 0.0},
        "events": {"reflected": {"excellence": 0.1}},
        "improved": 1.0,
    }
    _, changes = _run(act(0, "REFLECT"), settings=NeedsSettings.model_validate(given))

    assert changes[0].before == pytest.approx(BORN | {"curiosity": 0.2, "excellence": 0.59})
    assert _moved(changes[0]) == pytest.approx({"excellence": 0.1})
    assert changes[0].score is not None
    assert changes[0].score.value == pytest.approx(0.20)


@given(
    levels=st.dictionaries(st.sampled_from("abcd"), st.floats(0.0, 1.0)),
    moved=st.sampled_from([-0.1, 0.0, 0.1]),
    level=st.floats(0.0, 1.0),
    factor=st.floats(0.0, 1.0),
)
def test_starvation_takes_a_share_or_nothing(
    levels: dict[str, float], moved: float, level: float, factor: float
) -> None:
    """Either the factor or 1; never less than 1 where a starving need rose, or none starves."""
    after = {need: there + moved for need, there in levels.items()}
    value = starving_factor(levels, after, level, factor)

    assert value in (factor, 1.0)
    if moved > 0.0 or all(there > level + 1e-9 for there in levels.values()):
        assert value == 1.0


def test_a_need_that_was_renamed_starts_anew(act: Act) -> None:
    """A state from other settings keeps the levels of the needs that are left."""
    old = NeedsState(levels={"reliability": 0.1, "gone": 0.9})

    state, _ = fold(old, act(0, "REFLECT"), table_of(SETTINGS))

    assert set(state.levels) == set(BORN)
    assert state.levels["reliability"] == 0.1
    assert state.levels["sustainability"] == 0.7


def test_an_event_that_never_happens_is_refused() -> None:
    """A typo in a need's events is named, with what was meant."""
    own = {"calm": NeedSettings(priority=1.0, start=0.5, events={"mistkae": -0.1})}

    with pytest.raises(ConfigError, match=r"mistkae.*mistake"):
        initial_state(NeedsSettings(own=own))


def test_the_most_pressing_need_weighs_urgency_by_priority() -> None:
    """priority × (0.5 + urgency); of equals the first leads."""
    assert pressing({"a": 1.0, "b": 0.0}, {"a": 0.6, "b": 0.4}) == pytest.approx({"a": 0.3, "b": 0.6})
    assert most_pressing({"a": 0.5, "b": 0.5}, {"a": 0.5, "b": 0.5}) == "a"


def test_rounding_is_no_change() -> None:
    """A difference of a few bits neither pays nor costs; unknown levels say nothing."""
    assert counted_reward({"a": 0.3}, {"a": 0.1 + 0.2}, {"a": 1.0}) == 0.0
    assert counted_reward({"a": None, "b": 0.1}, {"a": 0.5, "c": 0.9}, {}) == 0.0
    assert delta_reward({"a": 0.5, "b": 0.1}, {"a": None}, {}) == 0.0


KINDS = st.sampled_from(["TOOL", "DO_NOTHING", "REFLECT", "INVALID"])
STATUSES = st.sampled_from(["success", "error", "timeout", "blocked", "unknown"])
ACTS = st.lists(st.tuples(KINDS, STATUSES, st.text("ab", max_size=2)), max_size=12)


@given(acts=ACTS, mode=st.sampled_from(["counted", "delta"]))
def test_a_repeated_act_changes_nothing(act: Act, acts: list[tuple[str, str, str]], mode: str) -> None:
    """Reading every act twice, and the whole history once more, leaves state and facts as they were; ranges hold."""
    settings = NeedsSettings.model_validate({"mode": mode})
    history = [act(cycle, kind, status=status, output=out) for cycle, (kind, status, out) in enumerate(acts)]

    once = _run(*history, settings=settings)
    twice = _run(*(fact for fact in history for _ in range(2)), *history, settings=settings)

    assert once == twice
    assert all(0.0 <= level <= 1.0 for change in once[1] for level in change.after.values())


def test_the_consumer_publishes_what_the_fold_found(act: Act) -> None:
    """The event follows from the act, survives the wire, and a repeated act says nothing; the state survives too."""
    spec = bind(needs, ServiceContext(Settings(), Path()))
    assert spec.initial is not None
    assert spec.state is not None
    action = act(4, output="news")

    state, fact = spec.handle(spec.initial(), action)

    assert decode(encode(fact)) == fact
    assert (fact.causation_id, fact.cycle, fact.score.component) == (action.id, 4, "needs")
    assert spec.state.model_validate_json(state.model_dump_json()) == state
    assert spec.handle(state, action) == (state, None)
