"""What a read shows of a file: a small file as it is; of a larger one, or where it is asked for, numbered lines."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from conch.errors import ToolError

READ_BYTES = 32 * 1024
"""Most bytes of a file's text that one read shows: half of what an event holds of a result."""
LINE_BYTES = 2000
"""Most bytes of one line that a read with numbers shows."""
PIECE_BYTES = 64 * 1024
"""Bytes that are read at once of a line: a file of one line of 50 MB takes no more memory than that."""

_HEADER = re.compile(r"\[.+: (?:lines \d+ to \d+ of \d+|no lines), \d+ bytes[^\n]*\](?:\n|$)")
_NUMBER = re.compile(r"\d+\t")
_CLIPPED = re.compile(r"\[… \d+ bytes of this line left out …\]$")


@dataclass(frozen=True)
class _FileLine:
    """A line of a file."""

    begins: bytes
    """Its first LINE_BYTES, without the line end."""
    size: int
    """Its bytes without the line end."""
    is_crlf: bool
    """Whether it ends with a carriage return and a line feed."""

    def shown(self, number: int) -> str:
        """The line behind its number."""
        text = self.begins.decode(errors="replace")
        left = self.size - len(self.begins)
        return f"{number}\t{text}" + (f"[… {left} bytes of this line left out …]" if left > 0 else "")


def read_shown(file: BinaryIO, path: str, size: int, offset: int | None, lines: int | None) -> str:
    """The text of a file that a read shows; `size`: the file's bytes.

    Without `offset` and `lines`, a file of at most READ_BYTES is shown as it is. Else lines from `offset` on (from 1),
    at most `lines` of them and about READ_BYTES, each behind its number and a tab, below a line in brackets that names
    the file, the lines, their number in all and the file's size. Memory does not grow with the file.
    Raises ToolError for an offset below 1 or beyond the file's end, and for less than one line.
    """
    if offset is not None and offset < 1:
        raise ToolError(f"offset is {offset}, and lines are counted from 1")
    if lines is not None and lines < 1:
        raise ToolError(f"lines is {lines}: ask for one line or more")
    if offset is None and lines is None and size <= READ_BYTES:
        text = file.read(READ_BYTES + 1).decode(errors="replace")
        if _HEADER.match(text) is None:  # else nobody could tell it from numbered lines
            return text
        file.seek(0)
    return _numbered(file, path, size, offset or 1, lines)


def _numbered(file: BinaryIO, path: str, size: int, offset: int, lines: int | None) -> str:
    shown: list[str] = []
    count = _skipped(file, offset - 1)
    room, is_crlf = READ_BYTES, False
    for line in _lines(file):
        count += 1
        text = line.shown(count)
        room -= len(text.encode(errors="replace")) + 1
        if shown and room < 0:
            break
        shown.append(text)
        is_crlf = is_crlf or line.is_crlf
        if lines is not None and len(shown) >= lines:
            break
    count += _skipped(file)
    if offset > max(1, count):
        raise ToolError(f"{path} has {count} lines: there is no line {offset}")
    last = offset + len(shown) - 1
    which = f"lines {offset} to {last} of {count}" if shown else "no lines"
    more = f"; it goes on at offset={last + 1}" if last < count else ""
    ends = "; its lines end with CR LF" if is_crlf else ""
    return "\n".join([f"[{path}: {which}, {size} bytes{ends}{more}]", *shown])


def _skipped(file: BinaryIO, most: int | None = None) -> int:
    """Go on behind so many lines, or to the file's end where it has fewer, or without `most`: how many lines these
    are. A file of 50 MB takes a tenth of a second."""
    count, ends = 0, True
    while (most is None or count < most) and (piece := file.read(PIECE_BYTES)):
        there = piece.count(b"\n")
        if most is not None and count + there >= most:
            end = 0
            for _ in range(most - count):
                end = piece.index(b"\n", end) + 1
            file.seek(end - len(piece), os.SEEK_CUR)
            return most
        count, ends = count + there, piece.endswith(b"\n")
    return count if ends else count + 1


def _lines(file: BinaryIO) -> Iterator[_FileLine]:
    """The lines of a file, without keeping more than the beginning of each."""
    while piece := file.readline(PIECE_BYTES):
        begins, size = piece[: LINE_BYTES + 2], len(piece)
        ends = piece[-2:]
        while not piece.endswith(b"\n") and (piece := file.readline(PIECE_BYTES)):
            size += len(piece)
            ends = (ends + piece)[-2:]
        end = 2 if ends == b"\r\n" else int(ends.endswith(b"\n"))
        yield _FileLine(begins[: min(LINE_BYTES, size - end)], size - end, end == 2)


def without_numbers(text: str) -> str:
    """What a read showed, without its line in brackets and without the numbers; a text that is shown as it is stays.
    Lines of which a part was left out are none of the file, and are left out."""
    header = _HEADER.match(text)
    if header is None:
        return text
    lines = text[header.end() :].split("\n")
    return "\n".join(_NUMBER.sub("", line, count=1) for line in lines if _CLIPPED.search(line) is None)


def line_shown(text: str) -> int | None:
    """The number of the last whole line of the beginning of a numbered read; None: the read is not numbered."""
    if _HEADER.match(text) is None:
        return None
    numbers = [int(line.partition("\t")[0]) for line in text.split("\n")[1:] if _NUMBER.match(line)]
    return numbers[-1] if numbers else None
