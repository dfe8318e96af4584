"""Cohen's kappa between persons and rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.review import ReviewDecisions, cohen_kappa, rule_agreement

if TYPE_CHECKING:
    from tests.review.conftest import Decide

COUNTS = st.fixed_dictionaries({(one, other): st.integers(0, 50) for one in (True, False) for other in (True, False)})


def test_the_kappa_of_the_usual_example() -> None:
    """20 times both yes, 15 times both no, 5 and 10 times apart: 0.4 (Cohen's measure as any textbook has it)."""
    assert cohen_kappa({(True, True): 20, (True, False): 5, (False, True): 10, (False, False): 15}) == (50, 35, 0.4)


@given(table=COUNTS)
def test_kappa_is_between_its_bounds_and_the_same_for_both_raters(table: dict[tuple[bool, bool], int]) -> None:
    """1 where both agree on all rows and neither says always the same; None where chance alone agrees always."""
    found = cohen_kappa(table)

    assert found == cohen_kappa({(other, one): count for (one, other), count in table.items()})
    assert found.rows == sum(table.values())
    if found.value is None:
        assert found.agreed == found.rows
    else:
        assert -1.0 <= found.value <= 1.0
        assert (found.value == 1.0) == (found.agreed == found.rows)


def test_each_reviewer_is_held_against_each_rule(decided: Decide) -> None:
    """An edit says no as a rejection does; a score of 0 and a decision that was replaced do not count."""
    events = [
        decided("v"),
        decided("w", decision="edited"),
        decided("x"),
        decided("y", decision="rejected"),
        decided("z", "bob"),
        decided("x", decision="rejected", number=2),
    ]
    rule, other = ("format", "reward"), ("tone", "judge")
    values = [{rule: 0.5}, {rule: -0.5, other: 0.0}, {rule: 0.5}, {rule: 0.3}, {rule: 0.1, other: -1.0}, {rule: -0.1}]

    found = rule_agreement(ReviewDecisions(events), zip(events, values, strict=True))

    assert [(one.reviewer, one.component, one.scorer) for one in found] == [
        ("ada", *rule),
        ("bob", *rule),
        ("bob", *other),
    ]
    ada, bob, judge = (one.kappa for one in found)
    assert (ada.rows, ada.agreed) == (4, 3)
    assert ada.value == pytest.approx(0.5)
    assert (bob, judge) == ((1, 1, None), (1, 0, 0.0))
