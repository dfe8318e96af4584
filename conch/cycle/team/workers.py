"""Roles whose minds run in processes of their own: the team asks over the bus, a worker answers.

The worker thinks and decides; the act is carried out where the team runs, in its one workspace, and only there is
anything stored. So a worker that dies loses nothing: its question is asked again while the turn lasts, and then the
turn passes to the next role.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from pydantic import BaseModel, ConfigDict

from conch.actions import Registry, ToolSpec
from conch.bus import Bus
from conch.config import OneMindSettings
from conch.errors import BusError, ConchError, ModelError
from conch.minds import Completion, Mind, Prompt, Purpose, RoleTurn, ScriptEnded, Situation
from conch.tasks import race
from conch_schemas import ExperienceRecorded, PromptMessage, role_subject

RETRY_SECONDS: Final = 0.5
"""Pause before a question is asked again that no worker answered."""
PRESENCE_SECONDS: Final = 2.0
"""Pause between two looks whether a worker is there that has a question, and the timeout of a look."""


class RoleSilentError(ConchError):
    """No worker of the role answered within its turn."""


class RoleQuestion(BaseModel):
    """A prompt for the worker of a role."""

    model_config = ConfigDict(frozen=True)

    purpose: Purpose
    agent: str
    cycle: int
    system: str
    messages: tuple[PromptMessage, ...]
    max_tokens: int
    turn: RoleTurn
    tools: tuple[ToolSpec, ...] | None
    """The tools whose calls the reply may be held to; None: any text is a reply."""

    def prompt(self) -> Prompt:
        """The prompt. Its situation has the turn alone."""
        situation = Situation(self.agent, self.cycle, needs={}, pressing={}, need="", turn=self.turn)
        registry = None if self.tools is None else Registry(self.tools)
        return Prompt(self.purpose, self.system, self.messages, situation, self.max_tokens, registry=registry)


class RoleReply(BaseModel):
    """The answer of a worker."""

    model_config = ConfigDict(frozen=True)

    completion: Completion | None = None
    """None: there is none."""
    error: str = ""
    """Why there is none, in one sentence."""


class WorkerMind:
    """The mind of a role that a worker on the bus has. Until it replies, its model is that of the settings."""

    learns = False

    def __init__(self, bus: Bus, team: str, role: str, settings: OneMindSettings, seconds: float) -> None:
        """`seconds`: how long one question may take, with all tries."""
        self._bus, self._role, self._seconds = bus, role, seconds
        self._subject = role_subject(team, role)
        self.kind, self.model = settings.kind, settings.model or settings.kind

    async def complete(self, prompt: Prompt) -> Completion:
        """The worker's reply. Raises RoleSilentError when none came in time."""
        turn = prompt.situation.turn
        assert turn is not None
        question = RoleQuestion(
            purpose=prompt.purpose,
            agent=prompt.situation.agent,
            cycle=prompt.situation.cycle,
            system=prompt.system,
            messages=prompt.messages,
            max_tokens=prompt.max_tokens,
            turn=turn,
            tools=None if prompt.registry is None else prompt.registry.specs,
        )
        why = "it did not answer"
        try:
            async with asyncio.timeout(self._seconds):
                while True:
                    try:
                        found = await self._asked(question.model_dump_json().encode())
                    except (BusError, ModelError) as error:
                        why = str(error)
                    else:
                        self.model = found.model
                        return found
                    await asyncio.sleep(RETRY_SECONDS)
        except TimeoutError:
            raise RoleSilentError(
                f"no worker of the role {self._role} answered within {self._seconds:g} s ({why})"
            ) from None

    async def _asked(self, question: bytes) -> Completion:
        """The reply to one try. Raises BusError without a worker, or when the one that has the question is gone;
        ModelError with the worker's reason, or for a reply that is none."""
        request = self._bus.request(self._subject, question, timeout=self._seconds)
        data = await race({"conch.role.ask": request, "conch.role.presence": self._until_gone()})
        try:
            reply = RoleReply.model_validate_json(data)
        except ValueError:
            raise ModelError(
                f"the worker of the role {self._role}: its reply cannot be read, start it with the version of the team"
            ) from None
        if reply.completion is None:
            raise ModelError(f"the worker of the role {self._role}: {reply.error}")
        return reply.completion

    async def _until_gone(self) -> bytes:
        """Never ends while a worker is there. Raises BusError when none is."""
        while True:
            await asyncio.sleep(PRESENCE_SECONDS)
            await self._bus.request(self._subject, b"", timeout=PRESENCE_SECONDS)

    def learn(self, experience: ExperienceRecorded) -> None:
        """Nothing: its worker does not hear of experiences."""

    async def close(self) -> None:
        """Nothing: its worker closes it."""


class RoleWorker:
    """Answers the questions of one role with a mind. The last question counts: one that comes while another is open
    ends that one, as its team has given it up."""

    def __init__(self, make: Callable[[int], Mind], tell: Callable[[str], None] = lambda _: None) -> None:
        """`make` makes the mind at the first question, of the turns that the role had before; `tell` is called with a
        sentence for each turn."""
        self._make, self._tell = make, tell
        self._mind: Mind | None = None
        self._lock = asyncio.Lock()
        self._newer = asyncio.Event()

    async def answer(self, subject: str, data: bytes) -> bytes:
        """The reply to a question, as JSON; to an empty request, which asks whether it is there, an empty reply."""
        if not data:
            return b""
        self._newer.set()
        self._newer = newer = asyncio.Event()
        question = RoleQuestion.model_validate_json(data)
        async with self._lock:
            reply = await race({"conch.role.answer": self._answered(question), "conch.role.newer": _given_up(newer)})
        return reply.model_dump_json().encode()

    async def _answered(self, question: RoleQuestion) -> RoleReply:
        if self._mind is None:
            self._mind = self._make(question.turn.turns)
        try:
            completion = await self._mind.complete(question.prompt())
        except ScriptEnded:
            return RoleReply(error="its script has no more replies")
        except ModelError as error:
            return RoleReply(error=str(error))
        self._tell(f"step {question.turn.step}: {question.purpose}, {completion.usage.output_tokens} tokens")
        return RoleReply(completion=completion)

    async def close(self) -> None:
        """Give up an open question, and close the mind. A second call does nothing."""
        self._newer.set()
        async with self._lock:
            if self._mind is not None:
                await self._mind.close()


async def _given_up(newer: asyncio.Event) -> RoleReply:
    await newer.wait()
    return RoleReply(error="another question came meanwhile")
