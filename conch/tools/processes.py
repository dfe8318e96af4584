"""Who came from a process, and how much memory they take: what no limit of the kernel counts for root."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

_MEMORY = re.compile(rb"^Rss(?:Anon|Shmem):\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True)
class Family:
    """A process, its descendants, and those of its session whose parents are gone."""

    members: frozenset[int]

    @classmethod
    def of(cls, root: int, proc: Path = Path("/proc")) -> Family:
        """The family of `root` now; empty where the system has no /proc."""
        ppid: dict[int, int] = {}
        members = set()
        for pid in _pids(proc):
            if (stat := _read(proc / str(pid) / "stat")) is not None:
                ppid[pid], session = _parent_and_session(stat)
                if session == root or pid == root:
                    members.add(pid)
        for pid in ppid:
            line = []
            while pid in ppid and pid not in members:
                line.append(pid)
                pid = ppid[pid]
            if pid in members:
                members.update(line)
            else:
                ppid.update(dict.fromkeys(line, 0))
        return cls(frozenset(members))


def memory_of(members: frozenset[int], proc: Path = Path("/proc")) -> int:
    """Bytes that the processes hold, files of the disk aside; pages that they share count for each."""
    texts = (_read(proc / str(pid) / "status") or b"" for pid in members)
    return sum(int(kib) * 1024 for text in texts for kib in _MEMORY.findall(text))


def _pids(proc: Path) -> list[int]:
    try:
        return [int(name) for name in os.listdir(proc) if name.isdecimal()]
    except FileNotFoundError:
        return []


def _parent_and_session(stat: bytes) -> tuple[int, int]:
    # The program's name comes in parentheses and may hold any character, parentheses too.
    _, ppid, _, session = stat[stat.rindex(b")") + 2 :].split(None, 4)[:4]
    return int(ppid), int(session)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
