"""What the stream says of an agent's marks, and of what no mark seals."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Final, NamedTuple

import msgspec

from conch.bus import Bus, Delivery
from conch.experience import ExperienceReader
from conch.views.witness.unsealed import UnsealedAct, UnsealedRows
from conch.witness import (
    CONSUMER,
    CORRECTION,
    REFLECTION,
    SEALED_KINDS,
    ForgottenRecords,
    MarkProblem,
    Verification,
    canonical,
    context_digests,
    facts_of,
    is_event,
    reflection_digest,
    sealed_facts,
    text_digest,
)
from conch_schemas import (
    ActionDecided,
    ActionTaken,
    AnswerRated,
    ContractViolationError,
    CycleReflected,
    Event,
    ExperienceRecorded,
    Mark,
    MarkWitnessed,
    NeedsChanged,
    NoveltyMeasured,
    PersonForgotten,
    PolicySet,
    RewardAssigned,
    ThoughtFormed,
    ThoughtGrounded,
    decode,
    event_type,
    subject_filter,
)

_BEFORE: Final[tuple[type[Event], ...]] = (ThoughtFormed, ThoughtGrounded, ActionDecided)
"""What a cycle says before its act: an act's event seals it, but for acts of earlier versions."""
_OF_CONTEXT: Final = {
    event_type(ThoughtFormed): "thought",
    event_type(ThoughtGrounded): "claims",
    event_type(ActionDecided): "messages",
    event_type(CycleReflected): REFLECTION,
}


class SealedEvent(NamedTuple):
    """An event that a mark seals whole."""

    content: str
    sequence: int
    """Of the mark."""
    place: int | None
    """Where the store says that it stands in the stream; None: not known."""
    is_forgotten: bool = False
    """Whether it was removed at a person's request, from the store or from the stream."""
    others: tuple[str, ...] = ()
    """What earlier marks seal under the same id: a run says some events anew after the stream was lost."""

    def holds(self, body: bytes) -> bool:
        """Whether these bytes are the event that one of its marks seals."""
        return any(is_event(body, content) for content in (self.content, *self.others))


class StorePlace(NamedTuple):
    """Up to where a store had read the stream, as it was before its rows were read."""

    position: int
    epoch: str | None
    base: int
    """What is added to a sequence to make a place."""
    last: int
    """The highest place of the agent's rows."""
    reach: int = 0
    """The highest place that the store says it has read."""


def store_place(reader: ExperienceReader, agent: str) -> StorePlace:
    """The place of the store. Raises StoreError."""
    last = reader.chain.last_place(agent)  # before the position, which goes on during a run
    return StorePlace(reader.position(), reader.epoch(), reader.chain.base(), last, reader.chain.reach())


class _Header(msgspec.Struct):
    id: str
    type: str
    actionid: str | None = None


_header: Final = msgspec.json.Decoder(_Header).decode


class StreamComparison:
    """Reads an agent's events on the stream once, and keeps what they say of its marks and of unsealed rows."""

    def __init__(
        self,
        agent: str,
        events: Mapping[str, SealedEvent],
        unsealed: UnsealedRows,
        store: StorePlace,
        marks: Mapping[int, int],
    ) -> None:
        """`marks`: sequence -> place of the stored ones."""
        self._agent, self._events, self._unsealed, self._store = agent, events, unsealed, store
        self._marks, self._met_marks = marks, set[int]()
        self._held: set[str] = set()
        self._wrong: dict[str, str] = {}
        self.problems: list[MarkProblem] = []
        self.tail: list[tuple[int, Mark]] = []
        """(sequence in the stream, mark) of the marks behind the chain's end."""
        self.witness = 0
        """Up to where the witness has read the stream."""
        self.base = store.base
        """What is added to a sequence of this stream to make a place."""
        self.position = 0
        """Up to where the store has read this stream."""
        self.is_known = False
        """Whether the store has read this stream, and not another one before it."""
        self.was_read = False
        self.acts: dict[str, int] = {}
        """Action -> sequence of its `action.taken` that says what the row says."""
        self.facts: dict[str, dict[str, int]] = {}
        """Action -> score id, or id of a change of needs, -> sequence of the event that says what the row says."""
        self.revisions: dict[str, dict[int, int]] = {}
        """Action -> revision of its experience -> sequence."""
        self.events: dict[str, int] = {}
        """Id of an unsealed event that says what its row says -> sequence."""
        self.contexts: dict[tuple[str, str], int] = {}
        """(action, kind) of a row of context that an event says -> sequence."""
        self.prompts: set[str] = set()
        """Policies whose stored system prompt an event says."""
        self.met: set[object] = set()
        """What of the unsealed rows the stream has, whatever it says there."""
        self.recorded: set[str] = set()
        """Actions with an `experience.recorded` behind the store's position."""
        self.unread_records: set[str] = set()
        """Ids of the records of removals that the witness has not read."""

    @property
    def held(self) -> int:
        """Sealed events that the stream has, as they were sealed."""
        return len(self._held)

    async def read(self, bus: Bus, chain: Verification, *, whole: bool) -> None:
        """Read the stream to its present end: all of it, or from the first act of which something is unsealed. Raises
        BusError."""
        from conch.consumer.group import standings  # only here: it asks for more than readers of a store need

        # The witness first: a mark that it publishes meanwhile is on the stream when that is read.
        self.witness = next((row.seq for row in await standings(bus) if row.name == CONSUMER), 0)
        state = await bus.state()
        self.is_known = is_known = self._store.epoch == state.epoch
        self.position = self._store.position if is_known else 0
        base = await self._base_by_marks(bus, chain)
        self.base = base if base is not None else self._store.base if is_known else self._store.last
        kinds: tuple[type[Event], ...] = (
            *SEALED_KINDS,
            ExperienceRecorded,
            MarkWitnessed,
            *(_BEFORE if self._unsealed.contexts else ()),
        )
        place = self._unsealed.place
        after = 0 if whole or place is None else max(0, place - self.base - 1)
        async for delivery in bus.read([subject_filter(kind, self._agent) for kind in kinds], after=after):
            self._take(delivery, chain, is_known=is_known)
        self.was_read = True
        self.problems += [*self._altered(), *self._misplaced(state.last, is_known=is_known)]
        self.problems += self._cut_off(chain)

    async def _base_by_marks(self, bus: Bus, chain: Verification) -> int | None:
        """What the place of the newest mark that store and stream both have says of the base, whatever the store says
        of it; None: they have none."""
        subject = subject_filter(MarkWitnessed, self._agent)
        newest = await bus.last(subject)
        if newest is not None and (base := self._base_by(newest, chain)) is not None:
            return base
        async for delivery in bus.read([subject]):
            if (base := self._base_by(delivery, chain)) is not None:
                return base
        return None

    def _base_by(self, delivery: Delivery, chain: Verification) -> int | None:
        try:
            event = decode(delivery.data)
        except ContractViolationError:
            return None
        if not isinstance(event, MarkWitnessed) or chain.head(event.mark.sequence) != event.mark.hash:
            return None
        place = self._marks.get(event.mark.sequence)
        return None if place is None else place - delivery.seq

    def _take(self, delivery: Delivery, chain: Verification, *, is_known: bool) -> None:
        try:
            header = _header(delivery.data)
            if header.type == event_type(MarkWitnessed):
                event = decode(delivery.data)
                assert isinstance(event, MarkWitnessed)
                self._take_mark(delivery.seq, event.mark, chain, is_known=is_known)
                return
            if (sealed := self._events.get(header.id)) is not None and header.id not in self._held:
                self._take_sealed(delivery, header, sealed, is_known=is_known)
            self._take_unsealed(delivery, header)
        except (ContractViolationError, msgspec.DecodeError):
            return  # consumers write dead letters of it

    def _take_sealed(self, delivery: Delivery, header: _Header, sealed: SealedEvent, *, is_known: bool) -> None:
        if not sealed.holds(delivery.data):
            if sealed.is_forgotten:
                return  # erased at a person's request; a run has said it anew, as it says the goals of its settings
            if is_known and 0 < self._marks.get(sealed.sequence, 0) <= self.base:
                return  # sealed on a stream that was lost; a run has said it anew
            self._wrong[header.id] = header.type.removeprefix("conch.v1.")
            return
        self._held.add(header.id)
        if is_known and sealed.place is not None and self._is_misplaced(sealed.place, delivery.seq):
            what = (
                f"The {header.type.removeprefix('conch.v1.')} {header.id} in the store has the place {sealed.place}, "
                f"and the stream has it at {self.base + delivery.seq}."
            )
            self.problems.append(MarkProblem("altered", self._agent, sealed.sequence, what))

    def _is_misplaced(self, place: int, seq: int) -> bool:
        """Whether the place is not that of this sequence; rows from before the stream was replaced have other ones."""
        return place != self.base + seq and (place > self.base or not self.base)

    def _take_mark(self, seq: int, mark: Mark, chain: Verification, *, is_known: bool) -> None:
        place = self._marks.get(mark.sequence)
        if is_known and place is not None and mark.sequence not in self._met_marks and self._is_misplaced(place, seq):
            what = (
                f"Mark {mark.sequence} in the store has the place {place}, and the stream has it at {self.base + seq}."
            )
            self.problems.append(MarkProblem("altered", self._agent, mark.sequence, what))
        self._met_marks.add(mark.sequence)
        there = chain.head(mark.sequence)
        if there not in (None, mark.hash) and chain.start <= mark.sequence:
            what = f"Mark {mark.sequence} in the store is not the one on the stream."
            self.problems.append(MarkProblem("altered", self._agent, mark.sequence, what))
        elif mark.sequence >= chain.length:
            self.tail.append((seq, mark))

    def _take_unsealed(self, delivery: Delivery, header: _Header) -> None:
        unsealed, seq = self._unsealed, delivery.seq
        if (row := unsealed.events.get(header.id)) is not None:
            self.met.add(header.id)
            if is_event(row.body, _content(delivery.data)):
                self.events.setdefault(header.id, seq)
        if header.type == event_type(PersonForgotten) and seq > self.witness:
            self.unread_records.add(header.id)
        if header.type == event_type(ExperienceRecorded) and seq > self.position and header.actionid is not None:
            self.recorded.add(header.actionid)
        if header.type == event_type(PolicySet) and unsealed.prompts:
            self._take_prompt(decode(delivery.data))
        action = header.actionid or ""
        kind = _OF_CONTEXT.get(header.type, "")
        if header.type == event_type(AnswerRated):
            kind = f"{CORRECTION}:{self.base + seq:019d}"
        if (digest := unsealed.contexts.get((action, kind))) is not None:
            self.met.add((action, kind))
            if _digest(decode(delivery.data), kind) == digest:
                self.contexts.setdefault((action, kind), seq)
        if (act := unsealed.acts.get(action)) is not None:
            self._take_of_act(delivery, header, act)

    def _take_prompt(self, event: Event) -> None:
        if isinstance(event, PolicySet) and event.policy in self._unsealed.prompts:
            self.met.add(("prompt", event.policy))
            if self._unsealed.prompts[event.policy][0] == event.system_prompt:
                self.prompts.add(event.policy)

    def _take_of_act(self, delivery: Delivery, header: _Header, act: UnsealedAct) -> None:
        if header.type == event_type(ActionTaken):
            self.met.add((act.action, "act"))
            if act.act is not None and is_event(act.act, _content(delivery.data)):
                self.acts.setdefault(act.action, delivery.seq)
        elif header.type == event_type(ExperienceRecorded):
            event = decode(delivery.data)
            assert isinstance(event, ExperienceRecorded)
            self.revisions.setdefault(act.action, {}).setdefault(event.revision, delivery.seq)
        elif header.type in _SCORING:
            said = self.facts.setdefault(act.action, {})
            self.met.add((act.action, header.id))
            body = act.needs.get(header.id)
            if body is not None and is_event(body, _content(delivery.data)):
                said.setdefault(header.id, delivery.seq)
            event = decode(delivery.data)
            assert isinstance(event, RewardAssigned | NeedsChanged | NoveltyMeasured)
            for name, digest in facts_of(event).items():
                name = name.partition(" ")[2]
                self.met.add((act.action, name))
                if act.scores.get(name) == digest:
                    said.setdefault(name, delivery.seq)

    def _altered(self) -> Iterator[MarkProblem]:
        for identity, kind in self._wrong.items():
            if identity not in self._held:
                sequence = self._events[identity].sequence
                what = f"The {kind} {identity} on the stream is not what mark {sequence} sealed."
                yield MarkProblem("altered", self._agent, sequence, what)

    def _misplaced(self, end: int, *, is_known: bool) -> Iterator[MarkProblem]:
        """A store's position that does not fit the stream, or its own rows."""
        if is_known and self.position > end:
            what = f"The store has read the stream up to {self.position}, and the stream ends at {end}."
            yield MarkProblem("missing", self._agent, None, what)
        if is_known and self._store.last > self._store.reach:
            what = (
                f"The store says that it has read up to the place {self._store.reach}, and has rows of the place "
                f"{self._store.last}: its position was changed."
            )
            yield MarkProblem("altered", self._agent, None, what)
        if self.base != self._store.base and is_known:
            what = (
                f"The store says that this stream begins at the place {self._store.base}, and has its marks at places "
                f"that begin at {self.base}."
            )
            yield MarkProblem("altered", self._agent, None, what)

    def _cut_off(self, chain: Verification) -> Iterator[MarkProblem]:
        """Marks that the stream has behind the chain's end: lost from the store where it has read them, and none of the
        chain where they do not follow it."""
        lost = [mark.sequence for seq, mark in self.tail if seq <= self.position]
        if lost:
            which = f"Mark {lost[0]} is" if len(lost) == 1 else f"Marks {min(lost)} to {max(lost)} are"
            what = f"{which} on the stream, where the store has read them, and not in the store."
            yield MarkProblem("missing", self._agent, min(lost), what)
        length, head = chain.length, chain.head(chain.length - 1)
        for _, mark in self.tail:
            if mark.sequence == length and head is not None and mark.previous != head:
                what = f"Mark {mark.sequence} on the stream does not follow mark {length - 1} of the store."
                yield MarkProblem("changed", self._agent, mark.sequence, what)

    def unread_marks(self) -> Iterator[Mark]:
        """The marks that the store has not read yet."""
        yield from (mark for seq, mark in self.tail if seq > self.position)


def sealed_ids(marks: Iterable[Mark]) -> dict[str, set[str]]:
    """Action -> the ids of all that these marks seal."""
    sealed: dict[str, set[str]] = {}
    for mark in marks:
        names = sealed.setdefault(mark.action_id or mark.event, set())
        names |= {mark.event, *(fact.id for fact in sealed_facts(mark))}
        if mark.domain == "action":
            names.add("act")
    return sealed


def lost_acts(reader: ExperienceReader, agent: str, recorded: Set[str]) -> list[MarkProblem]:
    """A problem where the store lacks acts that it has recorded.

    `recorded`: the actions of the stream's `experience.recorded`, read before the store. A store publishes these once
    it has committed the act: an act that is not there was taken out, unless retention or a person's request removed it.
    Raises StoreError.
    """
    if not recorded:
        return []
    missing = recorded - {action for action, _ in reader.chain.acts(agent)}
    missing -= ForgottenRecords(reader.chain.forgotten(agent)).actions
    missing -= reader.chain.removed_among(agent, set(missing))
    if not missing:
        return []
    what = (
        f"The stream says that acts were recorded, and the store lacks {len(missing)} of them (the first by id is "
        f"{min(missing)}): the next run stores them again."
    )
    return [MarkProblem("missing", agent, None, what)]


_SCORING: Final = frozenset((event_type(RewardAssigned), event_type(NeedsChanged), event_type(NoveltyMeasured)))


def _content(body: bytes) -> str:
    return hashlib.sha256(canonical(body)).hexdigest()


def _digest(event: Event, kind: str) -> str | None:
    """The digest of what an event says of a kind of context."""
    match event:
        case ThoughtFormed():
            return context_digests(event.thought.text, None, None)[kind]
        case ThoughtGrounded():
            return context_digests(None, event.claims, None)[kind]
        case ActionDecided():
            return context_digests(None, None, event.messages)[kind]
        case AnswerRated(rating="corrected"):
            return text_digest(event.text)
        case CycleReflected():
            return reflection_digest(event.reflection, event.ms)
    return None
