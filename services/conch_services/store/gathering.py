"""The facts that wait to share a transaction."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from conch.bus import ReceivedEvent
from conch_schemas import CycleReflected, MarkWitnessed, ThoughtFormed, ThoughtGrounded

CROWDED: Final = 40
"""Facts in a transaction that say that many agents act: some three cycles came while the one before was written."""
LINGER_SECONDS: Final = 0.025
"""Time that facts are gathered for the next transaction, then, and of those that complete no experience. A transaction
writes each page that it changes, twice, and an fsync, whether one row of the page is new or fifty."""

_WAIT: Final = tuple(f".{kind.TYPE}" for kind in (ThoughtFormed, ThoughtGrounded, CycleReflected, MarkWitnessed))
"""Suffixes of the subjects of facts that complete no experience, and that none waits for. The decision and the act do
not wait: they are written while the act is run and scored, so that less is left to write with the last score."""


class GatheredFacts:
    """Facts that were read and are not joined yet, in the order of the stream.

    Those that complete no experience wait LINGER_SECONDS for others to share their transaction, so that a cycle is not
    written in one for each of its steps. Any other fact makes all of them due at once.
    """

    def __init__(self) -> None:
        self._deliveries: list[ReceivedEvent] = []
        self._until = 0.0

    def put(self, deliveries: Sequence[ReceivedEvent]) -> None:
        """Add what was read next; not empty."""
        if not self._deliveries:
            self._until = time.monotonic() + LINGER_SECONDS
        self._deliveries += deliveries
        if len(self._deliveries) > CROWDED or not all(one.subject.endswith(_WAIT) for one in deliveries):
            self._until = 0.0

    def patience(self) -> float:
        """Seconds until they are due; infinite where there are none."""
        return max(0.0, self._until - time.monotonic()) if self._deliveries else float("inf")

    @property
    def are_due(self) -> bool:
        """Whether they are to be joined now."""
        return self.patience() == 0.0

    def taken(self) -> Sequence[ReceivedEvent]:
        """All of them; none are left."""
        taken, self._deliveries = self._deliveries, []
        return taken
