"""What retention removed from the store: which cycles and marks, and the sums that stay of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from conch.experience.models import Removal
from conch.experience.opened import OpenStore

BLOCK: Final = 100
"""Cycles whose sums stand in one row."""

_REMOVALS: Final = """
    SELECT why, first_cycle, last_cycle, acts, acted, time, first_mark, last_mark, marks, hash
    FROM removals WHERE agent = ? ORDER BY last_cycle, time"""
_REMOVED_UPTO: Final = "SELECT agent, max(last_cycle), coalesce(max(last_mark), -1) FROM removals GROUP BY agent"
_TOTALS: Final = "SELECT agent, block, acts, total, coverage, incomplete FROM removed_totals"
_OUTCOMES: Final = "SELECT outcome, acts FROM removed_outcomes WHERE agent = ? AND block = ?"
_COMPONENTS: Final = """
    SELECT component, scorer, version, weight, count, scored, total, errors, timeouts, unasked
    FROM removed_components WHERE agent = ? AND block = ?"""


class RemovedSums(NamedTuple):
    """Sums over removed experiences of one agent and one block of cycles."""

    agent: str
    block: int
    acts: int
    total: float
    coverage: float
    incomplete: int


@dataclass(frozen=True)
class RemovedComponent:
    """Sums over one scorer's component in removed experiences of one block."""

    component: str
    scorer: str
    version: str
    weight: float
    count: int
    scored: int
    total: float
    errors: int
    timeouts: int
    unasked: int
    """Not applicable."""


class SqlRetention:
    """The `RetentionReader` of a store over SQL."""

    def __init__(self, file: OpenStore) -> None:
        self._file = file

    def removals(self, agent: str) -> list[Removal]:
        return removals(self._file, agent)

    def came_late(self) -> int:
        return self._file.number("came_late")

    def bytes_used(self) -> int:
        return self._file.bytes_used()


def removals(file: OpenStore, agent: str) -> list[Removal]:
    """Which cycles and marks of an agent were removed, oldest first."""
    rows = file.rows(_REMOVALS, agent)
    return [Removal._make((*row[:5], datetime.fromisoformat(row[5]).astimezone(UTC), *row[6:])) for row in rows]


def removed_upto(file: OpenStore) -> dict[str, tuple[int, int]]:
    """Agent -> its last removed cycle and mark; -1 where no mark was removed."""
    return {agent: (cycle, mark) for agent, cycle, mark in file.rows(_REMOVED_UPTO)}


def removed_sums(file: OpenStore, agent: str | None, most: int) -> list[RemovedSums]:
    """The newest blocks that together have at most so many acts."""
    if most <= 0:
        return []
    if agent is None:
        rows = file.rows(f"{_TOTALS} ORDER BY seq DESC LIMIT ?", most)
    else:
        rows = file.rows(f"{_TOTALS} WHERE agent = ? ORDER BY block DESC LIMIT ?", agent, most)
    found: list[RemovedSums] = []
    for sums in map(RemovedSums._make, rows):
        if (most := most - sums.acts) < 0:
            break
        found.append(sums)
    return found


def removed_outcomes(file: OpenStore, blocks: Iterable[RemovedSums]) -> Counter[str]:
    """Outcome -> removed acts of these blocks that ended so."""
    found: Counter[str] = Counter()
    for one in blocks:
        for outcome, acts in file.rows(_OUTCOMES, one.agent, one.block):
            found[outcome] += acts
    return found


def removed_components(file: OpenStore, blocks: Iterable[RemovedSums]) -> list[RemovedComponent]:
    """The sums over each component, in the order of the blocks."""
    return [RemovedComponent(*row) for one in blocks for row in file.rows(_COMPONENTS, one.agent, one.block)]
