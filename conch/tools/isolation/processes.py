"""Finds a process's descendants and measures their memory, for limits that the kernel does not apply to root."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from conch.tools.isolation.kernel import read_kernel

SOCKET_BYTES = 256 * 1024
"""Most bytes in the default buffers of a socket, with the kernel's own overhead."""

NAME_BYTES = 1024
"""Memory of a file beside its content, in bytes."""

SCRATCH = ("tmp", "dev/shm")
"""A sandbox's own file systems in memory."""

_MEMORY = re.compile(rb"^Rss(?:Anon|Shmem):\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True)
class ProcessFamily:
    """A process, its descendants, and the orphaned processes of its session.

    Not by psutil, which has no session ids and takes twice as long; this is read again and again while a tool runs, and
    psutil's `memory_info` leaves out files in memory.
    """

    members: frozenset[int]

    @classmethod
    def of(cls, root: int, proc: Path = Path("/proc")) -> ProcessFamily:
        """The present family of `root`; empty where the system has no /proc."""
        ppid: dict[int, int] = {}
        members = set()
        for pid in _pids(proc):
            if (stat := _read(f"{proc}/{pid}/stat")) is not None:
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
    """Bytes of memory of the processes, without files on disk; shared pages count for each process."""
    texts = (_read(f"{proc}/{pid}/status") or b"" for pid in members)
    return sum(int(kib) * 1024 for text in texts for kib in _MEMORY.findall(text))


def kernel_memory_of(members: frozenset[int]) -> int:
    """Upper bound of the kernel's memory for the sockets and the files in memory of processes in a sandbox, in bytes.

    0 for processes in our own network namespace: its sockets are not theirs alone.
    """
    for pid in sorted(members):
        own = f"/proc/{pid}"
        with contextlib.suppress(OSError, IndexError, ValueError):
            if os.readlink(f"{own}/ns/net") == os.readlink("/proc/self/ns/net"):
                continue
            sockets = int(read_kernel(f"{own}/net/sockstat").split()[2])
            return (
                sockets * SOCKET_BYTES + sum(_names(f"{own}/root/{path}", f"/{path}") for path in SCRATCH) * NAME_BYTES
            )
    return 0


def _names(directory: str, ours: str) -> int:
    """Files and directories in a file system; 0 for our own, which a program sees until its sandbox is made."""
    if os.stat(directory).st_dev == os.stat(ours).st_dev:
        return 0
    found = os.statvfs(directory)
    return found.f_files - found.f_ffree


def _pids(proc: Path) -> list[int]:
    try:
        return [int(name) for name in os.listdir(proc) if name.isdecimal()]
    except FileNotFoundError:
        return []


def _parent_and_session(stat: bytes) -> tuple[int, int]:
    # The program's name is in parentheses and may contain any character, parentheses too.
    _, ppid, _, session = stat[stat.rindex(b")") + 2 :].split(None, 4)[:4]
    return int(ppid), int(session)


def _read(path: str) -> bytes | None:
    try:
        return read_kernel(path)
    except OSError:
        return None
