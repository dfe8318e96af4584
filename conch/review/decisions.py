"""What people have decided on rows so far. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

from conch_schemas import ReviewDecided

RowState = Literal["approved", "rejected", "undecided"]


class ReviewDecisions:
    """The decision of each reviewer on each row that counts: the last one of the stream."""

    def __init__(self, events: Iterable[ReviewDecided] = ()) -> None:
        """`events`: in the order of the stream; one that comes twice counts once."""
        self._rows: dict[str, dict[str, ReviewDecided]] = {}
        self._corrected: Counter[str] = Counter()
        self._ids: set[str] = set()
        for event in events:
            self.add(event)

    def add(self, event: ReviewDecided) -> None:
        """Take in the next decision of the stream."""
        if event.id in self._ids:
            return
        self._ids.add(event.id)
        before = self._rows.setdefault(event.row, {}).get(event.reviewer)
        if before is not None:
            self._corrected.subtract(before.corrected)
        self._rows[event.row][event.reviewer] = event
        self._corrected.update(event.corrected)

    def of(self, row: str, reviewer: str) -> ReviewDecided | None:
        """The decision of the reviewer on the row that counts."""
        return self._rows.get(row, {}).get(reviewer)

    def on(self, row: str) -> tuple[ReviewDecided, ...]:
        """The decisions on the row that count, by the reviewer's name."""
        return tuple(event for _, event in sorted(self._rows.get(row, {}).items()))

    def state(self, row: str) -> RowState:
        """A row is rejected when one reviewer rejected or edited it; else approved when one approved it, or made it as
        a correction."""
        found = {event.decision for event in self._rows.get(row, {}).values()}
        if found & {"rejected", "edited"}:
            return "rejected"
        return "approved" if found or self._corrected[row] > 0 else "undecided"

    def made_by(self, reviewer: str) -> int:
        """Rows that the reviewer has decided on."""
        return sum(reviewer in found for found in self._rows.values())

    def __iter__(self) -> Iterator[ReviewDecided]:
        """The decisions that count, by row, then by reviewer."""
        for row in sorted(self._rows):
            yield from self.on(row)

    def __len__(self) -> int:
        """How many decisions count."""
        return sum(map(len, self._rows.values()))
