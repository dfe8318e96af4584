"""Life cycle of one hosted agent: running, ended, or set aside after a failure until a person resumes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from conch.bus import Bus, ReceivedEvent
from conch.config import BudgetSettings
from conch.cycle.control import AgentReport, Control, StoppedError
from conch.cycle.hosting.draft import AnswerProgress
from conch.cycle.hosting.interrupt import Interrupt
from conch.cycle.inbox import Inbox
from conch.cycle.schedule import Schedule
from conch.cycle.state.memory import AgentMemory
from conch.cycle.state.recover import RecoveredAgent, RecoveryStart, recover, save
from conch.cycle.team.steps import TeamSteps
from conch.errors import ConchError, UsageError
from conch.log import get_logger
from conch.minds import Prompt, ScriptEnded
from conch_schemas import AgentPaused, AgentResumed

log = get_logger(__name__)


@dataclass(frozen=True)
class RunStart:
    """The agent's state when its run began, so that a restarted process runs to the same last cycle."""

    until: int | None
    """The cycle to end before; None: no end."""
    decisions: int
    """Decisions made before the run."""


class HostedAgent(Protocol):
    """What an `AgentRunner` runs: an `Agent`, or the acts of a program (`conch.library.program`)."""

    @property
    def people_inbox(self) -> Inbox:
        """Publishes what people send to it."""
        ...

    @property
    def memory(self) -> AgentMemory:
        """Its present memory."""
        ...

    @property
    def team(self) -> TeamSteps | None:
        """The steps of the team that it is; None: it is an agent alone."""
        ...

    async def run(self, until: int | None) -> None:
        """Run to its end; see `Agent.run`."""
        ...

    def hear(self, arrived: ReceivedEvent) -> None:
        """Take an event from the reader; see `Agent.hear`."""
        ...

    def status(self) -> AgentReport:
        """Its state in a few figures, as JSON."""
        ...

    def limit(self, settings: BudgetSettings) -> None:
        """Hold to these limits from now on."""
        ...

    def draft(self) -> AnswerProgress:
        """What it does now for the message that waits."""
        ...

    def next_prompt(self) -> Prompt:
        """The prompt that its mind would be asked with now. Raises UsageError where there is none."""
        ...


class AgentRunner:
    """Runs one agent of a process. Its failures do not affect the other agents."""

    def __init__(
        self,
        name: str,
        origin: RecoveryStart,
        control: Control,
        cycle_schedule: Schedule,
        make: Callable[[RecoveredAgent, RunStart], HostedAgent],
        furnish: Callable[[], Awaitable[None]],
        *,
        cycles: int | None = None,
        begun: RunStart | None = None,
    ) -> None:
        """`make` builds an agent with its dependencies, `furnish` prepares its workspace before the first cycle; both
        may raise. `cycles`: how many more to run; None: until it is told to stop."""
        self.name, self.origin, self.control = name, origin, control
        self._cycle_schedule, self._make, self._furnish, self._cycles = cycle_schedule, make, furnish, cycles
        self.begun = begun
        self.at: RecoveredAgent | None = None
        """None: it is set aside, and its memory is as last written."""
        self.error: Exception | None = None
        """The error for which it is set aside."""
        self._agent: HostedAgent | None = None
        self._missed: list[ReceivedEvent] | None = None
        """Events that arrived while its memory was being recovered."""
        self._limits: BudgetSettings | None = None
        """The limits that hold in place of those of the settings at the start."""
        self._interrupt = Interrupt()
        self.broken: Exception | None = None
        """The error that ended its run."""

    @property
    def agent(self) -> HostedAgent:
        """The running agent. Raises UsageError where it is set aside."""
        if self._agent is None:
            why = said(self.error) if self.error is not None else "it begins in a moment"
            raise UsageError(f"{self.name} is set aside ({why}): conch resume --agent {self.name} lets it go on")
        return self._agent

    @property
    def behind(self) -> int:
        """The position where its reading begins: its memory is complete but for the experiences."""
        assert self.at is not None
        return self.at.read

    def begin(self, at: RecoveredAgent) -> None:
        """Build the agent with its memory. Raises what building it raises."""
        if self.begun is None:
            until = at.memory.next_cycle + self._cycles if self._cycles is not None else None
            self.begun = RunStart(until, at.memory.decisions)
        self._agent = self._make(at, self.begun)
        if self._limits is not None:
            self._agent.limit(self._limits)
        self.at, self.error, self.broken, self._interrupt = at, None, None, Interrupt()
        missed, self._missed = self._missed or (), None
        for arrived in missed:
            self._agent.hear(arrived)

    async def live(self, *, at_once: bool = False) -> None:
        """Run the agent, from its own place in the interval (or at once) to its end. Raises its error as it is."""
        assert self.begun is not None
        try:
            await self._interrupt.around(self._live(self.begun.until, 0.0 if at_once else self._cycle_schedule.first()))
        except (ScriptEnded, StoppedError) as end:
            log.info("agent.ended_early", agent=self.name, why=type(end).__name__)

    async def _live(self, until: int | None, wait: float) -> None:
        self.control.running()
        await self.control.sleep(wait)
        if not self.control.stopping:
            await self._furnish()
            await self.agent.run(until)

    def hear(self, arrived: ReceivedEvent) -> None:
        """Take an event from the reader; an error that ends the agent is raised by `live`."""
        if self._missed is not None:
            self._missed.append(arrived)
        elif self._agent is not None:
            try:
                self._agent.hear(arrived)
            except Exception as error:
                self.end(error)

    def end(self, error: Exception) -> None:
        """Have `live` raise this error, if it is still running."""
        self.broken = error
        self._interrupt.end(error)

    def set_aside(self, error: Exception) -> None:
        """Set it aside for this error: it does nothing and writes nothing until it is resumed."""
        self.at, self._agent, self._missed, self.error = None, None, None, error
        self.control.trouble("failed", said(error))

    async def let_go_on(self) -> bool:
        """Wait until a person resumes it; whether that came before it was told to stop."""
        self.control.pause()
        while self.control.paused and not self.control.stopping:
            await self.control.change()
        self.control.over("failed")
        return not self.control.stopping

    def limit(self, settings: BudgetSettings) -> None:
        """Hold the agent to these limits, from its next cycle or question on, also once it is started again."""
        self._limits = settings
        if self._agent is not None:
            self._agent.limit(settings)

    async def told_of(self, kind: type[AgentPaused | AgentResumed]) -> None:
        """Publish that it was paused or resumed; of an agent that is set aside nothing is published."""
        if self._agent is not None:
            await self._agent.people_inbox.wait_or_go_on(kind)

    async def again(self, bus: Bus) -> None:
        """Start again from what the stream holds of it. Raises its error."""
        self._missed = []
        self.begin(await recover(bus, self.name, self.origin))

    async def save(self, bus: Bus, upto: int) -> None:
        """Write its memory; everything up to `upto` was passed to `hear`. Does nothing while it is set aside.

        Raises FencedError when another copy of it wrote it.
        """
        if self.at is not None:
            self.at.read = max(self.at.read, upto)
            await save(bus, self.name, self.origin.agentuid, self.at)

    def status(self) -> AgentReport:
        """Its state in a few figures, as JSON."""
        return self._agent.status() if self._agent is not None else self.row()

    def row(self) -> AgentReport:
        """Its state as a row of a table, as JSON."""
        cycle = self._agent.memory.next_cycle - 1 if self._agent is not None else None
        return {"agent": self.name, "state": self.control.state, "why": self.control.why, "cycle": cycle}


def said(error: Exception) -> str:
    """An error of any class in one sentence."""
    return str(error) if isinstance(error, ConchError) else f"{type(error).__name__}: {error}"
