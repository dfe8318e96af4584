"""Reports the scores that acts wait for, while acts go on and no cycle is recorded.

The store is read only when no cycle was recorded for a while: a run with prompt scores never reads it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from conch.cli.run.output import RunOutput
from conch.errors import StoreError
from conch.text import safe_text

if TYPE_CHECKING:
    from conch.experience import PendingActs, StoreLocation

QUIET_SECONDS = 3.0
"""Seconds without a cycle's line, and of an act without its scores, that count as normal."""
LOOK_SECONDS = 1.0
"""Seconds between two reads of the store while no cycle is recorded."""
AGAIN_SECONDS = 30.0
"""Seconds after which the same report is repeated."""
NAMED = 5
"""Components that one line names."""


class PendingScores:
    """Reports what is waited for; once for the same things, and again after a while."""

    def __init__(self, run_output: RunOutput, store: StoreLocation) -> None:
        self._run_output, self._store = run_output, store
        self._said: tuple[str, ...] | None = None
        self._said_at = 0.0

    def anew(self) -> None:
        """Allow the same report again at once: the last act is done."""
        self._said = None

    async def keep_saying(self) -> None:
        """For ever. A store that is not there yet, or cannot be read, is no matter here."""
        while True:
            await asyncio.sleep(max(LOOK_SECONDS, self._run_output.cycle_told + QUIET_SECONDS - time.monotonic()))
            if time.monotonic() - self._run_output.cycle_told >= QUIET_SECONDS:
                self._say(await asyncio.to_thread(_look, self._store))

    def _say(self, found: PendingActs | None) -> None:
        now = time.monotonic()
        if found is None or (found.parts == self._said and now < self._said_at + AGAIN_SECONDS):
            return
        self._said, self._said_at = found.parts, now
        self._run_output.warn(sentence(found))


def sentence(found: PendingActs) -> str:
    """`waiting for tone, kind: 12 acts unscored`.

    >>> from conch.experience import PendingActs
    >>> sentence(PendingActs(1, ("tone",)))
    'waiting for tone: 1 act unscored'
    """
    more = f" and {len(found.parts) - NAMED} more" if len(found.parts) > NAMED else ""
    what = ", ".join(found.parts[:NAMED]) or "a weight set"
    acts = "1 act" if found.acts == 1 else f"{found.acts} acts"
    return safe_text(f"waiting for {what}{more}: {acts} unscored", one_line=True)


def _look(store: StoreLocation) -> PendingActs | None:
    try:
        with store.reader() as reader:
            found = reader.cycles.awaited(datetime.now(UTC) - timedelta(seconds=QUIET_SECONDS))
            # The newest acts are unscored too, and wait for more than they will in a moment.
            return replace(found, acts=max(found.acts, reader.cycles.pending())) if found.acts else None
    except StoreError:
        return None
