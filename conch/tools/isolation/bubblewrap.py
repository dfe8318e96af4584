"""Options for bubblewrap: mounts, namespaces, and the seccomp filter of forbidden system calls."""

from __future__ import annotations

import errno
import os
import platform
import struct
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

INSIDE = "/workspace"
"""Path of the workspace inside the sandbox."""

USERS = "agent:x:1000:1000:agent:/workspace:/bin/sh\nroot:x:0:0:root:/:/bin/false\n"
"""passwd file of the sandbox: the machine's user names are not visible in it."""

IDENTITY = {"NAME": "Conch agent", "EMAIL": "agent@conch.invalid"}
"""Author and committer of git commits."""

GITCONFIG = f"[user]\n\tname = {IDENTITY['NAME']}\n\temail = {IDENTITY['EMAIL']}\n"
"""git's settings in the sandbox, overridden by the repository's, which a program cannot change."""

_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime")
_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


def search_path() -> str:
    """PATH in the sandbox: the programs of this Python, then the system's."""
    own = _python()
    return ":".join([str(own / "bin"), *_PATH] if own else _PATH)


def arguments(
    workspace: Path,
    environment: Mapping[str, str],
    *,
    mounts: Sequence[str],
    tmp_bytes: int,
    passwd: int,
    gitconfig: int,
    status: int,
    seccomp: int | None,
) -> list[str]:
    """The options of bubblewrap, up to the program.

    `mounts` are options for mounts over the workspace. `passwd`, `gitconfig` and `seccomp` are descriptors that
    bubblewrap reads, `status` is one that it writes JSON lines to. Needs bubblewrap 0.8. Later mounts hide earlier
    ones, so the order counts. The root and /dev are memory without a limit until they are made read-only; so is /proc,
    because where we are root the files of /proc/sys belong to the program, under any apparent user and without any
    capability. No --new-session: the caller starts bubblewrap in a session of its own, without a terminal, and as the
    sandbox stays in that process group, killing the group reaches its first process at every moment (--die-with-parent
    takes effect too late for a kill during the start).
    """
    alone = "--unshare-all --unshare-user --disable-userns --die-with-parent --hostname sandbox"
    found = [*alone.split(), "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL", *_system(), *_python_binds()]
    found += ["--ro-bind-data", str(passwd), "/etc/passwd", "--ro-bind-data", str(gitconfig), "/etc/gitconfig"]
    found += ["--proc", "/proc", "--dev", "/dev"]
    for scratch in ("/dev/shm", "/tmp"):  # noqa: S108
        found += ["--perms", "1777", "--size", str(tmp_bytes), "--tmpfs", scratch]
    found += ["--bind", str(workspace), INSIDE, *mounts, "--chdir", INSIDE, *_read_only("/proc", "/dev", "/")]
    found += ["--clearenv", *(word for name, value in environment.items() for word in ("--setenv", name, value))]
    found += ["--json-status-fd", str(status)]
    return [*found, "--seccomp", str(seccomp)] if seccomp is not None else found


def _read_only(*paths: str) -> list[str]:
    return [word for path in paths for word in ("--remount-ro", path)]


def _system() -> list[str]:
    found = ["--ro-bind", "/usr", "/usr"]
    for path in _SYSTEM:
        if os.path.islink(path):
            found += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            found += ["--ro-bind", path, path]
    return found + [word for path in _ETC for word in ("--ro-bind-try", path, path)]


@cache
def _python() -> Path | None:
    """Prefix of this Python; None where the system's directories contain it, or other users may not read it."""
    prefix = Path(sys.base_prefix)
    inside = any(prefix.is_relative_to(path) for path in ("/usr", *_SYSTEM))
    return None if inside or not os.access(prefix / "bin", os.R_OK | os.X_OK) else prefix


def _python_binds() -> list[str]:
    """Mounts of its programs and libraries alone: the prefix may be ~/.local, with all of the user's files in it."""
    own = _python()
    parts = [own / name for name in ("bin", "lib", "lib64", "include")] if own else []
    return [word for part in parts if part.is_dir() for word in ("--ro-bind", str(part), str(part))]


_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_REFUSED = {
    # Memory that belongs to no process and no mount, so that no limit counts it.
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "semget": (64, 190),
    # The user's keyrings, which no namespace hides.
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # Parts of the kernel that nothing here needs and that have been used for escapes before.
    "bpf": (321, 280),
    "io_uring_setup": (425, 425),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    # Its arguments are in memory, where no filter sees the mode that it sets. Programs fall back to openat.
    "openat2": (437, 437),
}
"""System calls that fail with ENOSYS, by number on x86_64 and on aarch64."""

_SET_USER = {
    "chmod": (90, None, 1),
    "fchmod": (91, 52, 1),
    "fchmodat": (268, 53, 2),
    "fchmodat2": (452, 452, 2),
    "creat": (85, None, 1),
    "open": (2, None, 2),
    "openat": (257, 56, 3),
    "mknod": (133, None, 1),
    "mknodat": (259, 33, 2),
}
"""System calls that fail with EPERM for a mode with set-user-id or set-group-id, and the index of the mode argument:
such a file in root's workspace would give every user of the machine root's rights."""

_SOCKET = (41, 198)
_FAMILIES = (1, 2, 10, 16)
"""Allowed socket families: unix, IPv4, IPv6, netlink. A network namespace does not confine all families: by vsock a
program in a virtual machine reaches its host."""

_LARGER = {
    # At level SOL_SOCKET: SO_SNDBUF, SO_RCVBUF, and both with FORCE.
    "setsockopt": (54, 208, 2, (7, 8, 32, 33), 1),
    # F_SETPIPE_SZ.
    "fcntl": (72, 25, 1, (1031,), None),
}
"""System calls that fail with EPERM for an argument (its index, its values, and what the one before it must be) that
enlarges the kernel's own buffers: they count as memory of no process. The default buffers of sockets and pipes are
bounded by the number of those."""

_LOAD, _EQUAL, _AT_LEAST, _SHARES, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENTS = 0, 4, 16
_OTHER_CONVENTION = 0x40000000
"""Numbers from here are x32's: the same calls under other numbers."""


@cache
def seccomp_filter() -> bytes | None:
    """A seccomp BPF program that refuses the calls above; None for a processor with unknown call numbers.

    Each line is an operation, the number of lines to skip if it holds and if it does not, and a value.
    """
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        return None
    column = list(_ARCHITECTURES).index(machine)
    absent, denied = (_RETURN, 0, 0, _FAIL | errno.ENOSYS), (_RETURN, 0, 0, _FAIL | errno.EPERM)
    program = [(_LOAD, 0, 0, _AT_ARCHITECTURE), (_EQUAL, 1, 0, _ARCHITECTURES[machine]), absent]
    program += [(_LOAD, 0, 0, _AT_NUMBER), (_AT_LEAST, 0, 1, _OTHER_CONVENTION), absent]
    for numbers in _REFUSED.values():
        program += [(_EQUAL, 0, 1, numbers[column]), absent]
    allowed, strange = (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _FAIL | errno.EAFNOSUPPORT)
    kinds = [(_EQUAL, len(_FAMILIES) - place, 0, family) for place, family in enumerate(_FAMILIES)]
    family = (_LOAD, 0, 0, _AT_ARGUMENTS)
    program += [(_EQUAL, 0, len(kinds) + 3, _SOCKET[column]), family, *kinds, strange, allowed]
    for x86_64, aarch64, argument in _SET_USER.values():
        number = (x86_64, aarch64)[column]
        if number is not None:
            mode = (_LOAD, 0, 0, _AT_ARGUMENTS + 8 * argument)
            program += [(_EQUAL, 0, 4, number), mode, (_SHARES, 0, 1, 0o6000), denied, allowed]
    for x86_64, aarch64, argument, values, level in _LARGER.values():
        body = [(_LOAD, 0, 0, _AT_ARGUMENTS + 8 * argument)]
        body += [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
        if level is not None:
            body = [(_LOAD, 0, 0, _AT_ARGUMENTS + 8 * (argument - 1)), (_EQUAL, 0, len(body), level), *body]
        program += [(_EQUAL, 0, len(body) + 2, (x86_64, aarch64)[column]), *body, allowed, denied]
    return b"".join(struct.pack("HBBI", *line) for line in [*program, allowed])
