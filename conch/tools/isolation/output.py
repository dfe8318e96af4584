"""What a program writes: kept whole up to a limit; beyond it its beginning and end, and all of it in a file."""

from __future__ import annotations

from typing import Protocol

SHOWN_BYTES = 48 * 1024
"""Most bytes of a program's output that a result holds where the rest goes into a file: as text in JSON about what an
event has room for."""


class Overflow(Protocol):
    """Where an output goes that is too long to be shown whole."""

    most: int
    """Bytes that it may take."""
    size: int
    """Bytes that it has taken."""

    @property
    def name(self) -> str | None:
        """The path by which it is read; None: it is empty."""
        ...

    def write(self, data: bytes) -> None:
        """Take more of the output. Raises OSError where that fails."""
        ...


class ProgramOutput:
    """The output of one program. Without an overflow at most `most` bytes of it are kept."""

    def __init__(self, most: int, overflow: Overflow | None = None) -> None:
        self._most = most if overflow is None else min(most, SHOWN_BYTES)
        self._overflow = overflow
        self._content = bytearray()
        """All of it, or its beginning."""
        self._tail = bytearray()
        """Where it goes on in the overflow: the end, with up to twice what is shown of it."""
        self._failure = ""
        self._is_over = False

    @property
    def excess(self) -> str | None:
        """Why no more of it is taken, in words that follow “the program”; None: more may come."""
        if self._failure:
            return f"wrote more than could be kept ({self._failure})"
        if self._overflow is None:
            return f"wrote more than {self._most // 1024} KiB" if len(self._content) > self._most else None
        return f"wrote more than {self._overflow.most // 2**20} MiB" if self._is_over else None

    def add(self, some: bytes) -> None:
        """Take more of it."""
        if self._overflow is None or (len(self._content) + len(some) <= self._most and not self._overflow.size):
            self._content += some
            return
        if not self._overflow.size:
            whole = bytes(self._content) + some
            del self._content[self._most // 2 :]
            self._content += whole[len(self._content) : self._most // 2]
            self._tail += whole[self._most // 2 :]
            self._keep(whole)
        else:
            self._tail += some
            self._keep(some)
        if len(self._tail) > self._most:
            del self._tail[: len(self._tail) - self._most // 2]

    def _keep(self, data: bytes) -> None:
        assert self._overflow is not None
        room = self._overflow.most - self._overflow.size
        self._is_over = len(data) > room
        try:
            self._overflow.write(data[:room])
        except OSError as error:
            self._failure = error.strerror or type(error).__name__

    def text(self) -> str:
        """It as text: whole, or its beginning and end with the name of the file that has the rest."""
        if self._overflow is None or self._overflow.name is None:
            return bytes(self._content[: self._most]).decode(errors="replace")
        tail = bytes(self._tail[-(self._most // 2) :])
        left, size = self._overflow.size - len(self._content) - len(tail), self._overflow.size
        between = f"[… {left} bytes left out …]\n" if left > 0 else ""
        head, end = (part.decode(errors="replace") for part in (bytes(self._content), tail))
        return (
            f"{head}\n{between}{end}\n[{size} bytes in all are in {self._overflow.name}: read it with offset and "
            "lines, or grep it]"
        )
