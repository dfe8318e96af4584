"""Pipes whose ends are closed once, whatever happens."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class Pipe:
    """A pipe that a program writes to and we read without waiting."""

    read: int
    write: int

    def close_write(self) -> None:
        """Leave the writing end to the program. Twice is once."""
        if self.write >= 0:
            os.close(self.write)
            self.write = -1


@contextlib.contextmanager
def pipe() -> Iterator[Pipe]:
    """A pipe, closed afterwards."""
    made = Pipe(*os.pipe())
    os.set_blocking(made.read, False)
    try:
        yield made
    finally:
        made.close_write()
        os.close(made.read)


@contextlib.contextmanager
def text(content: bytes) -> Iterator[int]:
    """A descriptor that a program reads `content` from: less than a pipe holds (4 KiB at least)."""
    read, write = os.pipe()
    os.write(write, content)
    os.close(write)
    try:
        yield read
    finally:
        os.close(read)
