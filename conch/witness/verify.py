"""Whether marks are what was witnessed: nothing changed, missing, swapped or cut off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from sys import intern
from typing import Literal, NamedTuple

from conch.witness.canonical import mark_hash
from conch.witness.chain import GENESIS
from conch_schemas import Mark

Kind = Literal["changed", "missing", "swapped", "duplicate", "unlinked", "unwitnessed"]


@dataclass(frozen=True)
class Problem:
    """One thing that does not hold."""

    kind: Kind
    """`unlinked`: a link without an earlier source. `unwitnessed`: an act or a score without one (a tail was cut)."""
    agent: str | None
    """None where there is no mark."""
    sequence: int | None
    """Of the first mark concerned; None where there is none."""
    what: str
    """One sentence."""


class _Row(NamedTuple):
    """What is kept of a mark: a long chain's marks together are large."""

    sequence: int
    id: str
    previous: str
    hash: str
    links: tuple[tuple[str, str], ...]
    """(source, relation)."""


class Verification:
    """The marks of one agent, taken one after the other in the order they are kept in; some 400 bytes of each stay."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._rows: list[_Row] = []
        self._changed: list[Problem] = []
        self._swapped: list[Problem] = []
        self._acts: set[str | None] = set()
        self._sets: set[tuple[str | None, str]] = set()
        self._names: dict[str | None, str | None] = {}
        """Each action's id once."""

    def take(self, mark: Mark) -> None:
        """The next mark of the agent."""
        if mark_hash(mark) != mark.hash:
            what = f"Mark {mark.sequence} is not what its hash was taken over."
            self._changed.append(self._problem("changed", mark.sequence, what))
        if self._rows and mark.sequence < self._rows[-1].sequence:
            what = f"Mark {mark.sequence} stands after mark {self._rows[-1].sequence}."
            self._swapped.append(self._problem("swapped", mark.sequence, what))
        links = tuple((link.source, link.relation) for link in mark.links)
        previous = self._rows[-1].hash if self._rows and self._rows[-1].hash == mark.previous else mark.previous
        self._rows.append(_Row(mark.sequence, mark.id, previous, mark.hash, links))
        act = self._names.setdefault(mark.action_id, mark.action_id)
        if mark.domain == "action":
            self._acts.add(act)
        elif mark.domain == "score":
            self._sets.add((act, intern(mark.origin)))

    def broken(self) -> list[Problem]:
        """Everything wrong with the chain itself."""
        rows = sorted(self._rows, key=lambda row: row.sequence)
        return [*self._changed, *self._swapped, *self._gaps(rows), *self._apart(rows), *self._unlinked(rows)]

    def unwitnessed(self, acts: Iterable[str], scored: Iterable[tuple[str, str]]) -> list[Problem]:
        """What should have a mark here and has none; see `verify`."""
        return _unwitnessed(self._acts, self._sets, acts, scored)

    def _gaps(self, rows: Sequence[_Row]) -> Iterator[Problem]:
        expected = 0
        for row in rows:
            if row.sequence > expected:
                last = row.sequence - 1
                which = f"Mark {expected} is" if last == expected else f"Marks {expected} to {last} are"
                yield self._problem("missing", expected, f"{which} missing.")
            if row.sequence < expected:
                yield self._problem("duplicate", row.sequence, f"There are two marks {row.sequence}.")
            expected = row.sequence + 1

    def _apart(self, rows: Sequence[_Row]) -> Iterator[Problem]:
        """A row whose own hash was made anew: the next one still has the hash of what stood there."""
        if rows and rows[0].sequence == 0 and rows[0].previous != GENESIS:
            what = "Mark 0 does not begin a chain: the hash before it is not 64 zeros."
            yield self._problem("changed", 0, what)
        for earlier, later in pairwise(rows):
            if later.sequence == earlier.sequence + 1 and later.previous != earlier.hash:
                what = f"Mark {later.sequence} follows another mark {earlier.sequence} than the one that stands there."
                yield self._problem("changed", later.sequence, what)

    def _unlinked(self, rows: Sequence[_Row]) -> Iterator[Problem]:
        place = {row.id: row.sequence for row in rows}
        for row in rows:
            for source, relation in row.links:
                # A plan's path is no mark, and is not looked up.
                if relation == "FULFILLS" and source not in place:
                    continue
                if place.get(source, row.sequence) >= row.sequence:
                    what = f"Mark {row.sequence} links to {source}, which is no earlier mark."
                    yield self._problem("unlinked", row.sequence, what)

    def _problem(self, kind: Kind, sequence: int, what: str) -> Problem:
        return Problem(kind, self._agent, sequence, what)


def verify(marks: Iterable[Mark], acts: Iterable[str], scored: Iterable[tuple[str, str]] = ()) -> list[Problem]:
    """Everything wrong with `marks`, in the order they are kept in; empty: the chains hold.

    `acts` are the ids of the actions that must have a mark, `scored` the (action's id, scorer) of the score sets that
    must have one. Each agent's marks are a chain of their own.
    """
    chains: dict[str, Verification] = {}
    for mark in marks:
        if mark.agent not in chains:
            chains[mark.agent] = Verification(mark.agent)
        chains[mark.agent].take(mark)
    marked = {act for chain in chains.values() for act in chain._acts}
    sets = {one for chain in chains.values() for one in chain._sets}
    broken = [problem for _, chain in sorted(chains.items()) for problem in chain.broken()]
    return [*broken, *_unwitnessed(marked, sets, acts, scored)]


def _unwitnessed(
    marked: set[str | None], sets: set[tuple[str | None, str]], acts: Iterable[str], scored: Iterable[tuple[str, str]]
) -> list[Problem]:
    return [
        *(
            Problem("unwitnessed", None, None, f"Action {act} has no mark.")
            for act in dict.fromkeys(acts)
            if act not in marked
        ),
        *(
            Problem("unwitnessed", None, None, f"What {scorer} scored of action {act} has no mark.")
            for act, scorer in dict.fromkeys(scored)
            if (act, scorer) not in sets
        ),
    ]
