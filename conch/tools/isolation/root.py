"""The root of a workspace around a program: its mode, owner, attributes and flags are afterwards what they were."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602
"""FS_IOC_GETFLAGS and FS_IOC_SETFLAGS of Linux: what `lsattr` shows, such as immutable."""


class WorkspaceRoot:
    """The root as it was before a program; `close` it."""

    def __init__(self, workspace: Path) -> None:
        """Raises OSError where it is no directory, or cannot be reached."""
        self._path = workspace
        # A handle without a right to read: the root may have none.
        self._handle = os.open(workspace, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
        self._place: str | int = f"/proc/self/fd/{self._handle}" if sys.platform == "linux" else self._handle
        self._before = os.fstat(self._handle)
        self._attributes = self._read_attributes()
        self._flags = self._read_flags()

    def close(self) -> None:
        """Let go of it."""
        os.close(self._handle)

    def restore(self) -> None:
        """Give it what it had. A root without any right of its owner, which a program left that was killed, gets those
        rights. What the system refuses stays as it is."""
        if self._flags is not None and self._read_flags() != self._flags:
            self._write_flags(self._flags)
        now, before = os.fstat(self._handle), self._before
        if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
            with contextlib.suppress(OSError):
                os.chown(self._place, before.st_uid, before.st_gid)
        self._restore_attributes()
        self._restore_mode(self._place)  # last: an access control list is a part of the mode

    def is_replaced(self) -> bool:
        """Whether another directory, a link or nothing is in its place now. A directory there gets its mode."""
        try:
            now = os.stat(self._path, follow_symlinks=False)
        except OSError:
            return True
        if os.path.samestat(now, self._before):
            return False
        if stat.S_ISDIR(now.st_mode):
            self._restore_mode(str(self._path))
        return True

    def _restore_mode(self, place: str | int) -> None:
        mode = stat.S_IMODE(self._before.st_mode)
        with contextlib.suppress(OSError):
            if stat.S_IMODE(os.stat(place).st_mode) != mode or not mode & 0o700:
                os.chmod(place, mode if mode & 0o700 else mode | 0o700)

    def _read_attributes(self) -> dict[str, bytes]:
        """The extended attributes that may be read; access control lists are among them."""
        found = {}
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                for name in os.listxattr(self._place):
                    with contextlib.suppress(OSError):
                        found[name] = os.getxattr(self._place, name)
        return found

    def _restore_attributes(self) -> None:
        now = self._read_attributes()
        if now == self._attributes or sys.platform != "linux":
            return
        for name in now.keys() - self._attributes.keys():
            with contextlib.suppress(OSError):
                os.removexattr(self._place, name)
        for name, value in self._attributes.items():
            if now.get(name) != value:
                with contextlib.suppress(OSError):
                    os.setxattr(self._place, name, value)

    def _read_flags(self) -> int | None:
        """None where the file system has none, or the root cannot be read."""
        with self._opened() as handle, contextlib.suppress(OSError):
            if handle is not None:
                return int(struct.unpack("l", fcntl.ioctl(handle, _GET_FLAGS, bytes(8)))[0]) & 0xFFFFFFFF
        return None

    def _write_flags(self, flags: int) -> None:
        with self._opened() as handle, contextlib.suppress(OSError):
            if handle is not None:
                fcntl.ioctl(handle, _SET_FLAGS, struct.pack("l", flags))

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int | None]:
        """A handle that can be read; None: there is none."""
        handle = None
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                handle = os.open(str(self._place), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield handle
        finally:
            if handle is not None:
                os.close(handle)
