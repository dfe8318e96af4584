"""Looks for changed files of a workspace while its agent sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from conch.cycle.effects.scan import FileStamp, scan, shown_path

LOOK_SECONDS = 1.0
"""Seconds from one look to the next, at least."""
LEAST_REST = 100
"""A look is followed by a rest of so many times as long as it took: a large workspace costs 1 % of a processor."""
SMALL = 500
"""Files of a workspace that is looked at in the event loop: 2 ms at most, a thread takes 0.1 ms."""


class WorkspaceWatch:
    """The entries of a workspace as they were when its agent began its last cycle, and those that differ now."""

    def __init__(self, workspace: Path, clock: Callable[[], float]) -> None:
        self._workspace, self._clock = workspace, clock
        self._entries: Mapping[str, FileStamp] | None = None
        self._early: list[str] = []
        """Paths that had changed before `begin`."""
        self._due = 0.0
        self.rest = LOOK_SECONDS
        """Seconds until the next look."""

    async def begin(self, since: int) -> None:
        """Take the workspace as it is for unchanged, but for what changed from `since` on (nanoseconds since the epoch,
        by the system's clock). What was deleted between the two is not seen."""
        self._entries = await self._look()
        self._early = sorted(shown_path(path) for path, stamp in self._entries.items() if stamp.changed >= since)

    async def changed(self) -> list[str]:
        """The paths that differ since `begin`, or had changed before it, sorted; none more before the next look is
        due."""
        if self._entries is None or self._clock() < self._due:
            return self._early
        found, before = await self._look(), self._entries
        paths = found.keys() | before.keys()
        changed = {shown_path(path) for path in paths if found.get(path) != before.get(path)}
        return sorted(changed.union(self._early))

    async def _look(self) -> Mapping[str, FileStamp]:
        began = self._clock()
        if self._entries is not None and len(self._entries) <= SMALL:
            found = scan(self._workspace)
        else:
            found = await asyncio.to_thread(scan, self._workspace)
        self.rest = max(LOOK_SECONDS, LEAST_REST * (self._clock() - began))
        self._due = self._clock() + self.rest
        return found.entries
