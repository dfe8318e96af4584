"""The rows of a store that wait for a reviewer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conch.data import Format, LeftOut, Row, Survey, rows_of, survey_of
from conch.errors import UsageError
from conch.experience import MemoryStore
from conch.review import (
    ReviewDecisions,
    ReviewPolicy,
    corrected_rows,
    corrections_of,
    review_pool,
    reviewed,
    row_of,
    scores_beside,
)
from conch.review import pool as pool_module

if TYPE_CHECKING:
    from tests.review.conftest import Decide

ALL = ReviewPolicy()
NONE = ReviewDecisions()


def rows_in(store: MemoryStore, format: Format = "sft") -> list[Row]:
    """What an export would write."""
    return [one for one in rows_of(store, format) if isinstance(one, Row)]


@pytest.mark.parametrize("format", ["sft", "dpo", "kto", "grpo"])
def test_the_rows_that_wait_are_those_of_the_export(store: MemoryStore, format: Format) -> None:
    """Each once, under the same hash, until the reviewer has decided on it."""
    rows = rows_in(store, format)
    pool = review_pool(store, format, "ada", NONE, ALL)

    assert rows
    assert sorted(one.row.row_id for one in pool.queue(NONE)) == sorted(row.row_id for row in rows)
    assert (pool.waiting, pool.open) == (len(rows), len(rows))


def test_each_reviewer_has_a_queue_of_their_own(store: MemoryStore, decided: Decide) -> None:
    """What ada approved still comes to bob, behind the rows that no person has decided on."""
    first, *_ = rows_in(store, "kto")
    said = ReviewDecisions([decided(first.row_id)])

    ada, bob = (review_pool(store, "kto", name, said, ALL) for name in ("ada", "bob"))

    assert first.row_id not in [one.row.row_id for one in ada.queue(said)]
    assert [one.row.row_id for one in bob.queue(said)][-1] == first.row_id
    assert (bob.waiting, bob.open) == (ada.open, ada.open + 1)


def test_a_decision_made_since_takes_the_row_out(store: MemoryStore, decided: Decide) -> None:
    """A pool is not made again for each decision; what is skipped is left out too."""
    pool = review_pool(store, "kto", "ada", NONE, ALL)
    first, second, *rest = (one.row.row_id for one in pool.queue(NONE))

    left = pool.queue(ReviewDecisions([decided(first)]), without=[second])

    assert sorted(one.row.row_id for one in left) == sorted(rest)


def test_a_pool_holds_the_weightiest_rows_and_some_at_random(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are; it says how many wait."""
    whole = list(review_pool(store, "kto", "ada", NONE, ALL).queue(NONE))
    monkeypatch.setattr(pool_module, "HELD", 3)
    monkeypatch.setattr(pool_module, "DRAWN", 1)

    few = review_pool(store, "kto", "ada", NONE, ALL)

    shown = list(few.queue(NONE))
    assert [one.signals.weight for one in shown[:3]] == [one.signals.weight for one in whole[:3]]
    assert 3 <= len(shown) <= 4
    assert few.open == len(whole)


def test_a_row_is_found_by_the_beginning_of_its_hash(store: MemoryStore) -> None:
    """12 digits do; what is none, and a hash that no row has, is said in a sentence."""
    row = rows_in(store, "kto")[0]

    assert row_of(store, row.row_id[:12]) == row_of(store, row.row_id, format="kto") == row
    for named, says in (("abc", "is no hash of a row"), ("Z" * 12, "is no hash"), ("0" * 12, "no row begins with")):
        with pytest.raises(UsageError, match=says):
            row_of(store, named)
    with pytest.raises(UsageError, match="rows of cycles are not reviewed"):
        row_of(store, row.row_id, format="cycles")


def test_an_edit_puts_the_corrected_row_into_the_next_export(store: MemoryStore, decided: Decide) -> None:
    """The original is left out as rejected; the pair stands among the pairs, not among the rows of SFT."""
    first, *others = rows_in(store)
    text = "REFLECT: read it first"
    right, pair, _ = corrected_rows(first, text)
    edit = decided(first.row_id, decision="edited", text=text, corrected=(right.row_id, pair.row_id))
    said = ReviewDecisions([edit, *(decided(one.row_id) for one in others)])

    answers = list(reviewed(rows_of(store, "sft"), said, ALL, corrections_of(store, "sft", said)))

    assert answers[-1] == right
    assert LeftOut("rejected", first.action_ids) in answers
    assert "not_reviewed" not in [one.reason for one in answers if isinstance(one, LeftOut)]
    assert list(corrections_of(store, "dpo", said)) == [pair]
    assert list(corrections_of(store, "grpo", said)) == []


def test_a_correction_is_redacted_as_the_export_is(store: MemoryStore, decided: Decide) -> None:
    """Also where it was published before its text was a secret; where nothing of it is left, it is no row."""
    row = rows_in(store)[0]
    own = str(row.columns["completion"][0]["content"])  # type: ignore[index,call-overload]
    edits = [
        decided(row.row_id, reviewer, "edited", text=text)
        for reviewer, text in (("ada", "REFLECT: ask hunter2"), ("bob", own + "hunter2"))
    ]

    found = corrections_of(
        store,
        "sft",
        ReviewDecisions(edits),
        redact=lambda text: text.replace("ask hunter2", "*").replace("hunter2", ""),
    )

    assert list(found) == [corrected_rows(row, "REFLECT: *")[0]]


def test_corrections_are_of_the_acts_that_the_export_reads(store: MemoryStore, decided: Decide) -> None:
    """Beside a run acts come while the export reads: a correction of one that its survey lacks is for the next time."""
    rows = rows_in(store, "kto")
    edits = ReviewDecisions(decided(row.row_id, "ada", "edited", text="REFLECT: it", format="kto") for row in rows)
    marks = list(store.examples.marks())

    def corrected(survey: Survey) -> list[Row]:
        return list(corrections_of(store, "kto", edits, survey=survey))

    assert len(corrected(survey_of(marks, 0.1))) == len(rows)
    assert 0 < len(corrected(survey_of(marks[:8], 0.1))) < len(rows)


def test_a_decision_is_held_against_the_scores_of_its_acts(store: MemoryStore, decided: Decide) -> None:
    """Of a pair the chosen act's less the rejected one's; a row of an act that is gone is left out."""
    row, pair = rows_in(store)[0], rows_in(store, "dpo")[0]
    events = [
        decided(row.row_id, acts=row.action_ids),
        decided(pair.row_id, acts=pair.action_ids, format="dpo"),
        decided("gone", acts=("a-b",)),
    ]

    found = {event.row: by_rule for event, by_rule in scores_beside(store, ReviewDecisions(events))}

    assert set(found) == {row.row_id, pair.row_id}
    assert found[row.row_id]["format", "reward"] == 0.5
    cycles = [store.cycles.cycle_of(action) for action in pair.action_ids]
    chosen, rejected = (
        {one.component: one.value for one in whole.scores}
        for cycle in cycles
        if (whole := store.cycles.get("echo", cycle or 0))
    )
    assert found[pair.row_id]["format", "reward"] == (chosen["format"] or 0) - (rejected["format"] or 0)
