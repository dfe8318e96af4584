"""Who came from a process, and how much memory they take: what no limit of the kernel counts for root."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

SOCKET_BYTES = 256 * 1024
"""What a socket holds at most by itself, with what the kernel adds."""

NAME_BYTES = 1024
"""What a file takes in memory beside its content."""

SCRATCH = ("tmp", "dev/shm")
"""File systems in memory that a sandbox has of its own."""

_MEMORY = re.compile(rb"^Rss(?:Anon|Shmem):\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True)
class ProcessFamily:
    """A process, its descendants, and those of its session whose parents are gone.

    Not by psutil, which tells no session and takes twice as long; it is read again and again while a tool runs, and its
    `memory_info` leaves out files in memory.
    """

    members: frozenset[int]

    @classmethod
    def of(cls, root: int, proc: Path = Path("/proc")) -> ProcessFamily:
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


def kernel_memory_of(members: frozenset[int]) -> int:
    """Bytes that the kernel keeps at most for the sockets and the files in memory of processes in a sandbox.

    0 for processes of our own network: what is there is not theirs alone.
    """
    for pid in sorted(members):
        own = Path("/proc", str(pid))
        with contextlib.suppress(OSError, IndexError, ValueError):
            if os.readlink(own / "ns/net") == os.readlink("/proc/self/ns/net"):
                continue
            sockets = int((own / "net/sockstat").read_text().split()[2])
            return (
                sockets * SOCKET_BYTES
                + sum(_names(own / "root" / path, Path("/", path)) for path in SCRATCH) * NAME_BYTES
            )
    return 0


def _names(directory: Path, ours: Path) -> int:
    """Files and directories in a file system; 0 for ours, which a program has until its sandbox is made."""
    if directory.stat().st_dev == ours.stat().st_dev:
        return 0
    found = os.statvfs(directory)
    return found.f_files - found.f_ffree


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
