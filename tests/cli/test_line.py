"""One cycle in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from conch.cli.common import COLUMN_GAP, MIN_WIDTH, QUOTED, fitted, wrapped
from conch.experience import CostSummary, SqliteReader
from conch.views.line import ACTION_WIDTH, WATERFALL, action_words, cycle_line, waterfall_cells
from conch.views.rewards.words import amount_words, costs_words, range_words, waiting_words
from conch_schemas import Action, ExperienceRecorded

if TYPE_CHECKING:
    from tests.cli.conftest import Life


def last(life: Any) -> ExperienceRecorded:
    with SqliteReader(life.home.path / "store.db") as store:
        return store.cycles.last("echo", 1)[-1]


def test_a_line_has_number_need_action_outcome_total_and_time(filled: Life) -> None:
    """A line says the number, the least satisfied need, the action, the outcome, the total and the milliseconds."""
    experience = last(filled).model_copy(update={"action": Action(kind="DO_NOTHING", valid=True, text="resting")})

    line = cycle_line(experience)

    assert line.split() == ["2", "excellence", "do", "nothing:", "resting", "success", "+0.275", "10", "ms"]


def test_an_incomplete_total_says_how_much_of_it_is_there(filled: Life) -> None:
    """While parts are missing the line says how many of the applicable ones were scored."""
    experience = last(filled)
    scores = [s.model_copy(update={"value": None, "status": "timeout"}) for s in experience.scores[:1]]
    late = experience.model_copy(update={"complete": False, "scores": (*scores, *experience.scores[1:])})

    assert cycle_line(late).endswith("(3 of 4 scored)")


def test_a_line_stays_one_line_whatever_the_mind_says(filled: Life) -> None:
    """Line ends and escape sequences in arguments do not reach the terminal."""
    line = cycle_line(last(filled))

    assert line.isprintable()


@given(
    kind=st.sampled_from(["TOOL", "DO_NOTHING", "REFLECT", "INVALID"]), valid=st.booleans(), text=st.text(max_size=200)
)
def test_an_action_fits_its_column(kind: Any, valid: bool, text: str) -> None:
    """Every action is said in printable characters of one line, never wider than its column."""
    words = action_words(Action(kind=kind, valid=valid, reason=text, tool="shell", args={"command": text}, text=text))

    assert 0 < len(words) <= ACTION_WIDTH
    assert "\n" not in words
    assert "\x1b" not in words


@given(widths=st.lists(st.integers(0, 60), max_size=8), room=st.integers(0, 200))
def test_columns_are_cut_only_as_far_as_they_must(widths: list[int], room: int) -> None:
    """A table that fits is left alone; else its widest columns give way until it fits or all are at the least."""
    fit = fitted(widths, room)

    assert all(MIN_WIDTH <= now <= before or now == before for now, before in zip(fit, widths, strict=True))
    assert sum(fit) == min(sum(widths), max(room, sum(min(width, MIN_WIDTH) for width in widths)))


def test_an_action_is_said_by_what_it_does() -> None:
    """A call by its skill and arguments, anything else by its kind and why."""
    call = Action(kind="TOOL", valid=True, tool="filesystem", args={"operation": "write", "path": "a.md"})

    assert action_words(call) == "filesystem.write a.md"
    assert action_words(Action(kind="TOOL", valid=False, reason="no such tool")) == "invalid call: no such tool"
    assert action_words(Action(kind="INVALID", valid=False, reason="prose")) == "invalid: prose"
    assert action_words(Action(kind="REFLECT", valid=True, text="")) == "reflect"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("  format    +0.5  the reply is valid", ["  format    +0.5  the reply", "                  is valid"]),
        ("  | a text of a mind that goes on", ["  | a text of a mind that", "  | goes on"]),
        ("a sentence that is all text, and long", ["a sentence that is all", "  text, and long"]),
        ("  a sentence further in, and as long", ["  a sentence further in,", "    and as long"]),
        ("a name that is wider than that  by far", ["a name that is wider than", "  that  by far"]),
        ("  so short", ["  so short"]),
    ],
)
def test_a_long_line_goes_on_under_its_text(line: str, expected: list[str]) -> None:
    """Under its last column, behind the bar of a quoted text, or a little further in."""
    assert wrapped(line, 28) == expected


@given(
    line=st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), max_size=200), width=st.integers(20, 90)
)
def test_a_wrapped_line_loses_nothing_and_fits(line: str, width: int) -> None:
    """No line is wider than the terminal, and every letter is there in its order; quoted text stays quoted."""
    for begun in (line, f"  name{' ' * COLUMN_GAP}{line}", f"{QUOTED}{line}"):
        parts = wrapped(begun, width)

        assert max(cell_len(part) for part in parts) <= width
        bar = QUOTED if begun.startswith(QUOTED) else ""
        assert all(part.startswith(bar.rstrip()) for part in parts)
        letters = "".join(part.removeprefix(bar.rstrip() if part == bar.rstrip() else bar) for part in parts)
        assert letters.replace(" ", "") == begun.removeprefix(bar).replace(" ", "")


@pytest.mark.parametrize(
    ("least", "greatest", "expected"),
    [
        (-1.0, 0.5, "-1..0.5"),
        (-1.0, 1.0, "-1..1"),
        (-1e6, 1e6, "±1,000,000"),
        (0.0, 2e6, "0..2,000,000"),
        (-1e300, 1e300, "±1e+300"),
    ],
)
def test_a_range_is_told_in_figures_that_one_reads(least: float, greatest: float, expected: str) -> None:
    """Small ones from end to end, a large one that is as wide to both sides as ±; none as long as its number."""
    assert range_words(least, greatest) == expected


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (0.0, "0.00 EUR"),
        (12345.678, "12,345.68 EUR"),
        (0.99999, "1 EUR"),
        (0.5, "0.5 EUR"),
        (0.00123456, "0.001235 EUR"),
        (1e-9, "less than 0.000001 EUR"),
        (1e300, "1e+300 EUR"),
    ],
)
def test_an_amount_is_told_in_figures_that_one_reads(amount: float, expected: str) -> None:
    """Large ones with two decimals, small ones with the digits that count, the smallest as less than a millionth."""
    assert amount_words(amount, "EUR") == expected


@given(st.floats(1e-6, 1e12, exclude_max=True))
def test_a_shown_amount_is_close_to_the_true_one(amount: float) -> None:
    """To a thousandth, or half a hundredth of a large one; never 0 for what costs something."""
    shown = amount_words(amount, "EUR").removesuffix(" EUR")

    assert float(shown.replace(",", "")) == pytest.approx(amount, rel=1e-3, abs=0.0051 if amount >= 1 else 0)
    assert float(shown.replace(",", "")) > 0
    assert len(shown) <= 20


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        (CostSummary({}, 0, 0), ""),
        (CostSummary({"EUR": 0.5}, 3, 0), "0.5 EUR in 3 cycles"),
        (CostSummary({"EUR": 0.5, "USD": 2}, 3, 4), "0.5 EUR + 2.00 USD in 3 cycles, unknown of 4 more"),
        (
            CostSummary({}, 0, 4),
            "unknown of 4 cycles (mind.price says what a token costs)",
        ),
    ],
)
def test_a_sum_of_costs_says_of_how_many_cycles_it_is_unknown(costs: CostSummary, expected: str) -> None:
    """What is unknown is told, and is no part of the sum."""
    assert costs_words(costs) == expected


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        (("think", 2.4, 0), "think, 2 s, no word so far"),
        (("decide", 61.0, 1234), "decide, 61 s, about 1,234 tokens so far"),
    ],
)
def test_what_is_waited_for_is_told_with_how_far_it_has_come(waits: tuple[str, float, int], expected: str) -> None:
    """Step, seconds, tokens."""
    assert waiting_words(*waits) == expected


@given(amounts=st.lists(st.floats(-1, 1).map(lambda one: round(one, 4)), max_size=12))
def test_a_waterfall_has_a_bar_for_each_amount_and_one_for_the_sum(amounts: list[float]) -> None:
    """All of one width; what adds is full, what takes off is shaded, and what is 0 has no bar."""
    bars = waterfall_cells(amounts)

    assert len(bars) == len(amounts) + 1
    assert {len(bar) for bar in bars} == {WATERFALL}
    for amount, bar in zip(amounts, bars, strict=False):
        assert set(bar) - {" ", "│"} == ({"█"} if amount > 0 else {"▒"} if amount < 0 else set())


def test_a_bar_begins_where_the_one_before_ended() -> None:
    """0.5 up, 0.25 down again, and the sum from 0."""
    assert waterfall_cells([0.5, -0.25], 9) == ["████████ ", "│   ▒▒▒▒ ", "████     "]
