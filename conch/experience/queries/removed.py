"""What retention removed from the store: which cycles and marks, and the sums that stay of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from conch.experience.opened import OpenStore

BLOCK: Final = 100
"""Cycles whose sums stand in one row."""

_REMOVALS: Final = """
    SELECT why, first_cycle, last_cycle, acts, acted, time, first_mark, last_mark, marks, hash
    FROM removals WHERE agent = ? ORDER BY last_cycle, time"""
_TOTALS: Final = "SELECT agent, block, acts, total, coverage, incomplete FROM removed_totals"
_OUTCOMES: Final = "SELECT outcome, acts FROM removed_outcomes WHERE agent = ? AND block = ?"
_COMPONENTS: Final = """
    SELECT component, scorer, version, weight, count, scored, total, errors, timeouts, unasked
    FROM removed_components WHERE agent = ? AND block = ?"""


class Removal(NamedTuple):
    """Cycles and marks of one agent that were removed on one day for one reason."""

    why: str
    """The setting that they were removed by."""
    first_cycle: int
    last_cycle: int
    acts: int
    acted: float
    """Time of the last of these acts, in seconds since the epoch."""
    time: datetime
    """When the last of them was removed."""
    first_mark: int | None
    """Sequence; None: no mark was removed, like `last_mark` and `hash`."""
    last_mark: int | None
    marks: int
    hash: str | None
    """Of the last mark that was removed: the next one in the chain must follow it."""


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


class RemovedReader(OpenStore):
    """The part of `ExperienceReader` about what was removed."""

    def removals(self, agent: str) -> list[Removal]:
        rows = self._rows(_REMOVALS, agent)
        return [Removal._make((*row[:5], datetime.fromisoformat(row[5]).astimezone(UTC), *row[6:])) for row in rows]

    def came_late(self) -> int:
        return int(self._meta("came_late") or 0)

    def bytes_used(self) -> int:
        pages, free, size = (self._row(f"PRAGMA {name}")[0] for name in ("page_count", "freelist_count", "page_size"))
        return int((pages - free) * size)

    def _removed_sums(self, agent: str | None, most: int) -> list[RemovedSums]:
        """The newest blocks that together have at most so many acts."""
        if most <= 0:
            return []
        if agent is None:
            rows = self._rows(f"{_TOTALS} ORDER BY seq DESC LIMIT ?", most)
        else:
            rows = self._rows(f"{_TOTALS} WHERE agent = ? ORDER BY block DESC LIMIT ?", agent, most)
        found: list[RemovedSums] = []
        for sums in map(RemovedSums._make, rows):
            if (most := most - sums.acts) < 0:
                break
            found.append(sums)
        return found

    def _removed_outcomes(self, blocks: Iterable[RemovedSums]) -> Counter[str]:
        found: Counter[str] = Counter()
        for one in blocks:
            for outcome, acts in self._rows(_OUTCOMES, one.agent, one.block):
                found[outcome] += acts
        return found

    def _removed_components(self, blocks: Iterable[RemovedSums]) -> list[RemovedComponent]:
        """In the order of the blocks."""
        return [RemovedComponent(*row) for one in blocks for row in self._rows(_COMPONENTS, one.agent, one.block)]


def removal_of(removals: Iterable[Removal], cycle: int) -> Removal | None:
    """The removal that a cycle was part of; None where it was none."""
    return next((one for one in removals if one.first_cycle <= cycle <= one.last_cycle), None)


def removed_words(removals: Iterable[Removal], agent: str, cycle: int) -> str:
    """A sentence about a cycle that was removed; empty where it was not."""
    removal = removal_of(removals, cycle)
    return (
        "" if removal is None else f"cycle {cycle} of {agent} was removed by {removal.why} on {removal.time:%Y-%m-%d}"
    )
