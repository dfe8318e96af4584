"""The schedule of the store's pruning and its report; also the check of the disk's usage."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from conch.config import Settings
from conch.disk import DiskWatch, disk_use
from conch.experience import ExperienceStore, RetentionLimits
from conch.log import get_logger

log = get_logger(__name__)

ROUND_SECONDS = 10.0
"""Time between two looks for what is beyond the bounds."""
BUSY_SECONDS = 0.25
"""Longest time that joining delays a step of pruning: a step takes some 20 ms, so joining loses a tenth at most."""
IDLE_SECONDS = 0.02
"""Time for an event to come before an idle store takes the next step."""
DISK_SECONDS = 60.0
"""Time between two looks at the disk."""


def retention(settings: Settings) -> RetentionLimits | None:
    """The limits of `store.keep`; None: everything is kept."""
    keep = settings.store.keep
    if keep.days is None and keep.gib is None:
        return None
    return RetentionLimits(
        seconds=None if keep.days is None else keep.days * 86_400.0,
        bytes=None if keep.gib is None else int(keep.gib * 2**30),
        grace=settings.rewards.longest_deadline,
    )


class PruningSchedule:
    """Rounds of pruning, one step at a time, between joins."""

    def __init__(self, settings: Settings, home: Path) -> None:
        self._keep, self._home = retention(settings), home
        self._disk = DiskWatch()
        self._disk_due = self._due = 0.0
        self._stepped = 0.0
        self._acts = self._marks = 0
        self._late: int | None = None

    def patience(self) -> float:
        """Seconds until there is something to do."""
        due = self._disk_due if self._keep is None else min(self._due, self._disk_due)
        return max(IDLE_SECONDS, due - time.monotonic())

    def is_due(self, *, idle: bool) -> bool:
        """Whether `step` has something to do now: while facts wait, only where it has waited long."""
        now = time.monotonic()
        if now >= self._disk_due:
            return True
        return self._keep is not None and now >= self._due and (idle or now - self._stepped >= BUSY_SECONDS)

    def step(self, store: ExperienceStore) -> None:
        """Look at the disk where that is due, and remove some of what is beyond the bounds. Raises StoreError."""
        self._stepped = time.monotonic()
        if self._stepped >= self._disk_due:
            self._disk_due = self._stepped + DISK_SECONDS
            self._look_at_disk()
        if self._keep is None or self._stepped < self._due:
            return
        pruned = store.prune(self._keep, datetime.now(UTC))
        for agent in sorted(pruned.unverified):
            why = "the marks that were due do not verify and stay: conch mark verify says what is wrong"
            log.error("store.marks_kept", agent_id=agent, why=why)
        self._acts += pruned.acts
        self._marks += pruned.marks
        if not pruned.acts:
            self._due = time.monotonic() + ROUND_SECONDS
            self._say(store)

    def _say(self, store: ExperienceStore) -> None:
        """Report what a round removed, and the events that came for acts that were removed before."""
        if self._acts:
            log.info("store.pruned", acts=self._acts, marks=self._marks, bytes=store.retention.bytes_used())
            self._acts = self._marks = 0
        late = store.retention.came_late()
        if self._late is not None and late > self._late:
            log.warning("store.came_late", facts=late - self._late, why="they came for acts that store.keep removed")
        self._late = late

    def _look_at_disk(self) -> None:
        try:
            use = disk_use(self._home)
        except OSError as error:
            log.warning("disk.unknown", error=str(error))
            return
        if self._disk.crossed(use.share):
            log.warning("disk.filling", share=round(use.share, 3), free=use.free, why=use.warning)
