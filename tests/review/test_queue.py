"""The order in which rows are shown, the sides of a pair, and the signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.errors import UsageError
from conch.experience import MemoryStore
from conch.experience.queries.examples import ExampleScore
from conch.review import QueuedRow, RowSignals, in_order, sides_of
from conch.review.queue import EVERY
from conch.review.signals import SignalSurvey, disagreement, risk

if TYPE_CHECKING:
    from tests.review.conftest import MakeRow

UNIT = st.floats(0, 1)
WEIGHTS = st.lists(st.tuples(st.booleans(), UNIT, UNIT, UNIT), max_size=60)


def queued(row: MakeRow, weights: Sequence[tuple[bool, float, float, float]]) -> list[QueuedRow]:
    return [QueuedRow(row(number=place), RowSignals(*one), needed) for place, (needed, *one) in enumerate(weights)]


@given(weights=WEIGHTS, decided=st.integers(0, 50), shuffled=st.randoms())
def test_every_row_is_shown_once_the_weightiest_first(
    row: MakeRow, weights: list[Any], decided: int, shuffled: Any
) -> None:
    """In one order for any order of the rows; each twentieth, counted with those decided, comes at random."""
    rows = queued(row, weights)
    mixed = shuffled.sample(rows, len(rows))

    order = list(in_order(rows, decided))

    assert [one.row.row_id for one in order] == [one.row.row_id for one in in_order(mixed, decided)]
    assert sorted(one.row.row_id for one in order) == sorted(one.row.row_id for one in rows)
    assert [one.at_random for one in order] == [(decided + place) % EVERY == 0 for place in range(1, len(rows) + 1)]
    by_weight = [(not one.needed, -one.signals.weight) for one in order if not one.at_random]
    assert by_weight == sorted(by_weight)


def test_a_row_at_random_is_no_matter_of_its_weight(row: MakeRow) -> None:
    """The twentieth row of a hundred is another one than the twentieth by weight, and says its seed."""
    rows = queued(row, [(True, place / 100, 0.0, 0.0) for place in range(100)])

    order = list(in_order(rows))

    assert order[18].reasons == ("risk 0.81",)
    assert order[19].signals.risk != 0.80
    assert order[19].reasons == ("at random (seed 1)",)


def test_half_of_the_pairs_begin_with_the_chosen_reply(row: MakeRow) -> None:
    """For each reviewer in an order of their own, the same each time; a row that is no pair has no sides."""
    pairs = [row("dpo", number) for number in range(200)]
    ada, bob = ([sides_of(pair, name) for pair in pairs] for name in ("ada", "bob"))

    assert 60 < sum(one.first == "chosen" for one in ada) < 140
    assert ada != bob
    assert ada == [sides_of(pair, "ada") for pair in pairs]
    assert all({one.named("first"), one.named("second")} == {"chosen", "rejected"} for one in ada)
    with pytest.raises(UsageError, match="a row of sft is no pair"):
        sides_of(row(), "ada")


def test_the_risk_is_what_the_tool_may_change_and_how_it_ended() -> None:
    """A blocked act is the riskiest, then a device; a tool of unknown effect is riskier than a file that is written;
    a read and a rest are no risk."""
    order = [
        risk("filesystem.read", "success"),
        risk("filesystem.write", "success"),
        risk("teapot.brew", "success"),
        risk("device.set", "success"),
        risk("shell", "blocked"),
    ]

    assert order == sorted(set(order))
    assert (order[0], order[-1]) == (0.0, 1.0)
    assert (risk("do_nothing", "none"), risk("invalid", "error")) == (0.0, 0.25)


def test_scorers_that_are_apart_are_seen_and_held_out_rules_never(store: MemoryStore) -> None:
    """Two scores of one component, and one that only watches against the total; a held-out rule says nothing."""
    example = next(store.examples.walk())
    said, replaced = ExampleScore("tone", 1.0, 0.1, "scored"), msgspec.structs.replace

    def apart(*scores: ExampleScore) -> float:
        verdict = replaced(example.verdict, scores=scores, total=0.5)
        return disagreement(replaced(example, verdict=verdict))

    assert apart(said) == 0.0
    assert apart(said, replaced(said, value=-1.0)) == 1.0
    assert apart(said, replaced(said, value=None, status="error")) == 0.0
    assert apart(replaced(said, weight=0.0, value=-0.5)) == 0.5
    assert apart(said, replaced(said, value=-1.0, role="held_out")) == 0.0


def test_a_kind_of_row_is_the_less_novel_the_more_there_are(row: MakeRow) -> None:
    """1 ÷ √n; of a pair the acts' greatest disagreement counts."""
    survey = SignalSurvey()
    survey.kinds["filesystem.read", "success"] = 4
    survey.apart["act-1"] = 0.75

    assert survey.of_row(row()) == (0.0, 0.0, 0.5)
    assert survey.of_row(row("dpo", 0)) == (0.0, 0.75, 0.5)
    assert survey.of_row(row(skill="git.log")).novelty == 1.0
