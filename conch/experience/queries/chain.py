"""The chain of marks, and the acts and scores that it has to cover: what verification reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from pydantic import ValidationError

from conch.errors import CheckError
from conch.experience.models import StreamLoss
from conch.experience.opened import OpenStore
from conch_schemas import Mark

_PAGE: Final = 1000
"""Rows of one read in a walk over all of them."""

_ACTS: Final = """
    SELECT action_id, cycle FROM acts
    WHERE agent = ? AND (cycle, action_id) > (?, ?) ORDER BY cycle, action_id LIMIT ?"""
_SCORE_SETS: Final = """
    SELECT DISTINCT action_id, scorer FROM scores JOIN acts USING (act) WHERE agent = ? ORDER BY cycle, scorer"""
_MARKS: Final = """
    SELECT agent, id, hash, sequence, seq, body FROM marks
    WHERE agent = ? AND (sequence, id, hash) > (?, ?, ?) ORDER BY sequence, id, hash LIMIT ?"""
_MARKS_OF: Final = """
    SELECT agent, id, hash, sequence, seq, body FROM marks
    WHERE act = (SELECT act FROM actions WHERE action_id = ?) AND +agent = ?"""
_BEFORE: Final = """
    SELECT (SELECT max(cycle) FROM acts WHERE agent = ? AND seq <= ?),
           (SELECT max(sequence) FROM marks WHERE agent = ? AND seq <= ?)"""


class SqliteChain:
    """The `ChainReader` of a SQLite file."""

    def __init__(self, file: OpenStore) -> None:
        self._file = file

    def acts(self, agent: str) -> Iterator[tuple[str, int]]:
        cycle, action = -1, ""
        while page := self._file.rows(_ACTS, agent, cycle, action, _PAGE):
            yield from page
            action, cycle = page[-1]

    def score_sets(self, agent: str) -> list[tuple[str, str]]:
        return self._file.rows(_SCORE_SETS, agent)

    def marks(self, agent: str, start: int = 0) -> Iterator[Mark]:
        for _, twins in groupby(self._marks(agent, start), key=itemgetter(3)):
            for row in sorted(twins, key=itemgetter(4)):
                yield _mark(row)

    def _marks(self, agent: str, start: int) -> Iterator[Sequence[Any]]:
        """Rows in the order of their sequence; several of one are in no order yet."""
        place: tuple[object, ...] = (start, "", "")
        while page := self._file.rows(_MARKS, agent, *place, _PAGE):
            yield from page
            _, name, digest, sequence, *_ = page[-1]
            place = (sequence, name, digest)

    def marks_of(self, agent: str, action_id: str) -> list[Mark]:
        rows = sorted(self._file.rows(_MARKS_OF, action_id, agent), key=itemgetter(3, 4))
        return [mark for mark in map(_mark, rows) if mark.action_id == action_id]

    def last_mark(self, agent: str) -> int | None:
        row = self._file.row("SELECT max(sequence) FROM marks WHERE agent = ?", agent)
        return row[0] if row else None

    def losses(self, agent: str) -> list[StreamLoss]:
        base = self._file.base()
        ends = json.loads(self._file.meta("ends") or "null") or ([base] if base else [])
        losses = [StreamLoss(*self._file.row(_BEFORE, agent, end, agent, end)) for end in ends]
        return [loss for loss in losses if loss.cycle is not None or loss.mark is not None]


def _mark(row: Sequence[Any]) -> Mark:
    """The row's mark. Raises CheckError where its columns and its body no longer say the same."""
    agent, name, digest, sequence, _, body = row
    try:
        mark = Mark.model_validate_json(body)
    except ValidationError:
        raise CheckError(f"Mark {name} at sequence {sequence} is no mark any more: its row was changed.") from None
    if (mark.agent, mark.id, mark.hash, mark.sequence) != (agent, name, digest, sequence):
        raise CheckError(f"Mark {name} at sequence {sequence} stands in a row of another one: its row was changed.")
    return mark
