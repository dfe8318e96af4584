"""The events of training, in a table of their own: the history of each agent's adapters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from conch.experience.opened import OpenStore
from conch.experience.queries.bodies import stored_type
from conch_schemas import Event, TrainingProgressed, decode, wire_form

_PAGE: Final = 1000
_PROGRESS: Final = TrainingProgressed.model_fields["type"].default
_PUT: Final = """
    INSERT INTO training (id, seq, agent, round, body) VALUES (?, ?, ?, ?, packed(?))
    ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, body = excluded.body WHERE excluded.seq < training.seq"""
_WALK: Final = (
    "SELECT seq, unpacked(body) FROM training WHERE (agent = ? OR CAST(? AS INTEGER) = 1) AND seq > ? "
    "ORDER BY seq LIMIT ?"
)
_OF_ROUND: Final = "SELECT unpacked(body) FROM training WHERE round = ? ORDER BY seq"


class SqlTraining:
    """The `TrainingReader` of a store over SQL. A file of an older schema, which no writer has opened since, has
    none."""

    def __init__(self, file: OpenStore) -> None:
        self._file = file

    def walk(self, agent: str | None = None, *, progress: bool = True) -> Iterator[Event]:
        after = -1
        while self._is_there() and (rows := self._file.rows(_WALK, agent or "", int(agent is None), after, _PAGE)):
            with self._file.intact():
                page = [decode(body) for _, body in rows if progress or stored_type(body) != _PROGRESS]
            yield from page
            after = rows[-1][0]

    def of_round(self, round: str) -> list[Event]:
        if not self._is_there():
            return []
        with self._file.intact():
            return [decode(body) for (body,) in self._file.rows(_OF_ROUND, round)]

    def _is_there(self) -> bool:
        return self._file.has_table("training")


def put_training(file: OpenStore, events: Iterable[tuple[int, Event]]) -> int:
    """Store events by (stream sequence, event), within the caller's transaction; how many were there already."""
    base, known = file.base(), 0
    for seq, event in events:
        row = (event.id, base + seq, event.agent, getattr(event, "round", None), wire_form(event))
        known += file.db.execute(_PUT, row).rowcount <= 0
    return known
