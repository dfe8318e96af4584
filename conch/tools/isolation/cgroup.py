"""Control groups that limit a program's tasks and memory in the kernel, where this process may create them."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TASKS_PER_PROCESS = 4
"""The kernel counts threads too, so its limit is only a backstop for the limit on processes."""

_MOUNT = Path("/sys/fs/cgroup")
_NUMBERS = itertools.count()


@dataclass(frozen=True)
class ControlGroup:
    """Control groups of one program and everything it starts: version 1 has one for tasks and one for memory."""

    tasks: Path | None
    memory: Path | None

    @property
    def doors(self) -> tuple[Path, ...]:
        """The files to which a process writes its id to join."""
        return tuple(path / "cgroup.procs" for path in dict.fromkeys((self.tasks, self.memory)) if path)

    def members(self) -> frozenset[int] | None:
        """Ids of its processes; None without a group that holds them."""
        return frozenset(int(line) for line in self.doors[0].read_text().split()) if self.doors else None

    def refused(self) -> bool:
        """Whether the kernel has denied it a new task."""
        return self.tasks is not None and _counted(self.tasks / "pids.events", "max") > 0

    def starved(self) -> bool:
        """Whether the kernel has killed one of its processes for lack of memory."""
        if self.memory is None:
            return False
        events = self.memory / "memory.events"
        return _counted(events if events.exists() else self.memory / "memory.oom_control", "oom_kill") > 0


def bases(controller: str) -> tuple[Path, ...]:
    """Possible parents of a group: this process's own group, or (version 2 allows no processes there) its parent."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return ()
    found: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            found.insert(0, _MOUNT / controller / path.lstrip("/"))
        elif not controllers:
            own = _MOUNT / path.lstrip("/")
            found += [own, own.parent] if own != _MOUNT else [own]
    return tuple(found)


@contextlib.contextmanager
def group(processes: int, memory_bytes: int) -> Iterator[ControlGroup]:
    """Groups for a program with so many processes and so much memory, including the kernel's memory for it.

    Removed on leaving; those that cannot be made are None. Empty groups that a killed run left are removed too.
    """
    name = f"conch-{os.getpid()}-{next(_NUMBERS)}"
    tasks = _make("pids", name, {"pids.max": TASKS_PER_PROCESS * processes})
    limits = ({"memory.max": memory_bytes}, {"memory.limit_in_bytes": memory_bytes})
    memory = next((made for limit in limits if (made := _make("memory", name, limit))), None)
    try:
        yield ControlGroup(tasks, memory)
    finally:
        for path in {tasks, memory} - {None}:
            assert path is not None
            _remove(path)


def _make(controller: str, name: str, limits: dict[str, int]) -> Path | None:
    for base in bases(controller):
        path = base / name
        try:
            path.mkdir(exist_ok=True)  # the one for tasks may be the one for memory
            for limit, value in limits.items():
                if not (path / limit).exists():
                    raise FileNotFoundError(limit)
                (path / limit).write_text(str(value))
        except OSError:
            _remove(path)
            continue
        for old in base.glob("conch-*"):
            if not Path("/proc", old.name.split("-")[1]).exists() and _age(old) > 60:
                _remove(old)
        return path
    return None


def _counted(file: Path, word: str) -> int:
    words = file.read_text().split()
    return int(words[words.index(word) + 1]) if word in words else 0


def _age(path: Path) -> float:
    """Seconds since the group was made; 0 where it is gone."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.rmdir()
