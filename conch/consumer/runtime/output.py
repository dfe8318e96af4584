"""The output of a consumer: the events that follow, each published once, and its dead letters."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conch.bus import Delivery, OutgoingMessage, SharedSubscription, before_key, encode_state
from conch.consumer.runtime.dead_letters import dead_letter
from conch.consumer.spec import ConsumerSpec, Facts
from conch.errors import ContractError
from conch.log import get_logger
from conch_schemas import (
    STREAM_SUBJECTS,
    ConsumerFailed,
    Event,
    NeedsChanged,
    NoveltyMeasured,
    RewardAssigned,
    decode,
    encode,
    subject_filter,
    subject_of,
)

log = get_logger(__name__)


@dataclass
class ConsumerCounts:
    """Counters of a consumer since it started."""

    handled: int = 0
    duplicates: int = 0
    failures: int = 0
    """Tries that raised."""
    letters: int = 0


@dataclass(frozen=True)
class StateBeforeEvent:
    """A fold's state before an event, for its dead letter's retry."""

    agent: str
    state: Any
    seq: int
    epoch: str
    """The epoch of the stream that `seq` belongs to."""


class ConsumerOutput:
    """Publishes the events and dead letters of one consumer, each once."""

    def __init__(self, shared_events: SharedSubscription, spec: ConsumerSpec, tally: ConsumerCounts) -> None:
        self._shared_events, self._bus, self._spec, self._tally = shared_events, shared_events.bus, spec, tally
        self._own = spec.scorer or spec.name
        """The name under which it scores: a consumer publishes scores under its own name only."""
        self.known: dict[str, int] = {}
        """Ids of its own events that are on the stream behind its position, and where: an earlier run published
        them."""
        self.known_upto = 0
        """Sequence of the last of these events; 0: there is none."""

    def messages(self, facts: Facts, known: Container[str] | None = None) -> list[OutgoingMessage]:
        """The messages to publish for `facts`. Raises ContractError for what is no event, or too large a one."""
        if facts is None:
            return []
        known = self.known if known is None else known
        messages = []
        for fact in (facts,) if isinstance(facts, Event) else facts:
            if not isinstance(fact, Event):
                raise ContractError(f"consumer {self._spec.name} returned {type(fact).__name__}, not an event")
            if stranger := next((name for name in _scorers(fact) if name != self._own), None):
                raise ContractError(
                    f"consumer {self._spec.name} scored as {stranger[:100]!r}: a score bears the name of who says it"
                )
            if fact.id in known:
                self._tally.duplicates += 1
                continue
            data = encode(fact)
            self._shared_events.expect(data, fact)
            messages.append(OutgoingMessage(subject_of(fact), data, fact.id))
        return messages

    async def publish(self, messages: Sequence[OutgoingMessage]) -> dict[str, int]:
        """All of them; returns when the stream has them: the ids that it had before, and where."""
        stored = await self._bus.publish_many(messages) if messages else ()
        before = {message.id: one.seq for message, one in zip(messages, stored, strict=True) if one.duplicate}
        self._tally.duplicates += len(before)
        return before

    async def conclude(
        self, before: Any, event: Event, result: tuple[Any, Facts], known: Mapping[str, int] | None = None
    ) -> Any:
        """Publish the facts that a fold returned for an event; returns the state after it.

        Where the stream has another fact under the same id (from before a crash, or of another copy), the state follows
        that one: what was published counts. Raises what the fold's `again` raises.
        """
        state, facts = result
        known = self.known if known is None else known
        lag = {**known, **await self.publish(self.messages(facts, known))}
        if self._spec.again is None:
            return state
        for fact in (facts,) if isinstance(facts, Event) else facts or ():
            published = await self._other(fact, lag.get(fact.id))
            if published is not None:
                state = await self._spec.again(before, event, published)
        return state

    async def _other(self, fact: Event, seq: int | None) -> Event | None:
        """The event at that sequence, where it differs from this one in more than its time."""
        delivery = await self._bus.at(seq) if seq is not None else None
        if delivery is None:
            return None
        there = decode(delivery.data)
        return there if there != fact.model_copy(update={"time": there.time}) else None

    async def give_up(
        self, delivery: Delivery, reason: str, tries: int, before: StateBeforeEvent | None = None
    ) -> None:
        """Publish the dead letter; a fold's state before the event is kept, for the retry."""
        self._tally.letters += 1
        letter = dead_letter(self._spec, delivery, reason, tries)
        log.error(
            "consumer.failed",
            consumer=self._spec.name,
            seq=delivery.seq,
            subject=letter.letter_subject,
            reason=letter.reason,
        )
        if delivery.subject.endswith(ConsumerFailed.TYPE):
            return  # a dead letter about a dead letter would fail without end; the log has it
        if before is not None:
            await self.keep(delivery.seq, before)
        await self.publish(self.messages(letter))

    async def keep(self, seq: int, before: StateBeforeEvent) -> None:
        """Keep a fold's state before the event at `seq`."""
        key = before_key(self._spec.name, before.agent, seq)
        entry = await self._bus.get(key)
        value = encode_state(before.state, before.seq, before.epoch)
        await self._bus.put(key, value, revision=entry.revision if entry is not None else 0)

    async def look(self, after: int) -> None:
        """Find what an earlier run may have published already: behind the first event still to handle."""
        self.known, self.known_upto = {}, 0
        async for delivery in self._bus.read([subject_filter(kind) for kind in self._spec.kinds], after=after):
            self.known = await self.published_since(delivery.seq)
            self.known_upto = max(self.known.values(), default=0)
            return

    async def published_since(self, seq: int) -> dict[str, int]:
        """Ids of possibly own events behind `seq`, and the first sequence of each."""
        emits = [subject_filter(kind) for kind in self._spec.emits]
        filters = [*emits, subject_filter(ConsumerFailed)] if emits else STREAM_SUBJECTS
        found: dict[str, int] = {}
        async for delivery in self._bus.read(filters, after=seq):
            try:
                found.setdefault(str(json.loads(delivery.data)["id"]), delivery.seq)
            except (ValueError, LookupError, TypeError, RecursionError):
                continue  # not an event: no consumer published it
        return found


def _scorers(fact: Event) -> Iterator[str]:
    """The scorers that a fact names."""
    if isinstance(fact, RewardAssigned):
        yield fact.scorer
        yield from (score.scorer for score in fact.scores)
    elif isinstance(fact, NoveltyMeasured):
        yield from (score.scorer for score in (fact.score, *fact.beside))
    elif isinstance(fact, NeedsChanged):
        yield from (score.scorer for score in (fact.score, *fact.beside) if score is not None)
