"""The rows of a store that wait for a reviewer, found in one walk over it; and rows by their hash."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from conch.config import Masker
from conch.data import Format, LeftOut, Row, Selection, Survey, rows_of
from conch.errors import UsageError
from conch.experience import ExperienceReader
from conch.review.corrected import corrected_rows
from conch.review.decisions import ReviewDecisions
from conch.review.policy import ReviewPolicy
from conch.review.queue import QueuedRow, in_order, lottery
from conch.review.signals import SignalSurvey
from conch.text import well_formed

REVIEWED_FORMATS: Final[tuple[Format, ...]] = ("sft", "dpo", "kto", "grpo", "reward")
"""Formats that are trained on; tables of cycles and episodes are not reviewed."""
HELD: Final = 200
"""Rows that a pool holds by their weight: prompts and replies of a row take some 10 KB."""
DRAWN: Final = 20
"""Rows that it holds at random."""
WHOLE: Final = Selection()
LEAST_DIGITS: Final = 12
"""Digits of a hash that name a row."""
Redact = Callable[[str], str]
K = TypeVar("K")


@dataclass
class ReviewPool:
    """Rows of one format that a reviewer has not decided on, the weightiest of them."""

    format: Format
    reviewer: str
    rows: dict[str, QueuedRow] = field(default_factory=dict)
    """By the row's hash: up to HELD and DRAWN."""
    waiting: int = 0
    """Rows that no person has decided on and that need it, of the whole store."""
    open: int = 0
    """Rows that this reviewer has not decided on, of the whole store."""

    def queue(self, decisions: ReviewDecisions, without: Iterable[str] = ()) -> Iterator[QueuedRow]:
        """The rows that are left of the pool by these decisions, in the order in which they are shown. `without`: rows
        that were skipped."""
        skipped = frozenset(without)
        left = [
            one for row, one in self.rows.items() if row not in skipped and decisions.of(row, self.reviewer) is None
        ]
        return in_order(left, decisions.made_by(self.reviewer))


def export_redact(masker: Masker) -> Redact:
    """The function that the export redacts with: under another one the rows had other hashes. Raises UsageError where
    the extra `data` is not installed."""
    from conch.data import redactor  # imported late: it needs the extra

    return redactor(masker)


def review_pool(
    store: ExperienceReader,
    format: Format,
    reviewer: str,
    decisions: ReviewDecisions,
    policy: ReviewPolicy,
    *,
    agent: str | None = None,
    redact: Redact = well_formed,
) -> ReviewPool:
    """The rows of the store that this reviewer has not decided on. Walks over the whole store; memory is bounded.

    `agent`: rows of this agent alone. `redact`: that of the export, else the hashes differ. Raises UsageError for a
    format that is not reviewed; StoreError.
    """
    _refuse_unreviewed(format)
    survey = SignalSurvey.of(store.examples.walk())
    pool = ReviewPool(format, reviewer)
    held: list[tuple[tuple[bool, float], str, QueuedRow]] = []
    drawn: list[tuple[bytes, str, QueuedRow]] = []
    for row in _rows(store, format, redact):
        if agent not in (None, row.agent) or decisions.of(row.row_id, reviewer) is not None:
            continue
        found = QueuedRow(row, survey.of_row(row), policy.refusal(row.row_id, decisions) == "not_reviewed")
        pool.open += 1
        pool.waiting += found.needed
        _keep(held, ((found.needed, found.signals.weight), row.row_id, found), HELD)
        _keep(drawn, (bytes(255 - byte for byte in lottery(row.row_id)), row.row_id, found), DRAWN)
    pool.rows = {row: one for _, row, one in held} | {row: one for _, row, one in drawn}
    return pool


def row_of(store: ExperienceReader, named: str, *, format: Format | None = None, redact: Redact = well_formed) -> Row:
    """The row of this hash, or of its first LEAST_DIGITS digits or more. `format`: None looks at all formats.

    Raises UsageError where there is none, or several begin so; StoreError. Walks over the store until it is found.
    """
    if format is not None:
        _refuse_unreviewed(format)
    if len(named) < LEAST_DIGITS or len(named) > 64 or set(named) - set("0123456789abcdef"):
        raise UsageError(f"{named[:80]!r} is no hash of a row: 64 hexadecimal digits, or at least the first 12")
    for one in REVIEWED_FORMATS if format is None else (format,):
        found = {}
        for row in _rows(store, one, redact):
            if row.row_id.startswith(named):
                found[row.row_id] = row
                if row.row_id == named:
                    return row
        if len(found) > 1:
            raise UsageError(f"{len(found)} rows begin with {named}: give more digits")
        if found:
            return next(iter(found.values()))
    raise UsageError(f"no row begins with {named}: a row that was scored anew has another hash (conch review list)")


def corrections_of(
    store: ExperienceReader,
    format: Format,
    decisions: ReviewDecisions,
    selection: Selection = WHOLE,
    *,
    redact: Redact = well_formed,
    survey: Survey | None = None,
) -> Iterator[Row]:
    """The rows of this format that reviewers made as corrections of rows within the selection that are still as they
    were. `redact`: that of the export, also for corrections that were published under another one; of a correction
    that it makes equal to the reply that it replaces there is no row. `survey`: that of the export, so that both read
    the same acts beside a run; None: of the acts of now. Raises StoreError."""
    edits = {event.row: event.format for event in decisions if event.decision == "edited"}
    for source in REVIEWED_FORMATS:
        if source not in edits.values():
            continue
        for row in _rows(store, source, redact, selection, survey):
            if row.row_id not in edits:
                continue
            texts = (event.text for event in decisions.on(row.row_id) if event.decision == "edited")
            for text in texts:
                made: tuple[Row, ...] = ()
                with suppress(UsageError):
                    made = corrected_rows(row, redact(text or ""))
                yield from (one for one in made if one.format == format)


def _rows(
    store: ExperienceReader,
    format: Format,
    redact: Redact,
    selection: Selection = WHOLE,
    survey: Survey | None = None,
) -> Iterator[Row]:
    answers = rows_of(store, format, selection, redact=redact, survey=survey)
    return (one for one in answers if not isinstance(one, LeftOut))


def _refuse_unreviewed(format: Format) -> None:
    if format not in REVIEWED_FORMATS:
        raise UsageError(f"rows of {format} are not reviewed: {', '.join(REVIEWED_FORMATS)} are")


def _keep(heap: list[tuple[K, str, QueuedRow]], entry: tuple[K, str, QueuedRow], most: int) -> None:
    """Keep the `most` greatest entries."""
    if len(heap) < most:
        heapq.heappush(heap, entry)
    else:
        heapq.heappushpop(heap, entry)
