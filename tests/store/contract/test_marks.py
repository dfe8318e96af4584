"""The marks of the chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conch.errors import CheckError
from conch.experience import ExperienceStore

if TYPE_CHECKING:
    from tests.store.conftest import Apply, Facts


def test_marks_come_in_sequence_page_after_page(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """Marks are read by their sequence, whatever order they came in, from any place."""
    shared_events(store, *(facts.mark(n) for n in range(1100, 0, -1)))

    assert [mark.sequence for mark in store.chain.marks("echo")] == list(range(1100))
    assert [mark.sequence for mark in store.chain.marks("echo", start=1095)] == list(range(1095, 1100))


def test_forged_marks_are_kept_for_the_verifier(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """A second mark at a taken sequence, or under a taken id, does not vanish and does not replace the first."""
    true = facts.mark(1)
    other_id = facts.mark(2, sequence=0)
    same_id = facts.mark(1, response="forged", hash="f" * 64)

    shared_events(store, true, other_id, same_id)

    assert list(store.chain.marks("echo")) == [true.mark, other_id.mark, same_id.mark]


def test_a_mark_that_is_no_mark_is_named(store: ExperienceStore, facts: Facts, shared_events: Apply) -> None:
    """A row of the chain that was made unreadable fails the check, by its sequence."""
    shared_events(store, facts.mark(1), facts.mark(2))
    store._file.db.execute("UPDATE marks SET body = '{}' WHERE sequence = 1")  # type: ignore[attr-defined]

    with pytest.raises(CheckError, match="sequence 1"):
        list(store.chain.marks("echo"))
