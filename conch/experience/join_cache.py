"""What the store's writer knows without reading: what it has written of late, within bounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from conch.experience.join_case import JoinCase
from conch.experience.transaction import JoinTransaction
from conch_schemas import ActionTaken, Part

OPEN_CASES: Final = 8192
CLOSED_CASES: Final = 256
CASES_BYTES: Final = 32 * 1024 * 1024
"""Most that is kept in memory: actions that wait for their scores, and the last that have theirs; of others the rows
are read."""
NAMES: Final = 65536
"""Actions' numbers, and agents, that are remembered; names are anybody's to invent."""


class WeightsInForce(NamedTuple):
    """A weight set, and the places of the acts that it governs: behind `after`, up to `upto`."""

    after: int
    upto: int
    version: str
    parts: tuple[Part, ...]
    """The parts of an act without a task."""
    task_parts: tuple[Part, ...]
    """The parts of an act that belongs to a task."""
    others: tuple[Part, ...]
    """The parts that do not apply to an act without a task."""

    def of(self, act: ActionTaken) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
        """(the parts of this act, those that do not apply to it)."""
        return (self.parts, self.others) if act.episode is None else (self.task_parts, ())


class JoinCache:
    """As the rows have it: whoever fails to write them calls `forget`."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        """Of actions, by their ids."""
        self.force: dict[str, WeightsInForce] = {}
        """Of each agent, the weight set that was looked up last."""
        self.last: dict[str, int | None] = {}
        """Of each agent, the highest cycle that it has acted in."""
        self.numbered: int | None = None
        """The highest number of an action; None: not known."""
        self.changes: int | None = None
        """How many changes of experiences were counted; None: not known."""
        self._open: dict[str, JoinCase] = {}
        self._closed: dict[str, JoinCase] = {}
        self._bytes = 0

    def case(self, action: str) -> JoinCase | None:
        """The case of an action, where it is at hand."""
        return self._open.get(action) or self._closed.get(action)

    def remember(self, work: JoinTransaction, last: dict[str, int | None]) -> None:
        """Keep at hand what the next facts will be of."""
        for action, case in work.cases.items():
            self._open.pop(action, None)
            self._closed.pop(action, None)
            (self._closed if case.revision else self._open)[action] = case
            self._bytes += case.size - case.counted
            case.counted = case.size
        self._let_go(self._closed, CLOSED_CASES)
        self._let_go(self._open, OPEN_CASES)
        self.numbers |= work.numbers
        self.last |= last
        for names in (self.numbers, self.last, self.force):
            if len(names) > NAMES:
                names.clear()

    def drop(self, actions: Iterable[str]) -> None:
        """Forget these actions: their rows are gone."""
        for action in actions:
            self.numbers.pop(action, None)
            case = self._open.pop(action, None) or self._closed.pop(action, None)
            self._bytes -= 0 if case is None else case.counted

    def forget(self) -> None:
        """Know nothing: what is remembered may be of what was not written."""
        for table in (self._open, self._closed, self.numbers, self.last, self.force):
            table.clear()
        self._bytes, self.numbered, self.changes = 0, None, None

    def forget_numbers(self) -> None:
        """Know no number that other writers raise, too."""
        self.numbered = self.changes = None

    def _let_go(self, cases: dict[str, JoinCase], most: int) -> None:
        """Of the oldest ones."""
        while len(cases) > most or (cases and self._bytes > CASES_BYTES):
            self._bytes -= cases.pop(next(iter(cases))).counted
