"""Disk usage of a home, and the warning when the disk fills up."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

FULL_SHARE = 0.80
"""Share of the disk in use from which a warning is given."""
CALM_SHARE = 0.75
"""Share below which the warning is armed again."""


@dataclass(frozen=True)
class DiskUse:
    """Usage of a disk, as `df` shows it."""

    path: str
    """The path that was examined."""
    used: int
    """Bytes in use."""
    free: int
    """Bytes that can still be written."""

    @property
    def share(self) -> float:
        """Share in use, 0..1: used ÷ (used + free)."""
        return self.used / max(1, self.used + self.free)

    @property
    def warning(self) -> str:
        """The problem and what to do; empty while there is room."""
        if self.share < FULL_SHARE:
            return ""
        return (
            f"the disk of {self.path} is {self.share:.0%} full, {self.free / 2**30:.1f} GiB are free: "
            "bound what is kept (store.keep.days, store.keep.gib, bus.keep.days, bus.keep.gib), or make room"
        )


class DiskWatch:
    """Hysteresis for the warning: one each time the disk fills up."""

    def __init__(self) -> None:
        self._warned = False

    def crossed(self, share: float) -> bool:
        """Whether to warn: this share is the first at FULL_SHARE since one below CALM_SHARE."""
        if share < CALM_SHARE:
            self._warned = False
        crossed = share >= FULL_SHARE and not self._warned
        self._warned = self._warned or crossed
        return crossed


def disk_left(path: Path) -> dict[str, float]:
    """The share of the disk that is left, 0..1, as `disk`; empty where it cannot be read."""
    try:
        return {"disk": 1 - disk_use(path).share}
    except OSError:
        return {}


def disk_use(path: Path) -> DiskUse:
    """Usage of the file system that `path` is on, or will be. Raises OSError."""
    there = path
    while not there.exists() and there != there.parent:
        there = there.parent
    usage = shutil.disk_usage(there)
    return DiskUse(str(there), usage.used, usage.free)
