"""Whether marks are what was witnessed: nothing changed, missing, swapped or cut off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Literal

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


def verify(marks: Iterable[Mark], acts: Iterable[str], scored: Iterable[tuple[str, str]] = ()) -> list[Problem]:
    """Everything wrong with `marks`, in the order they are kept in; empty: the chains hold.

    `acts` are the ids of the actions that must have a mark, `scored` the (action's id, scorer) of the score sets that
    must have one. Each agent's marks are a chain of their own.
    """
    rows = list(marks)
    problems: list[Problem] = []
    for _, chain in groupby(sorted(rows, key=lambda mark: mark.agent), key=lambda mark: mark.agent):
        problems += _chain(list(chain))
    marked = {mark.action_id for mark in rows if mark.domain == "action"}
    problems += (
        Problem("unwitnessed", None, None, f"Action {act} has no mark.")
        for act in dict.fromkeys(acts)
        if act not in marked
    )
    sets = {(mark.action_id, mark.origin) for mark in rows if mark.domain == "score"}
    problems += (
        Problem("unwitnessed", None, None, f"What {scorer} scored of action {act} has no mark.")
        for act, scorer in dict.fromkeys(scored)
        if (act, scorer) not in sets
    )
    return problems


def _chain(rows: Sequence[Mark]) -> list[Problem]:
    in_order = sorted(rows, key=lambda mark: mark.sequence)
    return [*_changed(rows), *_order(rows), *_gaps(in_order), *_broken(in_order), *_links(in_order)]


def _changed(rows: Sequence[Mark]) -> Iterator[Problem]:
    for mark in rows:
        if mark_hash(mark) != mark.hash:
            yield _problem("changed", mark, f"Mark {mark.sequence} is not what its hash was taken over.")


def _order(rows: Sequence[Mark]) -> Iterator[Problem]:
    for earlier, later in pairwise(rows):
        if later.sequence < earlier.sequence:
            yield _problem("swapped", later, f"Mark {later.sequence} stands after mark {earlier.sequence}.")


def _gaps(rows: Sequence[Mark]) -> Iterator[Problem]:
    expected = 0
    for mark in rows:
        if mark.sequence > expected:
            last = mark.sequence - 1
            which = f"Mark {expected} is" if last == expected else f"Marks {expected} to {last} are"
            yield Problem("missing", mark.agent, expected, f"{which} missing.")
        if mark.sequence < expected:
            yield _problem("duplicate", mark, f"There are two marks {mark.sequence}.")
        expected = mark.sequence + 1


def _broken(rows: Sequence[Mark]) -> Iterator[Problem]:
    """A row whose own hash was made anew: the next one still has the hash of what stood there."""
    if rows and rows[0].sequence == 0 and rows[0].previous != GENESIS:
        yield _problem("changed", rows[0], "Mark 0 does not begin a chain: the hash before it is not 64 zeros.")
    for earlier, later in pairwise(rows):
        if later.sequence == earlier.sequence + 1 and later.previous != earlier.hash:
            what = f"Mark {later.sequence} follows another mark {earlier.sequence} than the one that stands there."
            yield _problem("changed", later, what)


def _links(rows: Sequence[Mark]) -> Iterator[Problem]:
    place = {mark.id: mark.sequence for mark in rows}
    for mark in rows:
        for link in mark.links:
            # A plan's path is no mark, and is not looked up.
            if link.relation == "FULFILLS" and link.source not in place:
                continue
            if place.get(link.source, mark.sequence) >= mark.sequence:
                what = f"Mark {mark.sequence} links to {link.source}, which is no earlier mark."
                yield _problem("unlinked", mark, what)


def _problem(kind: Kind, mark: Mark, what: str) -> Problem:
    return Problem(kind, mark.agent, mark.sequence, what)
