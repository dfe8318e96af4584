"""Verification of marks: finds marks that were changed, removed, swapped or cut off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from sys import intern
from typing import Literal, NamedTuple

from conch.witness.canonical import mark_hash
from conch.witness.chain import GENESIS
from conch_schemas import Mark

Kind = Literal["changed", "missing", "swapped", "duplicate", "unlinked", "unwitnessed"]


@dataclass(frozen=True)
class MarkProblem:
    """One violation found in a chain."""

    kind: Kind
    """`unlinked`: a link without an earlier source. `unwitnessed`: an act or a score without a mark (a cut tail)."""
    agent: str | None
    """None where there is no mark."""
    sequence: int | None
    """Of the first mark affected; None where there is none."""
    what: str
    """One sentence."""


class _MarkDigest(NamedTuple):
    """The fields of a mark that verification keeps: whole marks of a long chain would take much memory."""

    sequence: int
    id: str
    previous: str
    hash: str
    links: tuple[tuple[str, str], ...]
    """(source, relation)."""


@dataclass(frozen=True)
class ChainStart:
    """The start of the stored part of a chain, from the record of the marks that were removed before it."""

    first: int
    """Sequence of the first mark that was removed: marks before it are missing."""
    sequence: int
    """Sequence of the first mark that must be present."""
    previous: str
    """The previous hash that this mark must have."""


_WHOLE = ChainStart(0, 0, GENESIS)


class Verification:
    """Verifies the marks of one agent, one after the other in stored order; it keeps some 400 bytes of each."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._start = _WHOLE
        self._rows: list[_MarkDigest] = []
        self._changed: list[MarkProblem] = []
        self._swapped: list[MarkProblem] = []
        self._acts: set[str | None] = set()
        self._sets: set[tuple[str | None, str]] = set()
        self._names: dict[str | None, str | None] = {}
        """Each action's id, stored once."""

    def take(self, mark: Mark) -> None:
        """Add the next mark of the agent."""
        if mark_hash(mark) != mark.hash:
            what = f"Mark {mark.sequence} is not what its hash was taken over."
            self._changed.append(self._problem("changed", mark.sequence, what))
        if self._rows and mark.sequence < self._rows[-1].sequence:
            what = f"Mark {mark.sequence} stands after mark {self._rows[-1].sequence}."
            self._swapped.append(self._problem("swapped", mark.sequence, what))
        links = tuple((link.source, link.relation) for link in mark.links)
        previous = self._rows[-1].hash if self._rows and self._rows[-1].hash == mark.previous else mark.previous
        self._rows.append(_MarkDigest(mark.sequence, mark.id, previous, mark.hash, links))
        act = self._names.setdefault(mark.action_id, mark.action_id)
        if mark.domain == "action":
            self._acts.add(act)
        elif mark.domain == "score":
            self._sets.add((act, intern(mark.origin)))

    def begin_at(self, start: ChainStart | None) -> None:
        """Set the record of removed marks, read after the marks: those before it may be gone or present."""
        self._start = start or _WHOLE

    def broken(self) -> list[MarkProblem]:
        """All violations within the chain itself."""
        kept = (row for row in self._rows if row.sequence >= self._start.sequence)
        rows = sorted(kept, key=lambda row: row.sequence)
        return [*self._changed, *self._swapped, *self._gaps(rows), *self._apart(rows), *self._unlinked(rows)]

    def unwitnessed(self, acts: Iterable[str], scored: Iterable[tuple[str, str]]) -> list[MarkProblem]:
        """Acts and scores that should have a mark and have none; see `verify`."""
        return _unwitnessed(self._acts, self._sets, acts, scored)

    def _gaps(self, rows: Sequence[_MarkDigest]) -> Iterator[MarkProblem]:
        if self._start.first > 0:
            yield self._missing(0, self._start.first - 1)
        expected = self._start.sequence
        for row in rows:
            if row.sequence > expected:
                yield self._missing(expected, row.sequence - 1)
            if row.sequence < expected:
                yield self._problem("duplicate", row.sequence, f"There are two marks {row.sequence}.")
            expected = row.sequence + 1

    def _missing(self, first: int, last: int) -> MarkProblem:
        which = f"Mark {first} is" if last == first else f"Marks {first} to {last} are"
        return self._problem("missing", first, f"{which} missing.")

    def _apart(self, rows: Sequence[_MarkDigest]) -> Iterator[MarkProblem]:
        """Finds a changed row with a recomputed hash: the next row still has the original's hash."""
        first = next((row for row in rows if row.sequence == self._start.sequence), None)
        if first is not None and first.previous != self._start.previous:
            what = (
                f"Mark {first.sequence} does not follow the last mark that was removed."
                if first.sequence
                else "Mark 0 does not begin a chain: the hash before it is not 64 zeros."
            )
            yield self._problem("changed", first.sequence, what)
        for earlier, later in pairwise(rows):
            if later.sequence == earlier.sequence + 1 and later.previous != earlier.hash:
                what = f"Mark {later.sequence} follows another mark {earlier.sequence} than the one that stands there."
                yield self._problem("changed", later.sequence, what)

    def _unlinked(self, rows: Sequence[_MarkDigest]) -> Iterator[MarkProblem]:
        place = {row.id: row.sequence for row in rows}
        for row in rows:
            for source, relation in row.links:
                # A plan's path is not a mark and is not looked up; a mark that was removed cannot be.
                if source not in place and (relation == "FULFILLS" or self._start.sequence):
                    continue
                if place.get(source, row.sequence) >= row.sequence:
                    what = f"Mark {row.sequence} links to {source}, which is no earlier mark."
                    yield self._problem("unlinked", row.sequence, what)

    def _problem(self, kind: Kind, sequence: int, what: str) -> MarkProblem:
        return MarkProblem(kind, self._agent, sequence, what)


def verify(
    marks: Iterable[Mark],
    acts: Iterable[str],
    scored: Iterable[tuple[str, str]] = (),
    starts: Mapping[str, ChainStart] | None = None,
) -> list[MarkProblem]:
    """All violations in `marks`, given in stored order; empty: the chains are valid.

    `acts` are the ids of the actions that must have a mark, `scored` the (action's id, scorer) of the score sets that
    must have one. Each agent's marks are a chain of their own; `starts`: for agents with removed marks.
    """
    chains: dict[str, Verification] = {}
    for mark in marks:
        if mark.agent not in chains:
            chains[mark.agent] = Verification(mark.agent)
            chains[mark.agent].begin_at((starts or {}).get(mark.agent))
        chains[mark.agent].take(mark)
    marked = {act for chain in chains.values() for act in chain._acts}
    sets = {one for chain in chains.values() for one in chain._sets}
    broken = [problem for _, chain in sorted(chains.items()) for problem in chain.broken()]
    return [*broken, *_unwitnessed(marked, sets, acts, scored)]


def _unwitnessed(
    marked: set[str | None], sets: set[tuple[str | None, str]], acts: Iterable[str], scored: Iterable[tuple[str, str]]
) -> list[MarkProblem]:
    return [
        *(
            MarkProblem("unwitnessed", None, None, f"Action {act} has no mark.")
            for act in dict.fromkeys(acts)
            if act not in marked
        ),
        *(
            MarkProblem("unwitnessed", None, None, f"What {scorer} scored of action {act} has no mark.")
            for act, scorer in dict.fromkeys(scored)
            if (act, scorer) not in sets
        ),
    ]
