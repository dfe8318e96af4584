"""What people decided: which decision counts, and which rows may be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.data import LeftOut, Row
from conch.errors import UsageError
from conch.review import ReviewDecisions, ReviewPolicy, corrected_rows, reviewed

if TYPE_CHECKING:
    from tests.review.conftest import Decide, MakeRow

SAID = st.lists(
    st.tuples(st.sampled_from("xyz"), st.sampled_from(["ada", "bob"]), st.sampled_from(["approved", "rejected"])),
    max_size=12,
)


@given(said=SAID)
def test_the_last_decision_of_each_reviewer_counts(decided: Decide, said: list[tuple[str, str, str]]) -> None:
    """Each reviewer has a decision of their own; a decision that is read twice changes nothing."""
    events = [decided(*one, number=place + 1) for place, one in enumerate(said)]
    last = {(row, reviewer): decision for row, reviewer, decision in said}

    once, twice = ReviewDecisions(events), ReviewDecisions([*events, *events])

    found = {(event.row, event.reviewer): event.decision for event in once}
    assert found == {(decided(row).row, reviewer): decision for (row, reviewer), decision in last.items()}
    assert list(twice) == list(once)
    assert len(once) == len(last)
    assert once.made_by("ada") == sum(reviewer == "ada" for _, reviewer in last)


def test_one_rejection_outweighs_approvals(decided: Decide) -> None:
    """Until that reviewer approves it; a row that is edited is not used as it was."""
    decisions = ReviewDecisions([decided("x"), decided("x", "bob", "rejected"), decided("y", "bob", "edited")])
    x, y = decided("x").row, decided("y").row

    assert (decisions.state(x), decisions.state(y), decisions.state("0" * 64)) == ("rejected", "rejected", "undecided")
    decisions.add(decided("x", "bob", number=2))
    assert decisions.state(x) == "approved"
    assert [event.reviewer for event in decisions.on(x)] == ["ada", "bob"]


def test_a_correction_approves_the_rows_that_it_makes(row: MakeRow, decided: Decide) -> None:
    """As long as that decision counts: the reviewer who rejects the row instead takes the correction back."""
    right, *pairs = corrected_rows(row(), "filesystem.list .")
    edit = decided(row().row_id, decision="edited", text="x", corrected=(right.row_id, *(one.row_id for one in pairs)))
    decisions = ReviewDecisions([edit])

    assert [decisions.state(one.row_id) for one in (right, *pairs)] == ["approved"] * 3
    decisions.add(decided(row().row_id, decision="rejected", number=2))
    assert decisions.state(right.row_id) == "undecided"


def test_the_share_of_rows_that_need_an_approval_is_that_of_the_policy(row: MakeRow) -> None:
    """`all` asks of every row, `none` of none, `sample:25%` of a quarter, always the same ones."""
    hashes = [row(number=number).row_id for number in range(2000)]

    def asked(policy: str) -> list[str]:
        return [one for one in hashes if ReviewPolicy.of(policy).needs(one)]

    assert asked("all") == asked("sample:100%") == hashes
    assert asked("none") == asked("sample:0%") == []
    assert 400 < len(asked("sample:25%")) < 600
    assert asked("sample:25%") == asked("sample:25%")
    assert set(asked("sample:10%")) <= set(asked("sample:25%"))


@pytest.mark.parametrize("text", ["", "some", "sample:101%", "sample:-1%", "sample:5", "ALL", "sample:٣%"])
def test_a_policy_that_is_none_is_refused(text: str) -> None:
    """The sentence names those that there are."""
    with pytest.raises(UsageError, match="is none of all, none and sample:N%"):
        ReviewPolicy.of(text)


@given(approved=st.sets(st.integers(0, 9)), rejected=st.sets(st.integers(0, 9)), share=st.sampled_from([0, 40, 100]))
def test_every_row_is_used_or_left_out_with_its_reason(
    row: MakeRow, decided: Decide, approved: set[int], rejected: set[int], share: int
) -> None:
    """Nothing is lost: what was left out before stays so. A rejected row is used under no policy, an approved one under
    every policy."""
    rows = [row(number=number) for number in range(10)]
    said = [decided(rows[number].row_id) for number in approved]
    said += [decided(rows[number].row_id, "bob", "rejected") for number in rejected]
    policy, before = ReviewPolicy(share / 100), LeftOut("too dull", ("a",))

    answers = list(reviewed([before, *rows], ReviewDecisions(said), policy))

    assert answers[0] is before
    assert len(answers) == 11
    for number, answer in enumerate(answers[1:]):
        if number in rejected:
            assert answer == LeftOut("rejected", rows[number].action_ids)
        elif number in approved or not policy.needs(rows[number].row_id):
            assert answer is rows[number]
        else:
            assert answer == LeftOut("not_reviewed", rows[number].action_ids)


def test_a_changed_row_needs_a_new_decision(row: MakeRow, decided: Decide) -> None:
    """A row that was approved is not used once its act was scored anew: its hash is another one."""
    old, new = row(reward=0.5), row(reward=0.4, revision=2)
    decisions = ReviewDecisions([decided(old.row_id)])

    assert list(reviewed([new], decisions, ReviewPolicy())) == [LeftOut("not_reviewed", new.action_ids)]


def test_corrections_come_behind_the_rows_and_once(row: MakeRow, decided: Decide) -> None:
    """Those alone that a decision approves; one that stands among the rows does not come again."""
    right, pair, _ = corrected_rows(row(), "filesystem.list .")
    edit = decided(row().row_id, decision="edited", text="x", corrected=(right.row_id,))

    answers = list(reviewed([row()], ReviewDecisions([edit]), ReviewPolicy(), [right, right, pair]))

    assert answers == [LeftOut("rejected", row().action_ids), right]
    assert sum(isinstance(one, Row) for one in reviewed([right], ReviewDecisions([edit]), ReviewPolicy(), [right])) == 1
