"""Pipes as context managers: both ends are closed exactly once, also on errors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class Pipe:
    """A pipe that a program writes to and this process reads without blocking."""

    read: int
    write: int

    def close_write(self) -> None:
        """Close the write end here, leaving the program's copy. A second call does nothing."""
        if self.write >= 0:
            os.close(self.write)
            self.write = -1


@contextlib.contextmanager
def pipe() -> Iterator[Pipe]:
    """A pipe, closed on leaving."""
    made = Pipe(*os.pipe())
    os.set_blocking(made.read, False)
    try:
        yield made
    finally:
        made.close_write()
        os.close(made.read)


@contextlib.contextmanager
def text(content: bytes) -> Iterator[int]:
    """A descriptor from which a program reads `content`: less than a pipe holds (4 KiB at least)."""
    read, write = os.pipe()
    os.write(write, content)
    os.close(write)
    try:
        yield read
    finally:
        os.close(read)
