"""Verification of marks: finds marks that were changed, removed, swapped or cut off."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from sys import intern
from typing import Literal, NamedTuple

from conch.witness.canonical import mark_hash
from conch.witness.chain import GENESIS
from conch.witness.facts import FIGURES, RECORDED, SCORE, VERDICT, SealedFact, sealed_facts
from conch.witness.forgotten import ForgottenRecords
from conch_schemas import Mark

ProblemKind = Literal[
    "changed",
    "missing",
    "swapped",
    "duplicate",
    "unlinked",
    "unwitnessed",
    "altered",
    "gone",
    "unsigned",
    "forged",
    "unread",
]


@dataclass(frozen=True)
class MarkProblem:
    """One violation found in a chain."""

    kind: ProblemKind
    """`unlinked`: a link without an earlier source. `unwitnessed`: an act, a score or a total without a mark (a cut
    tail). `altered`, `gone`: a fact that is not what its mark sealed, or is no longer there. `unsigned`, `forged`: no
    checkpoint of the chain, or one that does not fit it. `unread`: a stream that could not be read."""
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

    def __init__(self, agent: str, forgotten: ForgottenRecords | None = None) -> None:
        """`forgotten`: the records of what was removed at a person's request."""
        self.agent = agent
        self.forgotten = forgotten or ForgottenRecords()
        self._start = _WHOLE
        self._rows: list[_MarkDigest] = []
        self._changed: list[MarkProblem] = []
        self._swapped: list[MarkProblem] = []
        self._acts: set[str | None] = set()
        self._sets: set[tuple[str | None, str]] = set()
        self._revisions: dict[str | None, int] = {}
        """Action -> the last revision of its experience that a mark seals."""
        self._placed: dict[str | None, int] = {}
        """Action -> the last revision of its experience whose place and time a mark seals."""
        self._names: dict[str | None, str | None] = {}
        """Each action's id, stored once."""

    def take(self, mark: Mark) -> None:
        """Add the next mark of the agent."""
        self.forgotten.take(mark)
        if mark_hash(mark) != mark.hash and not self.forgotten.has(mark):
            what = f"Mark {mark.sequence} is not what its hash was taken over."
            self._changed.append(self._problem("changed", mark.sequence, what))
        if self._rows and mark.sequence < self._rows[-1].sequence:
            what = f"Mark {mark.sequence} stands after mark {self._rows[-1].sequence}."
            self._swapped.append(self._problem("swapped", mark.sequence, what))
        links = tuple((link.source, link.relation) for link in mark.links)
        previous = self._rows[-1].hash if self._rows and self._rows[-1].hash == mark.previous else mark.previous
        self._rows.append(_MarkDigest(mark.sequence, mark.id, previous, mark.hash, links))
        act = self._names.setdefault(mark.action_id, mark.action_id)
        if self.forgotten.is_of_removed(mark):
            return
        if mark.domain == "action":
            self._acts.add(act)
        elif mark.domain == "score":
            self._sets.add((act, intern(mark.origin)))
            for fact in sealed_facts(mark) if mark.facts else ():
                self._take_fact(act, fact)

    def _take_fact(self, act: str | None, fact: SealedFact) -> None:
        if fact.kind == SCORE:
            self._sets.add((act, intern(fact.id.partition("/")[0])))
        elif fact.kind in (VERDICT, FIGURES) and fact.id.isdecimal() and len(fact.id) < 10:
            self._revisions[act] = max(int(fact.id), self._revisions.get(act, 0))
        elif fact.kind == RECORDED and fact.id.isdecimal() and len(fact.id) < 10:
            self._placed[act] = max(int(fact.id), self._placed.get(act, 0))

    def has_act(self, action: str) -> bool:
        """Whether a mark of the chain seals this act."""
        return action in self._acts

    def sealed_revision(self, action: str) -> int:
        """The last revision of the action's experience that a mark seals; 0: none does."""
        return self._revisions.get(action, 0)

    def has_sealed_place(self, action: str) -> bool:
        """Whether a mark seals the place and time of the last revision of the action's experience. Only versions from
        0.2.0 on seal these, and they judge as this one does."""
        return 0 < self._placed.get(action, 0) == self._revisions.get(action, 0)

    def head(self, sequence: int) -> str | None:
        """The hash of the mark of this sequence, with the record of removed marks; None where there is none."""
        if sequence == self._start.sequence - 1:
            return self._start.previous
        at = bisect_left(self._rows, sequence, key=attrgetter("sequence"))
        return self._rows[at].hash if at < len(self._rows) and self._rows[at].sequence == sequence else None

    @property
    def length(self) -> int:
        """How many marks the chain has, the removed ones among them."""
        return max((row.sequence + 1 for row in self._rows[-1:]), default=self._start.sequence)

    @property
    def start(self) -> int:
        """Sequence of the first mark that must be present."""
        return self._start.sequence

    def begin_at(self, start: ChainStart | None) -> None:
        """Set the record of removed marks, read after the marks: those before it may be gone or present."""
        self._start = start or _WHOLE

    def broken(self) -> list[MarkProblem]:
        """All violations within the chain itself."""
        kept = (row for row in self._rows if row.sequence >= self._start.sequence)
        rows = sorted(kept, key=lambda row: row.sequence)
        return [*self._changed, *self._swapped, *self._gaps(rows), *self._apart(rows), *self._unlinked(rows)]

    def unrecorded(self, waiting: Set[str]) -> list[MarkProblem]:
        """Records of removals that no mark seals, but for those that wait for their mark, by id."""
        return [
            MarkProblem("forged", self.agent, None, f"The record {record} of a person's request has no mark.")
            for record in sorted(self.forgotten.unsealed - waiting)
        ]

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
        earlier: dict[str, int] = {}
        for row in rows:
            # The source of a link may be a mark that was removed, which cannot be looked up.
            links = [link for link in row.links if link[0] in place or not self._start.sequence]
            for link in links:
                found = appended(place if link[0] in place else earlier, "", row.sequence, [link])
                if found != "ok":
                    what = f"Mark {row.sequence} links to {link[0]}, which is no earlier mark."
                    yield self._problem("unlinked", row.sequence, what)
            if appended(earlier, row.id, row.sequence) == "duplicate_mark" and earlier[row.id] != row.sequence:
                what = f"Mark {row.sequence} has the id of mark {earlier[row.id]}."
                yield self._problem("duplicate", row.sequence, what)
            earlier.setdefault(row.id, row.sequence)

    def _problem(self, kind: ProblemKind, sequence: int, what: str) -> MarkProblem:
        return MarkProblem(kind, self.agent, sequence, what)


def appended(
    places: Mapping[str, int], mark: str, place: int, links: Iterable[tuple[str, str]] = ()
) -> Literal["ok", "duplicate_mark", "mark_not_found", "causality_violation"]:
    """The result of appending the mark of this id at `place`, its sequence, to the marks in `places`.

    `links`: (source, relation). The source of a link must be in `places`, and earlier. A FULFILLS link may come from a
    plan's path, which is no mark and is not looked up.
    """
    if mark in places:
        return "duplicate_mark"
    for source, relation in links:
        if source not in places and relation != "FULFILLS":
            return "mark_not_found"
        if source in places and places[source] >= place:
            return "causality_violation"
    return "ok"


def verify(
    marks: Iterable[Mark],
    acts: Iterable[str],
    scored: Iterable[tuple[str, str]] = (),
    starts: Mapping[str, ChainStart] | None = None,
    recorded: Iterable[tuple[str, int]] = (),
) -> list[MarkProblem]:
    """All violations in `marks`, given in stored order; empty: the chains are valid.

    `acts` are the ids of the actions that must have a mark, `scored` the (action's id, scorer) of the score sets that
    must have one, `recorded` the (action's id, revision) of the experiences whose last revision must. Each agent's
    marks are a chain of their own; `starts`: for agents with removed marks.
    """
    chains: dict[str, Verification] = {}
    for mark in marks:
        if mark.agent not in chains:
            chains[mark.agent] = Verification(mark.agent)
            chains[mark.agent].begin_at((starts or {}).get(mark.agent))
        chains[mark.agent].take(mark)
    marked = {act for chain in chains.values() for act in chain._acts}
    sets = {one for chain in chains.values() for one in chain._sets}
    revisions = {act: one for chain in chains.values() for act, one in chain._revisions.items()}
    broken = [problem for _, chain in sorted(chains.items()) for problem in chain.broken()]
    return [*broken, *_unwitnessed(marked, sets, revisions, acts, scored, recorded)]


def _unwitnessed(
    marked: set[str | None],
    sets: set[tuple[str | None, str]],
    revisions: Mapping[str | None, int],
    acts: Iterable[str],
    scored: Iterable[tuple[str, str]],
    recorded: Iterable[tuple[str, int]],
) -> list[MarkProblem]:
    bare = [f"Action {act} has no mark." for act in dict.fromkeys(acts) if act not in marked]
    bare += [
        f"What {scorer} scored of action {act} has no mark."
        for act, scorer in dict.fromkeys(scored)
        if (act, scorer) not in sets and act not in revisions  # a set that was lost with its stream is in the verdict
    ]
    bare += [
        f"Revision {revision} of the total of action {act} has no mark."
        for act, revision in recorded
        if 0 < revisions.get(act, 0) < revision
    ]
    return [MarkProblem("unwitnessed", None, None, what) for what in bare]
