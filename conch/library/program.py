"""The acts of a program on the bus: what an `AgentRunner` runs in place of an agent that thinks and acts by itself.

A program has its agent's uuid, ids, memory, fence and checkpoints from the same parts as an agent of `conch run`. It
says what it thought, decided and did; nothing here asks a mind or runs a tool.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from conch.bus import ReceivedEvent, SharedSubscription
from conch.config import BudgetSettings, Masker, NeedsSettings
from conch.cycle.act import ActionResult, cut_short, taken
from conch.cycle.control import AgentReport, Control
from conch.cycle.hosting.draft import AnswerProgress, drafted
from conch.cycle.inbox import Inbox
from conch.cycle.policy import policy_digest
from conch.cycle.publish import AgentPublisher
from conch.cycle.state.count import CycleCount
from conch.cycle.state.memory import AgentMemory, remember
from conch.cycle.state.recover import RecoveredAgent
from conch.errors import ContractError, UsageError
from conch.library.steps import MOST_TOOLS, ProgramTools
from conch.log import get_logger
from conch.needs import initial_state, most_pressing, pressing, priorities_of
from conch.tasks import OwnedTasks
from conch.text import cut
from conch_schemas import (
    Action,
    ActionDecided,
    ActionTaken,
    CycleReflected,
    Decoding,
    Event,
    ExperienceRecorded,
    PolicySet,
    PromptMessage,
    ThoughtFormed,
    Usage,
    encode,
)

log = get_logger(__name__)

ENGINE: Final = "program"
"""The kind of mind in the policy of a program, and the engine of its decisions."""
KEPT: Final = 256
"""Recorded experiences that are kept for programs that ask for their rewards later."""
UNDECIDED: Final = "the program ended the cycle without a decision"


@dataclass(frozen=True)
class ProgramPolicy:
    """What stands behind a policy digest of a program."""

    model: str
    system_prompt: str

    @property
    def digest(self) -> str:
        """16 hexadecimal digits."""
        return policy_digest(ENGINE, self.model, self.system_prompt)


@dataclass(frozen=True)
class ProgramOrder:
    """Which agent a program is."""

    name: str
    policy: ProgramPolicy
    tools: ProgramTools


@dataclass(frozen=True)
class ProgramStep:
    """What the program knows of one of its questions to a model."""

    usage: Usage
    ms: float


class ProgramCore:
    """The published side of one program. `run` opens it and goes on until it is told to stop; the rest are its steps,
    called in the order of a cycle by a `ProgramCycle`, which checks that order."""

    def __init__(
        self,
        order: ProgramOrder,
        agentuid: str,
        needs: NeedsSettings,
        shared_events: SharedSubscription,
        at: RecoveredAgent,
        control: Control,
        count: CycleCount | None,
        tasks: OwnedTasks,
        opened: asyncio.Future[ProgramCore],
    ) -> None:
        """`opened`: takes it once what an earlier process left open is closed. `tasks`: end with the program."""
        self.name, self.control, self.tools = order.name, control, order.tools
        self._at, self._policy, self._needs, self._count = at, order.policy, needs, count
        self._facts = AgentPublisher(
            shared_events, order.name, agentuid, at, control, order.policy.digest, Masker.of(None)
        )
        self.people_inbox: Inbox = Inbox(self._facts, at)
        self._opened = opened
        self.idle = asyncio.Event()
        """Set while no cycle is open."""
        self.idle.set()
        self._experiences: OrderedDict[int, ExperienceRecorded] = OrderedDict()
        self._recorded = asyncio.Event()
        self._tasks = tasks
        self._storing: asyncio.Task[None] | None = None
        """The last event that was published, or is being published."""

    @property
    def memory(self) -> AgentMemory:
        """The agent's present memory."""
        return self._at.memory

    async def run(self, until: int | None) -> None:
        """Publish the policy, close the cycle that an earlier process left open, and return once it is told to stop and
        no cycle is open. `until` is ignored: the program ends by itself."""
        stands = {"mind": ENGINE, "model": self._policy.model, "system_prompt": self._policy.system_prompt}
        # Published at each start: other processes that keep this agent's memory leave it alone from then on.
        key = f"{self._policy.digest}/{self.memory.next_cycle}/{self._at.end}"
        await self._store(self._facts.outside(PolicySet, key, **stands))
        await self.close()
        self._opened.set_result(self)
        while not self.control.stopping:
            await self.control.change()
        await self.idle.wait()

    def hear(self, arrived: ReceivedEvent) -> None:
        """Take an event from the reader. Raises FencedError when another copy of the agent runs, BusError when another
        agent has its name."""
        if not arrived.subject.endswith(f".{ExperienceRecorded.TYPE}"):
            self._facts.heard(arrived)
        elif arrived.is_event and isinstance(event := arrived.event, ExperienceRecorded):
            self._at.memory = remember(self.memory, event)
            if event.cycle is not None:
                self._experiences[event.cycle] = event
                self._recorded.set()
            if len(self._experiences) > KEPT:
                self._experiences.popitem(last=False)

    def status(self) -> AgentReport:
        """Its state in a few figures, as JSON."""
        memory = self.memory
        return {
            "agent": self.name,
            "state": self.control.state,
            "why": self.control.why,
            "cycle": memory.next_cycle - 1,
            "needs": self._levels(),
            "goals": [
                {"id": active.goal.id, "statement": active.goal.statement, "best": active.best}
                for active in memory.goals.values()
            ],
            "waiting": [],
            "waiting_count": len(memory.waiting),
            "policy": self._policy.digest,
        }

    def limit(self, settings: BudgetSettings) -> None:
        """Does nothing: a program acts when it does, and its acts are told after it has acted."""

    def draft(self) -> AnswerProgress:
        """The message that waits: how far a program has come with it is not known."""
        return drafted(self.memory, None)

    @property
    def team(self) -> None:
        """A program is no team."""
        return None

    def next_prompt(self) -> NoReturn:
        """Raises UsageError: the program asks its model by itself."""
        raise UsageError(f"{self.name} is a program of its own: it makes its prompts itself, Conch does not know them")

    async def experience(self, cycle: int) -> ExperienceRecorded:
        """The experience of a cycle as it was recorded last; waits until there is one."""
        while (found := self._experiences.get(cycle)) is None:
            self._recorded.clear()
            await self._recorded.wait()
        return found

    async def thought(self, number: int, text: str, step: ProgramStep) -> None:
        """Begin the cycle of this number."""
        needs, priorities = self._levels(), priorities_of(self._needs)
        await self._store(
            self._facts.of_cycle(
                ThoughtFormed,
                number,
                thought=cut(text),
                need=most_pressing(needs, priorities),
                pressing=pressing(needs, priorities),
                usage=step.usage,
                model=self._policy.model,
                ms=step.ms,
            )
        )
        if self._count is not None:
            self._count.begun(number)

    async def decided(
        self, number: int, action: Action, raw: str, messages: tuple[PromptMessage, ...], step: ProgramStep
    ) -> None:
        """Store the intent: the bus has it before the program may act."""
        said, model = cut(raw), self._policy.model
        if action.tool is not None and action.tool not in self.tools and len(self.tools.specs) < MOST_TOOLS:
            self.tools = self.tools.with_tools([action.tool])
        await self._store(
            self._facts.of_cycle(
                ActionDecided,
                number,
                messages=messages,
                raw=said.text,
                raw_length=said.length,
                raw_sha256=said.sha256,
                action=action,
                usage=step.usage,
                model=model,
                finish_reason="stop",
                ms=step.ms,
                decoding=Decoding(engine=ENGINE, model=model, tokens=step.usage.output_tokens or None),
            )
        )

    async def taken(self, number: int, result: ActionResult, usage: Usage) -> None:
        """Store the outcome of the open cycle's decision. `usage`: tokens of the act itself."""
        data = taken(self.memory, result, self._levels(), tuple(self.tools.names))
        before = data["usage"]
        assert isinstance(before, Usage)
        data["usage"] = Usage(
            input_tokens=before.input_tokens + usage.input_tokens,
            output_tokens=before.output_tokens + usage.output_tokens,
        )
        decided = self.memory.decided
        assert decided is not None
        await self._store(self._facts.of_cycle(ActionTaken, number, policy=decided.policy, **data))

    async def close(self, why: str | None = None) -> None:
        """End the open cycle: a decision without an outcome gets `unknown` (`none` where nothing was to be run), and
        is never run or published again; without a decision the cycle ends with a sentence that says so. Without an open
        cycle nothing is published. `why`: the sentence of an unknown outcome."""
        await self._stored()
        memory = self.memory
        if memory.thought is None or (number := memory.thought.cycle) is None:
            return
        if memory.decided is not None and memory.taken is None:
            result = cut_short(memory.decided.action, memory.decided.guard)
            if why is not None and result.outcome.status == "unknown":
                result = replace(result, outcome=result.outcome.model_copy(update={"error": why}))
            await self.taken(number, result, Usage())
        said = "" if memory.decided is not None else UNDECIDED
        await self._store(self._facts.of_cycle(CycleReflected, number, reflection=said, sleep=0.0, ms=0.0))

    async def _store(self, event: Event) -> None:
        """Publish an event. Cancelled, that goes on beside: the next event waits for it, so that none is published
        without knowing which were stored before. Raises ContractError for one that no bus takes, and sends none."""
        try:
            encode(event)
        except ValueError as error:  # a refused event must not stand before those that follow
            raise ContractError(f"this cannot be published: {error}") from error
        await self._stored()
        self._storing = self._tasks.start(self._facts.publish(event), name="conch.program.publish")
        await asyncio.shield(self._storing)

    async def _stored(self) -> None:
        if self._storing is not None:
            await asyncio.shield(self._storing)

    def _levels(self) -> dict[str, float]:
        """Satisfaction per need, 0..1: the last published, otherwise the start value."""
        start = initial_state(self._needs).levels
        return {need: self.memory.needs.get(need, level) for need, level in start.items()}
