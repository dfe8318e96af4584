"""The order in which rows are shown to a reviewer. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from conch.data import Row
from conch.review.signals import RowSignals

EVERY: Final = 20
"""Each so manieth row that a reviewer is shown is one at random: 5 %."""
SEED: Final = 1
"""Seed of the random rows: a row's place among them is the SHA-256 of the seed and the row's hash."""
_SAID: Final = 0.25
"""Least signal that is said as a reason."""


@dataclass(frozen=True)
class QueuedRow:
    """A row that waits for a reviewer."""

    row: Row
    signals: RowSignals
    needed: bool = True
    """Whether it may not be used before a person decides."""
    at_random: bool = False
    """Whether it is shown for no signal of its own."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is shown now, in a few words each, the weightiest first."""
        if self.at_random:
            return (f"at random (seed {SEED})",)
        named = zip(("risk", "scorers disagree", "novel"), self.signals, strict=True)
        said = sorted(((value, name) for name, value in named if value >= _SAID), key=lambda one: -one[0])
        return tuple(f"{name} {value:.2f}" for value, name in said)


def lottery(row: str) -> bytes:
    """The place of the row of this hash among the random ones."""
    return hashlib.sha256(f"{SEED}/{row}".encode()).digest()


def in_order(rows: Iterable[QueuedRow], decided: int = 0) -> Iterator[QueuedRow]:
    """The rows in the order in which a reviewer who has decided on `decided` rows is shown them; each once.

    Rows that need a decision come before the others; then the weightier, then by hash. Each EVERY-th row, counted with
    those decided, is the next one at random instead.
    """
    queue = sorted(rows, key=lambda one: (not one.needed, -one.signals.weight, one.row.row_id))
    drawn = iter(sorted(queue, key=lambda one: (not one.needed, lottery(one.row.row_id))))
    by_weight = iter(queue)
    shown = set[str]()
    for place in range(decided + 1, decided + 1 + len(queue)):
        is_random = place % EVERY == 0
        found = next(one for one in (drawn if is_random else by_weight) if one.row.row_id not in shown)
        shown.add(found.row.row_id)
        if is_random:
            found = QueuedRow(found.row, found.signals, found.needed, at_random=True)
        yield found
