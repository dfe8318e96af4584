"""Control groups that limit a program's tasks and memory in the kernel, where this process may create them."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conch.tools.isolation.kernel import read_kernel

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
        first = self.tasks or self.memory
        return frozenset(map(int, read_kernel(f"{first}/cgroup.procs").split())) if first else None

    def refused(self) -> bool:
        """Whether the kernel has denied it a new task."""
        return self.tasks is not None and _counted(read_kernel(f"{self.tasks}/pids.events"), b"max") > 0

    def starved(self) -> bool:
        """Whether the kernel has killed one of its processes for lack of memory."""
        if self.memory is None:
            return False
        try:
            events = read_kernel(f"{self.memory}/memory.events")
        except FileNotFoundError:
            events = read_kernel(f"{self.memory}/memory.oom_control")
        return _counted(events, b"oom_kill") > 0


def bases(controller: str) -> tuple[Path, ...]:
    """Possible parents of a group: this process's own group, or (version 2 allows no processes there) its parent."""
    try:
        lines = read_kernel("/proc/self/cgroup").splitlines()
    except OSError:
        return ()
    found: list[Path] = []
    for line in map(os.fsdecode, lines):
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
    tasks = _make("pids", name, ("pids.max",), TASKS_PER_PROCESS * processes)
    memory = _make("memory", name, ("memory.max", "memory.limit_in_bytes"), memory_bytes)
    try:
        yield ControlGroup(tasks, memory)
    finally:
        for path in {tasks, memory} - {None}:
            assert path is not None
            _remove(path)


def _make(controller: str, name: str, limits: tuple[str, ...], value: int) -> Path | None:
    """The group, with `value` in the first of `limits` that the kernel has there; None where it cannot be made."""
    for base in bases(controller):
        path = base / name
        try:
            with contextlib.suppress(FileExistsError):  # the one for tasks may be the one for memory
                os.mkdir(path)
            limit = next((f"{path}/{limit}" for limit in limits if os.path.exists(f"{path}/{limit}")), None)
            if limit is None:
                raise FileNotFoundError(limits[0])
            _write(limit, value)
        except OSError:
            _remove(path)
            continue
        with contextlib.suppress(OSError):
            for old in os.listdir(base):
                if old.startswith("conch-") and not _is_alive(old) and _age(base / old) > 60:
                    _remove(base / old)
        return path
    return None


def _write(file: str, value: int) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, b"%d" % value)
    finally:
        os.close(descriptor)


def _is_alive(name: str) -> bool:
    """Whether the process that made the group of this name is there."""
    return os.path.exists(f"/proc/{name.split('-')[1]}")


def _counted(events: bytes, word: bytes) -> int:
    words = events.split()
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
