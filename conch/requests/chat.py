"""A conversation with a running agent: each message followed to its answer, the answer's reward and its mark."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from conch.bus import decoded
from conch.errors import BusError, BusUnreachableError, ConchError
from conch.requests.ask import ask
from conch.tasks import OwnedTasks, concurrently
from conch_schemas import (
    ActApproved,
    ActAsked,
    ActDenied,
    ActionTaken,
    ContractViolationError,
    Event,
    ExperienceRecorded,
    Mark,
    MarkWitnessed,
    MessageReceived,
    MessageSent,
    control_subject,
    subject_filter,
)

if TYPE_CHECKING:
    from conch.bus import Bus, Delivery

POLL_SECONDS = 0.2
"""Seconds between two looks at what the agent does, while no fact comes."""
DRAFT_SECONDS = 1.0
"""Timeout of such a look; an agent that is too busy to answer is looked at again."""
SCORED_SECONDS = 5.0
"""Longest wait for the reward and the mark of an answer, in seconds: a judge may take longer."""

_FOLLOWED = (ActionTaken, MessageSent, ExperienceRecorded, MarkWitnessed, ActAsked, ActApproved, ActDenied)


@dataclass(frozen=True)
class MessageTaken:
    """The agent has the message."""

    id: str


@dataclass(frozen=True)
class AgentWorks:
    """What the agent does while the message waits."""

    phase: str
    """think, decide, act or reflect; empty: none of them."""
    seconds: float
    """For how long its mind has been asked."""
    state: str
    """`running`, `paused` and so on, as its status says."""
    why: str = ""
    """Why it is in that state; empty: there is no reason to tell."""


@dataclass(frozen=True)
class AnswerDraft:
    """The answer as far as it has come; a later draft of the same reply begins with it."""

    text: str


@dataclass(frozen=True)
class ToolUsed:
    """An act of the agent with another tool, before it answered."""

    act: ActionTaken


@dataclass(frozen=True)
class ApprovalAsked:
    """An act of the agent waits for a person's approval; the answer comes after the decision."""

    asked: ActAsked


@dataclass(frozen=True)
class ApprovalSettled:
    """The act that waited was decided on, by this person, by another one, or by its time-out."""

    asked: ActAsked
    decision: ActApproved | ActDenied


@dataclass(frozen=True)
class AnswerGiven:
    """The answer."""

    answer: MessageSent


@dataclass(frozen=True)
class AnswerRewarded:
    """The reward of the act that answered."""

    experience: ExperienceRecorded


@dataclass(frozen=True)
class AnswerMarked:
    """The mark of the act that answered."""

    mark: Mark


ChatStep = (
    MessageTaken
    | AgentWorks
    | AnswerDraft
    | ToolUsed
    | ApprovalAsked
    | ApprovalSettled
    | AnswerGiven
    | AnswerRewarded
    | AnswerMarked
)

_UNDERWAY = (ToolUsed, ApprovalAsked, ApprovalSettled)
"""Steps that are given as they come, before the answer."""


class ChatSession:
    """A session with one agent that runs. One turn is open at a time."""

    def __init__(self, bus: Bus, agent: str, session: str, runs: Callable[[], bool] = lambda: True) -> None:
        """`runs`: whether the agent's run is in progress."""
        self._bus, self._runs = bus, runs
        self.agent = agent
        self.session = session
        self.answered: ActionTaken | None = None
        """The act that gave the last answer."""

    async def turn(self, text: str, key: str | None = None) -> AsyncGenerator[ChatStep, None]:
        """Send a message, and give what comes of it: ends with the answer's reward and mark, or without them after
        SCORED_SECONDS. The same `key` again is the same message: it is sent once, and its answer is given again.

        Raises BusUnreachableError when the agent does not answer, or its run ends meanwhile, ConchError when it refuses
        the message. Left early, the message stays with the agent.
        """
        after = (await self._bus.state()).last
        body = {"text": text, "sender": "user", "id": key or str(uuid.uuid4()), "session": self.session}
        try:
            told = await ask(self._bus, control_subject(self.agent, "say"), body)
        except BusError as error:
            raise BusUnreachableError(f"the agent {self.agent} does not answer ({error}): see conch status") from None
        message = str(told["id"])
        yield MessageTaken(message)
        if told.get("again") is True:
            after = await self._before(message, after)
        async for step in self._followed(message, after):
            yield step

    async def _before(self, message: str, end: int) -> int:
        """The sequence before the message's first copy; `end` where the stream has none any more."""
        async for delivery in self._bus.read([subject_filter(MessageReceived, self.agent)]):
            event = _event(delivery)
            if event is not None and event.id == message:
                return delivery.seq - 1
        return end

    async def _followed(self, message: str, after: int) -> AsyncGenerator[ChatStep, None]:
        turn = _Turn(message, asked=await self._asked_before(after))
        if turn.asked is not None:
            yield ApprovalAsked(turn.asked)
        filters = [subject_filter(kind, self.agent) for kind in _FOLLOWED]
        async with self._bus.follow(filters, after=after) as reader, OwnedTasks() as tasks:
            getting = tasks.start(reader.get(), name="conch.chat")
            while not turn.is_over():
                await asyncio.wait({getting}, timeout=POLL_SECONDS)
                if getting.done():
                    for step in turn.take(getting.result()):
                        self.answered = turn.act if isinstance(step, AnswerGiven) else self.answered
                        yield step
                    getting = tasks.start(reader.get(), name="conch.chat")
                elif turn.answer is None:
                    for step in await self._looked(message):
                        yield step

    async def _asked_before(self, after: int) -> ActAsked | None:
        """The act that was asked for up to this sequence and has no decision yet; None: there is none."""
        kinds = (ActAsked, ActApproved, ActDenied)
        found = await concurrently(self._bus.last, [subject_filter(kind, self.agent) for kind in kinds])
        asked, *decisions = [None if one is None else _event(one) for one in found]
        if found[0] is None or found[0].seq > after or not isinstance(asked, ActAsked):
            return None
        settled = {decision.action_id for decision in decisions if decision is not None}
        return None if asked.action_id in settled else asked

    async def _looked(self, message: str) -> Sequence[ChatStep]:
        """What the agent does now. Raises BusUnreachableError when its run has ended."""
        try:
            found = await ask(self._bus, control_subject(self.agent, "draft"), {}, timeout=DRAFT_SECONDS)
        except ConchError:
            if self._runs():
                return ()
            raise BusUnreachableError("the run has ended: the agent reads the message when it runs again") from None
        works = AgentWorks(str(found["phase"]), float(found["seconds"]), str(found["state"]), str(found.get("why", "")))
        is_ours = found["message"] == message and found["text"]
        return (works, AnswerDraft(str(found["text"]))) if is_ours else (works,)


@dataclass
class _Turn:
    """What has come of one message."""

    message: str
    asked: ActAsked | None = None
    """The act that waits for an approval."""
    act: ActionTaken | None = None
    answer: MessageSent | None = None
    early: list[ChatStep] = field(default_factory=list)
    """What came before the answer itself."""
    left: set[type] = field(default_factory=lambda: {AnswerRewarded, AnswerMarked})
    until: float = float("inf")
    """When the wait for the rest ends, by the loop's clock."""

    def is_over(self) -> bool:
        """Whether all has come that is waited for."""
        return self.answer is not None and (not self.left or asyncio.get_running_loop().time() > self.until)

    def take(self, deliveries: Sequence[Delivery]) -> list[ChatStep]:
        """The steps that these facts are."""
        steps: list[ChatStep] = []
        for event in filter(None, map(_event, deliveries)):
            step = self._step(event)
            if isinstance(step, AnswerGiven):
                steps += [step, *self.early]
            elif step is not None and (self.answer is not None or isinstance(step, _UNDERWAY)):
                steps.append(step)
            elif step is not None:
                self.early.append(step)
        return steps

    def _step(self, event: Event) -> ChatStep | None:
        if isinstance(event, ActionTaken) and self.answer is None:
            if event.outcome.answered == self.message:
                self.act = event
            elif event.action.valid and event.action.tool is not None:
                return ToolUsed(event)
        elif isinstance(event, MessageSent) and event.answers == self.message and self.answer is None:
            self.answer, self.until = event, asyncio.get_running_loop().time() + SCORED_SECONDS
            return AnswerGiven(event)
        elif isinstance(event, ActAsked) and self.answer is None:
            self.asked = event
            return ApprovalAsked(event)
        elif isinstance(event, ActApproved | ActDenied):
            return self._settled(event)
        elif self.act is not None and event.action_id == self.act.action_id:
            return self._judged(event)
        return None

    def _settled(self, decision: ActApproved | ActDenied) -> ApprovalSettled | None:
        """The decision that counts: the first one, and no approval of after the act's time."""
        asked = self.asked
        if asked is None or decision.action_id != asked.action_id:
            return None
        if isinstance(decision, ActApproved) and decision.time > asked.until:
            return None
        self.asked = None
        return ApprovalSettled(asked, decision)

    def _judged(self, event: Event) -> ChatStep | None:
        if isinstance(event, ExperienceRecorded):
            self.left.discard(AnswerRewarded)
            return AnswerRewarded(event)
        if isinstance(event, MarkWitnessed) and event.mark.domain == "action":
            self.left.discard(AnswerMarked)
            return AnswerMarked(event.mark)
        return None


def _event(delivery: Delivery) -> Event | None:
    try:
        return decoded(delivery.subject, delivery.data)
    except ContractViolationError:
        return None
