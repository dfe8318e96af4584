"""Marks of which the words were removed at a person's request, and the records that account for them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from conch.folds import evolve
from conch.witness.facts import is_event
from conch_schemas import FORGOTTEN_REASONING, Mark, PersonForgotten, wire_form


def without_words(mark: Mark) -> Mark:
    """The mark without its texts, tags and the name of a message's sender. Its hashes, links and ids stay."""
    origin = "" if mark.domain == "message" else mark.origin
    return evolve(mark, origin=origin, stimulus="", response="", reasoning=FORGOTTEN_REASONING, tags=())


def is_without_words(mark: Mark) -> bool:
    """Whether the mark's words were removed."""
    return mark.reasoning == FORGOTTEN_REASONING and without_words(mark) == mark


class ForgottenRecords:
    """The records of what was removed of one agent. A record counts once a mark of the chain seals it: who takes marks
    or acts away cannot say afterwards that a person asked for it, as the chain would say so too."""

    def __init__(self, records: Iterable[PersonForgotten] = ()) -> None:
        self._records = {record.id: record for record in records}
        self._left = {mark.id: mark for record in self._records.values() for mark in record.marks}
        self._sealed: set[str] = set()
        self.actions = frozenset(action for record in self._records.values() for action in record.actions)
        """Ids of the actions that were removed."""
        self.events = frozenset(event for record in self._records.values() for event in record.events)
        """Ids of the events that were erased on the stream."""

    def has(self, mark: Mark) -> bool:
        """Whether the mark is exactly what a record says is left of it."""
        return mark == self._left.get(mark.id)

    def is_of_removed(self, mark: Mark) -> bool:
        """Whether the mark is what a record says is left of one about an act that was removed: it proves no row."""
        return mark.action_id in self.actions and self.has(mark)

    def take(self, mark: Mark) -> None:
        """See whether a mark of the chain seals one of the records."""
        if (record := self._records.get(mark.event)) is not None and is_event(wire_form(record), mark.content):
            self._sealed.add(record.id)

    @property
    def marks(self) -> int:
        """How many marks are without their words."""
        return len(self._left)

    @property
    def requests(self) -> list[PersonForgotten]:
        """The first part of each request, in the order of time."""
        first = (record for record in self._records.values() if record.part == 0)
        return sorted(first, key=lambda record: record.time)

    @property
    def unsealed(self) -> set[str]:
        """Ids of the records that no mark seals."""
        return set(self._records) - self._sealed
