"""The agent's long memory in its cycle: what it heard is written in batches, what fits is recalled before it thinks."""

from __future__ import annotations

import time
from collections import deque
from math import ceil
from typing import Final

from conch.config import MemorySettings
from conch.errors import StoreError
from conch.log import get_logger
from conch.memory import COMPARED, REMEMBERED_KINDS, Consolidation, LongTermMemory, Memory, RecalledMemory, memories_of
from conch.minds import RecentOutcome, Situation
from conch_schemas import Event

log = get_logger(__name__)

BATCH: Final = 32
"""Memories that are written in one transaction, where no checkpoint is written before: some 20 cycles."""
MOST_PENDING: Final = 1_000
"""Memories that wait for a file that cannot be written, the newest ones."""
CUE_MESSAGE, CUE_GOAL, CUE_ACT = 200, 120, 160
"""Characters of a message, of a goal's statement and of the last act in a cue."""
CUE_GOALS: Final = 3
"""Goals in a cue, the first ones."""


class MemoryKeeper:
    """One agent's long memory. A file that cannot be used costs memories, never a cycle: its error is logged once.

    Events are heard at least once; as ids are derived, twice is once. `flush` is to be called before the agent's
    checkpoint is written, so that no event behind it is missing.
    """

    def __init__(self, store: LongTermMemory, settings: MemorySettings) -> None:
        self._store, self._settings = store, settings
        self._pending: deque[Memory] = deque(maxlen=MOST_PENDING)
        self._recalled: tuple[int, tuple[RecalledMemory, ...]] = (-1, ())
        self._failed = False
        self._is_compared = False
        """Whether every memory in the file was compared with the older ones."""

    def hear(self, event: Event) -> None:
        """Take the memories of an event."""
        if isinstance(event, REMEMBERED_KINDS):
            self._pending.extend(memories_of(event))
            if len(self._pending) >= BATCH and not self._failed:
                self.flush()

    def flush(self) -> None:
        """Write what was heard. Where that fails it is kept, and tried again the next time."""
        if not self._pending:
            return
        try:
            self._store.add(self._pending)
        except StoreError as error:
            self._report(error)
        else:
            self._pending.clear()
            self._failed = self._is_compared = False

    def recall(self, situation: Situation) -> tuple[RecalledMemory, ...]:
        """The memories that fit the situation, the same ones for each question of a cycle.

        Left out are those of the acts that stand in the situation, and the message that it has.
        """
        if not self._settings.recalled:
            return ()
        if self._recalled[0] != situation.cycle:
            self.flush()
            self._recalled = (situation.cycle, self._found(situation))
        return self._recalled[1]

    def consolidate(self, cycle: int) -> Consolidation | None:
        """What the consolidation of this cycle did; None: none is due, or it had nothing to do.

        The comparisons are shared out evenly over the cycles from one consolidation to the next: one takes some
        milliseconds, and all at once would hold up every agent of the process.
        """
        if not (every := self._settings.consolidate_every):
            return None
        share = ceil(COMPARED / every)
        try:
            if (cycle + 1) % every:
                self._compare(share)
                return None
            self.flush()
            found = self._store.consolidate(cycle, share)
        except StoreError as error:
            self._report(error)
            return None
        return found if found.has_changed else None

    def _compare(self, share: int) -> None:
        """Compare memories ahead of the consolidation. Raises StoreError."""
        if not self._is_compared and not self._failed:
            self._is_compared = self._store.compare(share) < share

    def close(self) -> None:
        """Write what is left and close the file. A second call does nothing."""
        self.flush()
        self._store.close()

    def _found(self, situation: Situation) -> tuple[RecalledMemory, ...]:
        shown = situation.recent[0].cycle if situation.recent else situation.cycle
        known = (situation.message,) if situation.message is not None else ()
        try:
            return self._store.recall(
                cue_of(situation), self._settings.recalled, now=time.time(), before=shown, leave_out=known
            )
        except StoreError as error:
            self._report(error)
            return ()

    def _report(self, error: StoreError) -> None:
        if not self._failed:
            log.warning("memory.not_used", why=str(error), waiting=len(self._pending))
        self._failed = True


def cue_of(situation: Situation) -> str:
    """The words that memories are looked up by: of the message that waits, the goals and the last act."""
    parts = [situation.message[:CUE_MESSAGE]] if situation.message is not None else []
    parts += [goal.statement[:CUE_GOAL] for goal in situation.goals[:CUE_GOALS]]
    if situation.recent:
        parts.append(_words(situation.recent[-1])[:CUE_ACT])
    return " ".join(parts)


def _words(act: RecentOutcome) -> str:
    """What the act was about: its arguments, then its error."""
    values = [value for value in act.action.args.values() if isinstance(value, str)]
    return " ".join((act.action.tool or "", *(value[:CUE_ACT] for value in values), act.error))
