"""Candidates of forks, in a table of their own: they are no acts, and nothing else of the store reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from conch.experience.opened import LARGEST, OpenStore, in_64_bits
from conch_schemas import ContractViolationError, ForkScored, decode, wire_form

_PAGE: Final = 200
_PUT: Final = """
    INSERT INTO forks (id, agent, cycle, seq, body) VALUES (?, ?, ?, ?, packed(?))
    ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, body = excluded.body WHERE excluded.seq < forks.seq"""
_OF_CYCLE: Final = "SELECT unpacked(body) FROM forks WHERE agent = ? AND cycle = ? ORDER BY seq"
_WALK_OF_ALL: Final = "SELECT seq, unpacked(body) FROM forks WHERE seq > ? ORDER BY seq LIMIT ?"
_WALK_OF_ONE: Final = "SELECT seq, unpacked(body) FROM forks WHERE agent = ? AND seq > ? ORDER BY seq LIMIT ?"
_WALK_BACK: Final = "SELECT seq, unpacked(body) FROM forks WHERE seq < ? ORDER BY seq DESC LIMIT ?"


class SqlForks:
    """The `ForkReader` of a store over SQL; of a file that an older version wrote, which no writer has opened since, it
    reads no candidate."""

    def __init__(self, file: OpenStore) -> None:
        self._file = file
        self._there = False

    def of_cycle(self, agent: str, cycle: int) -> list[ForkScored]:
        if not self._is_there():
            return []
        with self._file.intact():
            return [_fork(body) for (body,) in self._file.rows(_OF_CYCLE, agent, in_64_bits(cycle))]

    def walk(self, agent: str | None = None) -> Iterator[ForkScored]:
        after = -1
        while self._is_there() and after < LARGEST:
            with self._file.intact():
                page = (_WALK_OF_ALL, after, _PAGE) if agent is None else (_WALK_OF_ONE, agent, after, _PAGE)
                rows = self._file.rows(*page)
                found = [_fork(body) for _, body in rows]
            yield from found
            after = rows[-1][0] if len(rows) == _PAGE else LARGEST

    def newest_first(self) -> Iterator[ForkScored]:
        before = LARGEST
        while self._is_there() and before >= 0:
            with self._file.intact():
                rows = self._file.rows(_WALK_BACK, before, _PAGE)
                found = [_fork(body) for _, body in rows]
            yield from found
            before = rows[-1][0] if len(rows) == _PAGE else -1

    def _is_there(self) -> bool:
        self._there = self._there or self._file.has_table("forks")
        return self._there


def put_forks(file: OpenStore, forks: Iterable[tuple[int, ForkScored]]) -> int:
    """Store candidates by (stream sequence, event), within the caller's transaction; how many were there already."""
    base, known = file.base(), 0
    for seq, fork in forks:
        row = (fork.id, fork.agent, fork.cycle, base + seq, wire_form(fork))
        known += file.db.execute(_PUT, row).rowcount <= 0
    return known


def _fork(body: bytes) -> ForkScored:
    event = decode(body)
    if not isinstance(event, ForkScored):
        raise ContractViolationError(f"{event.TYPE} where {ForkScored.TYPE} was stored")
    return event
