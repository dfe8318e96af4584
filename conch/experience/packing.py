"""Compression of stored events: Zstandard with a dictionary of the words and fields that events repeat.

In SQL, `packed(body)` is what is written and `unpacked(column)` what is read. A row from before, or one that was
written by hand, is plain JSON: `unpacked` returns it as it is. So it does with a damaged one, which is no JSON: whoever
reads the row finds it damaged, and the other rows are read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import zstandard

DICTIONARY: Final = Path(__file__).with_name("bodies-1.dict")
"""Trained with `zstandard.train_dictionary` on the bodies of two runs, some 1,700 cycles. Every store needs it: it is
never changed; a better one would be a second file, as each frame names its dictionary."""
LEVEL: Final = 3
"""An act of 3.5 KB takes 0.6 KB and 9 µs, and 4 µs back; level 1 saves a microsecond and costs a tenth more room."""
LARGEST: Final = 16 * 1024 * 1024
"""Bytes of an unpacked body: sixteen times the largest event."""
Value = bytes | str | int | float | None
_FRAME: Final = b"\x28\xb5\x2f\xfd"
"""The first bytes of a Zstandard frame (RFC 8878); JSON begins otherwise."""
_TEXT: Final = b"\x00"
"""Before the frame of a value that is TEXT, so that it is TEXT again."""
_TEXT_FRAME: Final = _TEXT + _FRAME


class Packing(NamedTuple):
    """A compressor and a decompressor: neither may be used by two threads at once."""

    packed: Callable[[bytes | str], bytes]
    unpacked: Callable[[Value], Value]


def register(connection: sqlite3.Connection) -> None:
    """Define `packed` and `unpacked` for the statements of this connection. Both are its own, and SQLite executes one
    statement of a connection at a time."""
    packing = new_packing()
    connection.create_function("packed", 1, packing.packed, deterministic=True)
    connection.create_function("unpacked", 1, packing.unpacked, deterministic=True)


def new_packing() -> Packing:
    """For one thread at a time."""
    compressor = _compressor()

    def packed(body: bytes | str) -> bytes:
        return compressor.compress(body) if isinstance(body, bytes) else _TEXT + compressor.compress(body.encode())

    return Packing(packed, new_unpacked())


def new_unpacked() -> Callable[[Value], Value]:
    """A decompressor alone: what `unpacked` is in SQL, for columns that were read as they are. Of many rows that is
    sooner done than in the statement, which calls back once for each."""
    decompressor = zstandard.ZstdDecompressor(dict_data=_dictionary())
    decompress, size_of, empty = decompressor.decompress, zstandard.frame_content_size, _empty()

    def unpacked(body: Value) -> Value:
        if not isinstance(body, bytes):
            return body
        frame, is_text = body, False
        if body[:4] != _FRAME:
            if body[:5] != _TEXT_FRAME:
                return body
            frame, is_text = body[1:], True
        try:
            size = size_of(frame)
            if size > LARGEST or (size == 0 and frame != empty):  # of size 0, no checksum would be looked at
                return body
            found = decompress(frame, max_output_size=LARGEST)
            return found.decode() if is_text else found
        except (zstandard.ZstdError, UnicodeDecodeError):
            return body

    return unpacked


def _compressor() -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=LEVEL, dict_data=_dictionary(), write_checksum=True)


@cache
def _empty() -> bytes:
    return _compressor().compress(b"")


@cache
def _dictionary() -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(DICTIONARY.read_bytes())
