"""A file with the number of cycles an agent has begun: the fallback where stream and store are lost."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from conch.log import get_logger

log = get_logger(__name__)

ON_DISK_EVERY = 500
"""Cycles between two fsyncs: a kill loses no count, a power cut may lose the later ones."""


class CycleCount:
    """The counter file. Written with each cycle, in place, so that it also works on a full disk; errors are logged."""

    def __init__(self, agent_dir: Path) -> None:
        self._file = agent_dir / "cycles"
        self._handle: int | None = None
        self._failed = False

    def begun(self, cycle: int) -> None:
        """Record that this cycle is on the stream."""
        try:
            if self._handle is None:
                self._handle = os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o600)
            os.pwrite(self._handle, b"%020d\n" % (cycle + 1), 0)
            if cycle % ON_DISK_EVERY == 0:
                os.fsync(self._handle)
        except OSError as error:
            if not self._failed:
                log.warning("agent.cycles_not_counted", file=str(self._file), error=str(error))
            self._failed = True

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def cycles_begun(agent_dir: Path) -> int | None:
    """The least number of cycles it has begun; None where that was never counted, or cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        return int((agent_dir / "cycles").read_text(encoding="utf-8"))
    return None
