"""Reads the kernel's own small files: of processes and of control groups."""

from __future__ import annotations

import os
from pathlib import Path

READ_BYTES = 65536
"""Bytes asked for at once: most of these files have less."""


def read_kernel(path: str | Path) -> bytes:
    """The content of a file of /proc or /sys. Raises OSError.

    `Path.read_text` takes several times as long, and these files are read every few milliseconds while a program runs.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = some = os.read(descriptor, READ_BYTES)
        while some:
            some = os.read(descriptor, READ_BYTES)
            found += some
        return found
    finally:
        os.close(descriptor)
