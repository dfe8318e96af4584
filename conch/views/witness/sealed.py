"""The comparison of what marks seal with what is stored: in the experience store, and on the stream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from conch.bus import Bus
from conch.experience import ExperienceReader
from conch.views.base import View
from conch.witness import (
    Difference,
    MarkProblem,
    StoredAct,
    Verification,
    differences,
    is_event,
    score_words,
    sealed_events,
    sealed_facts,
    unsealed_scores,
)
from conch_schemas import (
    ActApproved,
    ActDenied,
    ActionTaken,
    AgentPaused,
    AgentResumed,
    AlarmRaised,
    AnswerRated,
    ContractViolationError,
    Event,
    GoalAccepted,
    GoalDropped,
    GoalReached,
    GoalSet,
    Mark,
    MarkWitnessed,
    MessageReceived,
    MessageSent,
    NeedsChanged,
    NoveltyMeasured,
    PersonForgotten,
    ReviewDecided,
    RewardAssigned,
    decode,
    subject_filter,
)

SEALED_KINDS: tuple[type[Event], ...] = (
    ActionTaken,
    RewardAssigned,
    NeedsChanged,
    NoveltyMeasured,
    AlarmRaised,
    MessageReceived,
    MessageSent,
    AnswerRated,
    GoalSet,
    GoalAccepted,
    GoalReached,
    GoalDropped,
    AgentPaused,
    AgentResumed,
    ActApproved,
    ActDenied,
    ReviewDecided,
    PersonForgotten,
)
"""The events that marks seal whole."""


class Compared(View):
    """How much of what the marks seal was compared."""

    facts: int
    """Sealed facts: events, scores and totals."""
    pruned: int
    """Of those, facts of acts that retention removed."""
    forgotten: int = 0
    """Of those, facts of acts that were removed at a person's request."""
    stream: int | None
    """Sealed events that the stream still has; None: the stream was not read."""


class SealedFacts:
    """Compares the marks of one agent with its store, piece by piece, then with the stream.

    Keeps some 200 bytes of each sealed event for the comparison with the stream.
    """

    def __init__(self, agent: str, *, stream: bool = True, forgotten: Set[str] = frozenset()) -> None:
        """`forgotten`: ids of the actions that were removed at a person's request."""
        self._agent, self.with_stream, self._removed = agent, stream, forgotten
        self._events: dict[str, tuple[str, int]] = {}
        """Id of a sealed event -> (content, sequence of its mark)."""
        self._unsealed: dict[str, list[MarkProblem]] = {}
        """By action id: its scores that no mark seals."""
        self.problems: list[MarkProblem] = []
        self.facts = self.pruned = self.forgotten = 0
        self.stream: int | None = None

    def take(self, reader: ExperienceReader, marks: Sequence[Mark]) -> None:
        """Compare the next marks with the rows of their acts. Raises StoreError."""
        stored = reader.chain.stored({mark.action_id for mark in marks if mark.action_id is not None})
        for mark in marks:
            self.facts += len(mark.facts) or 1
            if self.with_stream:
                self._events |= {identity: (content, mark.sequence) for identity, content in sealed_events(mark)}
            if (act := stored.get(mark.action_id or "")) is not None:
                self._take_unsealed(reader, mark, act)
            found = list(differences(mark, act))
            if found and mark.action_id in self._removed:
                self.forgotten += len(found)
            elif found and mark.action_id not in stored and self._is_pruned(reader, mark):
                self.pruned += len(found)
            else:
                self.problems += [self._problem(mark, one) for one in self._unexplained(reader, mark, found)]

    def _take_unsealed(self, reader: ExperienceReader, mark: Mark, act: StoredAct) -> None:
        if mark.action_id is None or mark.action_id in self._unsealed or not unsealed_scores([mark], act):
            return
        # Behind the rows, so that no mark is missed that came with them.
        marks = reader.chain.marks_of(self._agent, mark.action_id)
        if found := unsealed_scores(marks, act):
            self._unsealed[mark.action_id] = [
                MarkProblem("unwitnessed", None, None, f"{_sentence(score_words(one), mark.action_id)} has no mark.")
                for one in found
            ]

    def unsealed(self, actions: Set[str]) -> list[MarkProblem]:
        """The scores of these actions that stand in the store and that no mark of their act seals.

        The mark of a score that came late may not be stored yet: see `unmarked_yet`.
        """
        return [problem for action, found in self._unsealed.items() if action in actions for problem in found]

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

    async def compare_stream(self, bus: Bus, chain: Verification) -> None:
        """Compare the sealed events that the stream still has, and its marks with those of the chain. Raises
        BusError."""
        kinds: tuple[type[Event], ...] = (*SEALED_KINDS, MarkWitnessed)
        filters = [subject_filter(kind, self._agent) for kind in kinds]
        held: set[str] = set()
        wrong: dict[str, str] = {}
        async for delivery in bus.read(filters):
            try:
                event = decode(delivery.data)
            except ContractViolationError:
                continue  # consumers write dead letters of it
            if isinstance(event, MarkWitnessed):
                self._compare_mark(event.mark, chain)
                continue
            if (sealed := self._events.get(event.id)) is None or event.id in held:
                continue
            if is_event(delivery.data, sealed[0]):
                held.add(event.id)
            else:
                wrong[event.id] = event.TYPE
        self.stream = len(held)
        for identity, kind in wrong.items():
            if identity not in held:
                sequence = self._events[identity][1]
                what = f"The {kind} {identity} on the stream is not what mark {sequence} sealed."
                self.problems.append(MarkProblem("altered", self._agent, sequence, what))

    def _compare_mark(self, mark: Mark, chain: Verification) -> None:
        there = chain.head(mark.sequence)
        if there not in (None, mark.hash) and chain.start <= mark.sequence:
            what = f"Mark {mark.sequence} in the store is not the one on the stream."
            self.problems.append(MarkProblem("altered", self._agent, mark.sequence, what))

    def compared(self) -> Compared:
        """The counts so far."""
        return Compared(facts=self.facts, pruned=self.pruned, forgotten=self.forgotten, stream=self.stream)


def _sentence(what: str, action: str) -> str:
    return f"{what[0].upper()}{what[1:]} of action {action}"


def compared_words(found: Compared) -> str:
    """What was compared, in a line."""
    said = f"{found.facts} sealed facts compared with the store"
    if found.stream is not None:
        said += f", {found.stream} of them with the stream"
    said += f"; {found.pruned} pruned by store.keep" if found.pruned else ""
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
