"""The comparison of what marks seal with what is stored: in the experience store, and on the stream."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Final

from conch.bus import Bus
from conch.experience import ExperienceReader
from conch.views.base import View
from conch.views.witness.judging import judge_unsealed
from conch.views.witness.streamed import SealedEvent, StorePlace, StreamComparison
from conch.views.witness.unsealed import UnsealedRows
from conch.witness import (
    CORRECTION,
    PROMPT,
    REFLECTION,
    Difference,
    ForgottenRecords,
    MarkProblem,
    StoredAct,
    Verification,
    corrections_of,
    differences,
    is_joint,
    is_without_words,
    sealed_events,
    sealed_facts,
    text_digest,
    unsealed_contexts,
    unsealed_reflection,
    unsealed_scores,
)
from conch_schemas import Mark

_BESIDE: Final = frozenset({"needs", "weights", "review", "fork", "training"})
"""Domains of the marks whose events a store keeps in rows of their own."""


class Compared(View):
    """How much of what the marks seal was compared."""

    facts: int
    """Sealed facts: events, scores and totals."""
    pruned: int
    """Of those, facts of acts that retention removed."""
    removed: int = 0
    """Acts that retention removed, by its record: of these the store keeps sums, which nothing proves."""
    forgotten: int = 0
    """Of those, facts of acts that were removed at a person's request."""
    stream: int | None
    """Sealed events that the stream still has; None: the stream was not read."""
    unproven: int = 0
    """Rows (thoughts, claims, prompts, reflections, weight sets and others) of a version that did not seal them, which
    the stream does not have."""
    unstored: int = 0
    """Marks on the stream that the store has not read yet: a run stores them."""


class SealedFacts:
    """Compares the marks of one agent with its store, piece by piece, then with the stream.

    Keeps some 200 bytes of each sealed event for the comparison with the stream.
    """

    def __init__(self, agent: str, *, stream: bool = True, forgotten: ForgottenRecords | None = None) -> None:
        """`forgotten`: the records of what was removed at a person's request."""
        self._agent, self.with_stream, self._records = agent, stream, forgotten or ForgottenRecords()
        self._removed = self._records.actions
        self._events: dict[str, SealedEvent] = {}
        self._beside: dict[str, SealedEvent] = {}
        """Those of the sealed events that a store keeps beside acts, by id."""
        self._prompts: dict[str, set[str]] = {}
        """By policy: the sealed digests of its system prompt."""
        self._unnamed: set[str] = set()
        """Ids of the marks that name no act."""
        self._named: set[str] = set()
        """Ids of the marks whose rows name an act."""
        self._needs: dict[str, str] = {}
        """By the event's id: the action of a stored change of needs that no mark sealed so far."""
        self._corrections: dict[tuple[str, str], str] = {}
        """(action, kind) -> digest of the row of a corrected answer that no mark sealed so far."""
        self._places: dict[int, int] = {}
        """Sequence -> place of the marks."""
        self._first_act = math.inf
        """Sequence of the first mark of an act that is stored."""
        self.unsealed = UnsealedRows()
        self.problems: list[MarkProblem] = []
        self.facts = self.pruned = self.removed = self.forgotten = self.unproven = 0
        self.waiting: set[str] = set()
        """Actions of which something waits for its mark."""
        self.unread: set[str] = set()
        """Records of removals that the witness has not read, or whose mark the store has not."""
        self.stream: int | None = None
        self.recorded: Set[str] = frozenset()
        """Actions with an `experience.recorded` on the stream, behind the store's position."""
        self.unstored = 0
        """Marks on the stream that the store has not read."""

    def take(self, reader: ExperienceReader, marks: Sequence[Mark]) -> None:
        """Compare the next marks with the rows of their acts. Raises StoreError."""
        stored = reader.chain.stored({mark.action_id for mark in marks if mark.action_id is not None})
        for mark in marks:
            self.facts += len(mark.facts) or 1
            act = stored.get(mark.action_id or "")
            self._remember(mark, act)
            if act is not None:
                self._take_unsealed(reader, mark, act)
            self._take_named(mark, act)
            found = list(differences(mark, act))
            if found and self._is_removed(mark, act):
                self.forgotten += len(found)
            elif found and mark.action_id not in stored and self._is_pruned(reader, mark):
                self.pruned += len(found)
            else:
                self.problems += [self._problem(mark, one) for one in self._unexplained(reader, mark, found)]

    def _is_removed(self, mark: Mark, act: StoredAct | None) -> bool:
        """Whether what the mark sealed was removed at a person's request. A run may take the act of a removed decision
        afterwards, whose own marks hold as any other."""
        is_stored = act is not None and act.act is not None
        return mark.action_id in self._removed and (not is_stored or self._records.has(mark))

    def _remember(self, mark: Mark, act: StoredAct | None) -> None:
        """Keep what the rows beside acts, and the stream, are compared with."""
        places: dict[str, int | None] = {} if act is None else {**act.places, mark.event: _place_of(mark, act)}
        if self.with_stream:
            self._events |= {
                identity: SealedEvent(
                    content,
                    mark.sequence,
                    places.get(identity),
                    identity in self._records.events,
                    _others(self._events.get(identity), content),
                )
                for identity, content in sealed_events(mark)
            }
        if mark.domain in _BESIDE and not (mark.domain == "needs" and mark.action_id):  # those are among the act's rows
            is_forgotten = is_without_words(mark) or mark.action_id in self._removed
            others = _others(self._beside.get(mark.event), mark.content)
            self._beside[mark.event] = SealedEvent(mark.content, mark.sequence, None, is_forgotten, others)
        for fact in sealed_facts(mark) if mark.domain == "policy" else ():
            if fact.kind == PROMPT:
                self._prompts.setdefault(fact.id, set()).add(fact.content)

    def _take_unsealed(self, reader: ExperienceReader, mark: Mark, act: StoredAct) -> None:
        assert mark.action_id is not None
        if mark.domain == "action":
            self._first_act = min(self._first_act, mark.sequence)
            if act.context_digests():
                self.unsealed.since = min(self.unsealed.since, act.seq)
            else:
                self.unsealed.is_older = True
        for kind, digest in unsealed_contexts(mark, act).items():
            self.unsealed.contexts[mark.action_id, kind] = digest
        if (reflection := unsealed_reflection(mark, act)) is not None and not self._is_elsewhere(reader, mark):
            self.unsealed.contexts[mark.action_id, REFLECTION] = reflection
            if act.context_digests():
                self.unsealed.new_acts.add(mark.action_id)
        if is_joint(mark) and unsealed_scores([mark], act):
            self.unsealed.actions.add(mark.action_id)

    def _take_named(self, mark: Mark, act: StoredAct | None) -> None:
        """Keep what no mark has sealed so far of the rows that are found by their act."""
        action = mark.action_id
        if action is None:
            self._unnamed.add(mark.id)
            return
        if mark.domain == "action" and act is not None:
            self._named |= act.marks or set()
            self._needs |= dict.fromkeys(act.needs, action)
            corrections = corrections_of(act)
            self._corrections |= {(action, kind): digest for kind, digest in corrections.items()}
            if corrections and act.context_digests():
                self.unsealed.new_acts.add(action)
        for fact in sealed_facts(mark):
            self._needs.pop(fact.id, None)
            if fact.kind == CORRECTION and act is not None:
                kinds = corrections_of(act)
                sealed = next((kind for kind, digest in kinds.items() if digest == fact.content), "")
                self._corrections.pop((action, sealed), None)

    def _is_elsewhere(self, reader: ExperienceReader, mark: Mark) -> bool:
        """Whether another mark of the act seals its reflection."""
        assert mark.action_id is not None
        marks = reader.chain.marks_of(self._agent, mark.action_id)
        return any(fact.kind == REFLECTION for other in marks for fact in sealed_facts(other))

    def finish(self, reader: ExperienceReader, chain: Verification) -> None:
        """Compare the rows that no act has, and find the acts, scores and totals that no mark seals; after all marks.
        Raises StoreError."""
        self._take_beside(reader)
        self._take_prompts(reader)
        self._places = reader.chain.mark_places(self._agent) if self.with_stream else {}
        ends = reader.chain.ends()
        if ends != sorted(ends) or (ends or [0])[-1] != reader.chain.base():
            said = "The places at which the store says that its streams ended do not fit each other."
            self.problems.append(MarkProblem("altered", self._agent, None, said))
        self.problems += _unfounded_rows(reader, self._agent)
        for identity in sorted(self._named & self._unnamed):
            said = f"The row of mark {identity} names an act, and the mark names none."
            self.problems.append(MarkProblem("altered", self._agent, None, said))
        self.unsealed.actions |= set(self._needs.values())
        self.unsealed.contexts |= self._corrections
        self.unsealed.find(reader, self._agent, chain)

    def _take_beside(self, reader: ExperienceReader) -> None:
        named: set[str] = set()
        for row in reader.chain.beside(self._agent):
            named.add(row.id)
            sealed = self._beside.get(row.id)
            if row.id in self._events:
                self._events[row.id] = self._events[row.id]._replace(place=row.seq)
            if not row.is_indexed:
                self.problems.append(
                    MarkProblem("altered", self._agent, None, f"{row.words} in the store is not what was recorded.")
                )
            elif sealed is None or not sealed.holds(row.body):
                self.unsealed.events[row.id] = row
            if sealed is not None and not sealed.holds(row.body):
                self.unsealed.contradicted.add(row.id)
        self.removed = sum(one.acts for one in reader.retention.removals(self._agent))
        for identity, sealed in self._beside.items():
            if identity in named:
                continue
            if sealed.is_forgotten:
                self.forgotten += 1
            elif self.removed and sealed.sequence < self._first_act:
                self.pruned += 1
            else:
                what = f"The event {identity}, which mark {sealed.sequence} seals, is gone from the store."
                self.problems.append(MarkProblem("gone", self._agent, sealed.sequence, what))

    def _take_prompts(self, reader: ExperienceReader) -> None:
        stored = reader.chain.prompts()
        for policy, digests in self._prompts.items():
            if policy not in stored and self._removed:
                self.forgotten += len(digests)  # a request removes the prompts that hold the person's words
            elif policy not in stored:
                self.problems.append(
                    MarkProblem(
                        "gone", self._agent, None, f"The system prompt of policy {policy} is gone from the store."
                    )
                )
            elif text_digest(stored[policy][0]) not in digests:
                what = f"The system prompt of policy {policy} in the store is not what was sealed."
                self.problems.append(MarkProblem("altered", self._agent, None, what))
        bare = stored.keys() - self._prompts.keys()
        if bare:
            sealed = {
                (fact.id, fact.content)
                for mark in reader.chain.policy_marks_of_others(self._agent)
                for fact in sealed_facts(mark)
            }
            bare = {policy for policy in bare if (policy, text_digest(stored[policy][0])) not in sealed}
        for policy in bare:
            self.unsealed.prompts[policy] = stored[policy]

    def _is_pruned(self, reader: ExperienceReader, mark: Mark) -> bool:
        return bool(mark.action_id and reader.chain.removed_among(self._agent, {mark.action_id}))

    def _unexplained(self, reader: ExperienceReader, mark: Mark, found: Sequence[Difference]) -> list[Difference]:
        """Those of the differences that no other mark of the act explains: of a fact that was said twice with two
        contents, which a scorer that is reset may do, the store keeps the first."""
        if not found or mark.action_id is None:
            return []
        stored = reader.chain.stored([mark.action_id]).get(mark.action_id)
        held: set[tuple[str, str]] = set()
        for other in reader.chain.marks_of(self._agent, mark.action_id):
            wrong = {(one.kind, one.id) for one in differences(other, stored)}
            held |= {(fact.kind, fact.id) for fact in sealed_facts(other)} - wrong
        return [one for one in found if (one.kind, one.id) not in held]

    def _problem(self, mark: Mark, found: Difference) -> MarkProblem:
        what = _sentence(found.what, found.action)
        if found.gone:
            return MarkProblem(
                "gone", self._agent, mark.sequence, f"{what}, which mark {mark.sequence} seals, is gone from the store."
            )
        return MarkProblem(
            "altered", self._agent, mark.sequence, f"{what} in the store is not what mark {mark.sequence} sealed."
        )

    async def prove(self, bus: Bus | None, chain: Verification, store: StorePlace) -> None:
        """Compare the sealed events that the stream still has, its marks with those of the chain, and what no mark
        seals with what the stream says of it; without a bus, that is unproven. Raises BusError."""
        stream = StreamComparison(self._agent, self._events, self.unsealed, store, self._places)
        if bus is not None:
            await stream.read(bus, chain, whole=self.with_stream)
            self.stream = stream.held if self.with_stream else None
        judgement = judge_unsealed(self._agent, self.unsealed, stream)
        self.problems += [*stream.problems, *judgement.problems]
        self.unstored = sum(1 for _ in stream.unread_marks())
        self.waiting, self.unproven = judgement.waiting, judgement.unproven
        self.unread = stream.unread_records | {mark.event for mark in stream.unread_marks()}
        self.recorded = stream.recorded

    def compared(self) -> Compared:
        """The counts so far."""
        return Compared(
            facts=self.facts,
            pruned=self.pruned,
            removed=self.removed,
            forgotten=self.forgotten,
            stream=self.stream,
            unproven=self.unproven,
            unstored=self.unstored,
        )


def _unfounded_rows(reader: ExperienceReader, agent: str) -> Iterator[MarkProblem]:
    """Rows of acts that are not stored, sums over removed cycles that do not fit the record of their removal, events
    for the stream that the store did not record."""
    for what, number in reader.chain.strays():
        said = f"A row of the store ({what}) is of an act {number} that is not stored."
        yield MarkProblem("unwitnessed", agent, None, said)
    for what in reader.chain.unfit_sums(agent):
        yield MarkProblem("altered", agent, None, f"The sums over removed cycles {what}.")
    for what in reader.chain.unfit_outbox(agent):
        yield MarkProblem("altered", agent, None, f"Of the events that wait for their publication, {what}.")


def _place_of(mark: Mark, act: StoredAct) -> int | None:
    """The place that an act's rows say the event of a mark to have; None: they say none."""
    if mark.domain == "action":
        return None if act.act is None else act.seq
    corrected = {fact.content for fact in sealed_facts(mark) if fact.kind == CORRECTION}
    places = [act.places.get(kind) for kind, digest in corrections_of(act).items() if digest in corrected]
    return places[0] if len(places) == 1 else act.places.get(mark.event)


def _others(before: SealedEvent | None, content: str) -> tuple[str, ...]:
    """What earlier marks seal of an event beside this content."""
    return () if before is None else tuple({*before.others, before.content} - {content})


def _sentence(what: str, action: str) -> str:
    return f"{what[0].upper()}{what[1:]} of action {action}"


def compared_words(found: Compared) -> str:
    """What was compared, in a line."""
    said = f"{found.facts} sealed facts compared with the store"
    if found.stream is not None:
        said += f", {found.stream} of them with the stream"
    if found.pruned:
        said += f"; {found.pruned} pruned by store.keep"
    if found.removed:
        said += f"; nothing proves the sums that are kept of {found.removed} acts that store.keep removed"
    if found.unproven:
        said += (
            f"; {found.unproven} rows were recorded by a version that sealed less, and the stream has them no more: "
            "nothing proves them"
        )
    if found.unstored:
        said += f"; {found.unstored} marks on the stream are not stored yet: the next run stores them"
    return f"{said}; {found.forgotten} removed at a person's request" if found.forgotten else said


def pieces(marks: Iterable[Mark], size: int = 500) -> Iterable[list[Mark]]:
    """The marks in lists of at most `size`."""
    piece: list[Mark] = []
    for mark in marks:
        piece.append(mark)
        if len(piece) == size:
            yield piece
            piece = []
    if piece:
        yield piece
