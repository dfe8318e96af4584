"""When a round begins, and by which method: pure decisions, each with its sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import TrainingSettings
from conch.rounds import TrainerMoment, is_look, why_busy, why_not_yet
from conch.rounds.making.method import FormatFigures, choose_method

READY = TrainerMoment(
    experiences=500, seen=200, looked=0, since_round=10_000.0, in_vain=0, waiting=0, quiet=1e9, deadline=None, load=0.1
)
SETTINGS = TrainingSettings(idle=30)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"experiences": 249}, "49 new experiences"),
        ({"since_round": 100.0}, "the next one may begin in 500 s"),
        ({"since_round": 700.0, "in_vain": 2}, "after 2 rounds in vain"),
        ({"waiting": 2}, "2 messages wait"),
        ({"quiet": 3.0}, "a message waited 3 s ago"),
        ({"deadline": 20.0}, "a goal's deadline is in 20 s"),
        ({"load": 1.5}, "the load is 1.5"),
    ],
)
def test_a_round_waits_and_says_for_what(change: dict[str, float], words: str) -> None:
    """Too few experiences, cool-down, a message, a deadline, load: each is one sentence."""
    assert why_not_yet(READY, SETTINGS) is None
    assert words in str(why_not_yet(replace(READY, **change), SETTINGS))  # type: ignore[arg-type]


def test_a_clock_that_was_set_back_holds_up_no_round() -> None:
    """The last round seems to have ended in the future: the cool-down is over, not as long as the jump."""
    assert why_not_yet(replace(READY, since_round=-1e6), SETTINGS) is None


def test_a_deadline_that_has_passed_is_not_near() -> None:
    """A goal that was not reached in time holds up no round."""
    assert why_busy(replace(READY, deadline=-5.0), SETTINGS) is None


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000))
def test_a_look_is_each_so_many_cycles(experiences: int, seen: int, looked: int) -> None:
    """Since the last round or the last look that found too little, whichever was later."""
    moment = replace(READY, experiences=experiences, seen=seen, looked=looked)

    assert is_look(moment, SETTINGS) == (experiences - max(seen, looked) >= SETTINGS.every)


@given(st.floats(0, 1e7), st.integers(0, 100))
def test_a_cool_down_ends(since: float, in_vain: int) -> None:
    """However many rounds were in vain, after sixteen cool-downs the next may begin."""
    moment = replace(READY, since_round=since, in_vain=in_vain)

    assert since < 16 * SETTINGS.cooldown or why_not_yet(moment, SETTINGS) is None


@pytest.mark.parametrize(
    ("wanted", "figures", "pairs", "method"),
    [
        ("auto", FormatFigures(100, 10, 0), 500, "sft"),
        ("auto", FormatFigures(0, 0, 0), 500, "sft"),
        ("auto", FormatFigures(0, 0, 1), 500, "dpo"),
        ("auto", FormatFigures(100, 95, 1), 500, "dpo"),
        ("auto", FormatFigures(100, 95, 1), 5, "kto"),
        ("kto", FormatFigures(100, 10, 0), 500, "kto"),
    ],
)
def test_the_method_follows_from_the_data(wanted: str, figures: FormatFigures, pairs: int, method: str) -> None:
    """The format first; then pairs, where there are enough, else labels; or what the settings say."""
    choice = choose_method(wanted, figures, pairs)  # type: ignore[arg-type]

    assert choice.method == method
    assert choice.why.endswith(".")
