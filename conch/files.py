"""Reads files that users name: regular files only, with a size limit."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_plain(file: Path) -> BinaryIO:
    """The file, opened for reading without blocking, for any kind of file.

    Raises OSError for anything but a regular file: a pipe would block, a device may have no end. /dev/null is empty.
    """
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
        if not stat.S_ISREG(found.st_mode) and not os.path.samestat(found, os.stat(os.devnull)):
            raise OSError(errno.EINVAL, "it is a pipe or a device, no plain file", str(file))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_plain(file: Path, most: int) -> bytes:
    """All of a regular file of at most `most` bytes. Raises OSError, also for a longer one."""
    with open_plain(file) as stream:
        found = stream.read(most + 1)
    if len(found) > most:
        raise OSError(errno.EFBIG, f"it is longer than {most // 2**20} MiB", str(file))
    return found
