"""Persons' decisions on rows of training data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from conch.experience.opened import OpenStore
from conch_schemas import ContractViolationError, ReviewDecided, decode

_PAGE: Final = 1000
_NEXT: Final = "SELECT seq, id, unpacked(body) FROM reviews WHERE (seq, id) > (?, ?) ORDER BY seq, id LIMIT ?"
_OF_ROW: Final = "SELECT unpacked(body) FROM reviews WHERE row_id = ? ORDER BY seq, id"


class SqlReviews:
    """The `ReviewReader` of a store over SQL. A file of an older schema, which no writer has opened since, has none."""

    def __init__(self, file: OpenStore) -> None:
        self._file = file

    def walk(self) -> Iterator[ReviewDecided]:
        place: tuple[int, str] = (-1, "")
        while self._is_there() and (rows := self._file.rows(_NEXT, *place, _PAGE)):
            with self._file.intact():
                page = [_decided(body) for _, _, body in rows]
            yield from page
            place = rows[-1][:2]

    def of_row(self, row: str) -> list[ReviewDecided]:
        if not self._is_there():
            return []
        with self._file.intact():
            return [_decided(body) for (body,) in self._file.rows(_OF_ROW, row)]

    def _is_there(self) -> bool:
        return self._file.has_table("reviews")


def _decided(body: bytes) -> ReviewDecided:
    event = decode(body)
    if not isinstance(event, ReviewDecided):
        raise ContractViolationError(f"{event.TYPE} where {ReviewDecided.TYPE} was stored")
    return event
