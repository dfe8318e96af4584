"""The newest experiences of a store as columns in memory, kept in step with its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from conch.experience.models import SampleChanges, SampleRow
from conch.experience.store import SampleReader

_ROW: Final = np.dtype(
    [
        *(("act", "i8"), ("seq", "i8"), ("cycle", "i8"), ("born", "i8")),
        *(("agent", "i4"), ("outcome", "i4"), ("tool", "i4"), ("skill", "i4"), ("need", "i4"), ("uses", "i4")),
        *(("total", "f8"), ("expected", "f8"), ("surprise", "f8")),
    ]
)
_CODED: Final = ("agent", "outcome", "tool", "skill", "need")
"""Columns of names, as numbers."""
_SMALLEST: Final = 1024


class SampleView:
    """The last `size` experiences by `seq`, of one agent or of all, one slot each: 0 to `len` - 1, in no order.

    `refresh` brings it in step with the store: it is what `SampleReader.newest` gives at that moment. The store's rows
    are the truth; a view keeps beside them only how often each was drawn, and its surprise.
    """

    def __init__(self, store: SampleReader, agent: str | None, size: int) -> None:
        """Reads the columns. Raises StoreError. `size`: at least 1."""
        self.size = size
        self.came = 0
        """Experiences that have come into the view, those there at first among them."""
        self.dirty: set[int] = set()
        """Slots whose row is another one, or changed, since the caller last cleared this."""
        self._store, self._agent = store, agent
        self._codes: dict[str | None, int] = {None: 0}
        self._sums: dict[tuple[int, int], tuple[float, int]] = {}
        """(agent, skill), and (agent, -1) for all skills -> sum and number of the totals seen."""
        self._rows = np.zeros(min(size, _SMALLEST), dtype=_ROW)
        self._count = 0
        self._slots: dict[int, int] = {}
        """Act -> its slot."""
        self._change, self._removed = 0, dict[str, tuple[int, int]]()
        self._is_cut = False
        """Whether the store may have experiences before the view's first one."""
        self._load()

    def __len__(self) -> int:
        return self._count

    @property
    def capacity(self) -> int:
        """Slots that there is memory for."""
        return len(self._rows)

    def column(self, name: str) -> NDArray[Any]:
        """A column of all slots: act, seq, cycle, born, uses, total, expected, surprise; agent, outcome, tool, skill
        and need as numbers, equal for equal names. Writing into it changes the view."""
        return self._rows[name][: self._count]

    def slots_of(self, acts: Iterable[int]) -> list[int]:
        """The slot of each act; -1 for one that is not in the view."""
        return [self._slots.get(act, -1) for act in acts]

    def refresh(self) -> None:
        """Take in what was recorded, revised, moved and removed since. Raises StoreError."""
        if self._store.changes() == self._change:
            return
        found = self._store.since(self._change)
        gone = self._gone(found)
        if self._is_cut and (gone or self._moved(found.rows)):
            self._load()  # experiences that were cut off are among the newest again
            return
        self._remove(gone)
        self._put([row for row in found.rows if self._agent in (None, row.agent)])
        self._change, self._removed = found.upto, found.removed

    def _load(self) -> None:
        """Read all columns; of experiences that were in the view before, what it knew beside them stays."""
        found = self._store.newest(self._agent, self.size)
        there = {row.act for row in found.rows}
        self._remove([slot for act, slot in self._slots.items() if act not in there])
        self._put(found.rows)
        self._change, self._removed = found.upto, found.removed
        self._is_cut = len(found.rows) == self.size

    def _gone(self, found: SampleChanges) -> list[int]:
        """Slots of what retention removed, whole cycles from an agent's first on, and of acts that are another agent's
        now."""
        gone = {
            slot
            for row in found.rows
            if self._agent not in (None, row.agent) and (slot := self._slots.get(row.act)) is not None
        }
        for agent, (acts, last) in found.removed.items():
            if self._removed.get(agent, (0, -1))[0] != acts and agent in self._codes:
                mine = (self.column("agent") == self._codes[agent]) & (self.column("cycle") <= last)
                gone |= set(np.flatnonzero(mine).tolist())
        return list(gone)

    def _moved(self, rows: Sequence[SampleRow]) -> bool:
        """Whether an experience of the view stands at another place now."""
        slots = [(self._slots[row.act], row.seq) for row in rows if row.act in self._slots]
        return any(self._rows["seq"][slot] != seq for slot, seq in slots)

    def _put(self, rows: Sequence[SampleRow]) -> None:
        """Add these experiences, or change those that are there; then cut off what is beyond the size."""
        if self._is_cut and self._count == self.size:
            first = int(self.column("seq").min())
            rows = [row for row in rows if row.seq > first or row.act in self._slots]
        new = [row for row in rows if row.act not in self._slots]
        for row in rows if len(new) < len(rows) else ():
            if (slot := self._slots.get(row.act)) is not None:
                self._change_row(slot, row)
        self._add(new)
        if (excess := self._count - self.size) > 0:
            self._is_cut = True
            self._remove(np.argpartition(self.column("seq"), excess - 1)[:excess].tolist())

    def _add(self, rows: Sequence[SampleRow]) -> None:
        """Add these, a column at a time: a view may begin with a million."""
        if not rows:
            return
        first, end = self._count, self._count + len(rows)
        self._reserve(end)
        coded, means = [], []
        for row in rows:
            codes = self._coded(row)
            coded.append(codes)
            means.append(self._expected(codes[0], codes[3]))
            self._learn(codes[0], codes[3], row.total, 1)
        there = self._rows[first:end]
        there["act"], there["seq"] = [row.act for row in rows], [row.seq for row in rows]
        there["cycle"], there["total"] = [row.cycle for row in rows], [row.total for row in rows]
        for name, column in zip(_CODED, zip(*coded, strict=True), strict=True):
            there[name] = column
        there["born"] = np.arange(self.came + 1, self.came + len(rows) + 1)
        there["uses"], there["expected"] = 0, means
        there["surprise"] = np.abs(there["total"] - there["expected"])
        self._slots.update(zip((row.act for row in rows), range(first, end), strict=True))
        self._count, self.came = end, self.came + len(rows)
        self.dirty.update(range(first, end))

    def _change_row(self, slot: int, row: SampleRow) -> None:
        before = self._rows[slot]
        codes, change = self._coded(row), row.total - float(before["total"])
        surprise = abs(row.total - float(before["expected"])) if change else float(before["surprise"])
        kept = (int(before["born"]), int(before["uses"]), float(before["expected"]))
        self._rows[slot] = (row.act, row.seq, row.cycle, kept[0], *codes, kept[1], row.total, kept[2], surprise)
        self._learn(codes[0], codes[3], change, 0)
        self.dirty.add(slot)

    def _coded(self, row: SampleRow) -> tuple[int, int, int, int, int]:
        names = (row.agent, row.outcome, row.tool, row.skill, row.need)
        agent, outcome, tool, skill, need = (self._codes.setdefault(name, len(self._codes)) for name in names)
        return agent, outcome, tool, skill, need

    def _expected(self, agent: int, skill: int) -> float:
        """The mean total of the agent's experiences of this skill so far; before the first, of all its skills; else
        0."""
        total, count = self._sums.get((agent, skill)) or self._sums.get((agent, -1), (0.0, 0))
        return total / max(1, count)

    def _learn(self, agent: int, skill: int, amount: float, count: int) -> None:
        for key in ((agent, skill), (agent, -1)):
            total, number = self._sums.get(key, (0.0, 0))
            self._sums[key] = (total + amount, number + count)

    def _remove(self, slots: Iterable[int]) -> None:
        """Free these slots; the last ones take their place."""
        for slot in sorted(slots, reverse=True):
            last = self._count - 1
            del self._slots[int(self._rows["act"][slot])]
            if slot != last:
                self._rows[slot] = self._rows[last]
                self._slots[int(self._rows["act"][slot])] = slot
            self._count = last
            self.dirty |= {slot, last}

    def _reserve(self, count: int) -> None:
        if count > len(self._rows):
            grown = np.zeros(max(count, 2 * len(self._rows)), dtype=_ROW)
            grown[: self._count] = self._rows[: self._count]
            self._rows = grown
