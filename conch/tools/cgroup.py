"""A control group that bounds how many tasks a program has: the kernel's own limit, where this process may set one."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TASKS_PER_PROCESS = 4
"""The kernel counts threads too, so its limit is a backstop over the number of processes."""

_MOUNT = Path("/sys/fs/cgroup")
_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Group:
    """A control group of one program and everything it starts."""

    path: Path

    @property
    def door(self) -> Path:
        """The file that a process writes its id to in order to join."""
        return self.path / "cgroup.procs"

    def members(self) -> frozenset[int]:
        """Ids of its processes."""
        return frozenset(int(line) for line in self.door.read_text().split())

    def refused(self) -> bool:
        """Whether the kernel has refused it a task."""
        words = (self.path / "pids.events").read_text().split()
        return int(words[words.index("max") + 1]) > 0


def bases() -> tuple[Path, ...]:
    """Where groups might be made: beneath this process's own, or (version 2 allows no processes there) beside it."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return ()
    found: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "pids" in controllers.split(","):
            found.insert(0, _MOUNT / "pids" / path.lstrip("/"))
        elif not controllers:
            own = _MOUNT / path.lstrip("/")
            found += [own, own.parent] if own != _MOUNT else [own]
    return tuple(found)


@contextlib.contextmanager
def group(processes: int) -> Iterator[Group | None]:
    """A group for a program with so many processes, removed afterwards; None where none can be made.

    Empty groups that a killed run left behind are removed as well.
    """
    made = next((one for base in bases() if (one := _make(base, processes)) is not None), None)
    try:
        yield made
    finally:
        if made is not None:
            _remove(made.path)


def _make(base: Path, processes: int) -> Group | None:
    path = base / f"conch-{os.getpid()}-{next(_NUMBERS)}"
    try:
        path.mkdir()
    except OSError:
        return None
    try:
        (path / "pids.max").write_text(str(TASKS_PER_PROCESS * processes))
    except OSError:
        _remove(path)
        return None
    for old in base.glob("conch-*"):
        if not Path("/proc", old.name.split("-")[1]).exists() and _age(old) > 60:
            _remove(old)
    return Group(path)


def _age(path: Path) -> float:
    """Seconds since the group was made; 0 where it is gone already."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.rmdir()
