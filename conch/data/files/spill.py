"""Rows on their way into files: gathered by the first byte of their id, then sorted by that byte.

Memory is bounded by some 16 MB of rows that came last and a page, and by the 256th part of all rows. A spill may be
filled in one process and read in another.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from operator import eq
from pathlib import Path
from typing import BinaryIO, Final, Self

from conch.data.row import SPLITS, Row, Split
from conch.errors import ContractError

_BUFFER: Final = 16 * 1024 * 1024
"""Bytes of rows that are gathered before they are written, those with the same first byte together."""
_ID: Final = 64
"""Digits of a row id."""
_HEAD: Final = _ID + 32
"""Of a row in a spill: its id, then its part: the name of its split, or what stands for its state."""
_PARTS: Final = {split: split.encode().ljust(_HEAD - _ID) for split in SPLITS}


@dataclass(frozen=True)
class SpilledRows:
    """Rows by the first byte of their id."""

    path: Path
    pieces: Mapping[str, Sequence[tuple[int, int]]]
    """(place, length) of what is in the file."""
    held: Mapping[str, bytes]
    """What is in memory."""

    def bucket(self, file: BinaryIO, first: str) -> list[bytes]:
        """All rows of this first byte; `file` is open on `path`."""
        written = [os.pread(file.fileno(), size, at) for at, size in self.pieces.get(first, ())]
        return [*written, self.held.get(first, b"")]


class Spill:
    """Takes rows in any order; those that came last stay in memory, the others are in one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0
        self._held: defaultdict[str, list[bytes]] = defaultdict(list)
        self._held_bytes = 0
        self._pieces: dict[str, list[tuple[int, int]]] = {}
        self._file = path.open("x+b", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, row: Row) -> None:
        """Put the row there, in its split."""
        self._put([(row.row_id, _PARTS[row.split], row.content)])

    def add_unparted(self, rows: Iterable[tuple[str, str, bytes]]) -> None:
        """Put rows (id, state key, content) there that are to be in the splits of their states, which are not known
        yet."""
        self._put((row_id, _state_part(state_key), content) for row_id, state_key, content in rows)

    def _put(self, rows: Iterable[tuple[str, bytes, bytes]]) -> None:
        held, size = self._held, self._held_bytes
        for row_id, part, content in rows:
            line = b"%b%b%b\n" % (row_id.encode(), part, content)
            held[row_id[:2]].append(line)
            size += len(line)
        self._held_bytes = size
        if size >= _BUFFER:
            self.flush()

    def rows(self) -> SpilledRows:
        """All that was put there."""
        held = {first: b"".join(lines) for first, lines in self._held.items()}
        return SpilledRows(self._path, self._pieces, held)

    def flush(self) -> None:
        """Write what is in memory: for another process, too."""
        for first, lines in self._held.items():
            self._write(first, b"".join(lines))
        self._held.clear()
        self._held_bytes = 0

    def _write(self, first: str, rows: bytes) -> None:
        self._pieces.setdefault(first, []).append((self._size, len(rows)))
        while rows:
            written = self._file.write(rows)
            self._size += written
            rows = rows[written:]


def sorted_rows(spilled: Sequence[SpilledRows], part: Callable[[bytes], Split]) -> Iterator[tuple[Split, bytes]]:
    """(split, the row as a line of JSON without its end) of all rows by their id. `part`: the split of a part that
    stands for a state. Raises ContractError for a row that came twice."""
    splits: dict[bytes, tuple[Split, bytes]] = {}
    known = {name: split for split, name in _PARTS.items()}
    with ExitStack() as stack:
        files = [(one, stack.enter_context(one.path.open("rb", buffering=0))) for one in spilled]
        for byte in range(256):
            lines = b"".join(chain.from_iterable(one.bucket(file, f"{byte:02x}") for one, file in files)).split(b"\n")
            lines.pop()
            lines.sort()
            ids = [line[:_ID] for line in lines]
            if any(map(eq, ids, islice(ids, 1, None))):
                raise ContractError("a row of the data set came twice: each has acts of its own")
            for row_id, line in zip(ids, lines, strict=True):
                key = line[_ID:_HEAD]
                found = splits.get(key)
                if found is None:
                    split = known.get(key) or part(key)
                    found = splits[key] = (split, f'","split":"{split}"}}'.encode())
                yield found[0], b'%b,"row_id":"%b%b' % (line[_HEAD:-1], row_id, found[1])


def parts_of(states: Iterable[str]) -> dict[bytes, str]:
    """What stands for each state in a spill -> the state."""
    return {_state_part(state): state for state in states}


@lru_cache(maxsize=65_536)
def _state_part(state_key: str) -> bytes:
    return hashlib.sha256(state_key.encode()).hexdigest()[: _HEAD - _ID].encode()
