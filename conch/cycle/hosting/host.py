"""Runs several agents in one process with one reader, one checkpoint schedule, and isolated failures.

Two processes that host the same agent (after a home was copied, say) never run an action twice: an intent is stored
under the cycle's own id before anything is run, and the second process's intent is another content under that id. A
process that reads an event of the agent that it did not publish, or finds its memory written by another process, stops
that agent and reports it; where both read each other's events, both stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from conch.bus import SharedSubscription, StreamSubscription
from conch.cycle.hosting.commands import AgentCommands
from conch.cycle.hosting.dormant import DormantAgent
from conch.cycle.hosting.runner import AgentRunner, said
from conch.cycle.state.checkpoint import CheckpointSchedule
from conch.cycle.state.recover import LIVED_KINDS, RecoveredAgent, RecoveryStart, recover_all
from conch.errors import ConchError
from conch.log import get_logger
from conch.processes import messages
from conch.tasks import innermost, race
from conch_schemas import control_subject

log = get_logger(__name__)

BATCH = 32
"""Events handled at a time: between two batches other tasks have the event loop."""


@dataclass(frozen=True)
class OtherProcesses:
    """The agent processes beside this one, where the agents of a run are spread over several."""

    agents: Sequence[messages.OtherAgents]
    set_aside: Callable[[Exception | None], None]
    """Called when the last agent of this process was set aside, with its error; with None when one goes on again."""
    ended: Callable[[], Awaitable[None]]
    """Awaited when all agents of this process have ended; returns when it is to end, too."""


class AgentHost:
    """The agents of one process. `dormant_agents`: agents of the home that do not run in this run, kept up to date.
    `beside`: the run's other agent processes."""

    def __init__(
        self,
        shared_events: SharedSubscription,
        agent_runner: Sequence[AgentRunner],
        dormant_agents: Mapping[str, RecoveryStart] | None = None,
        beside: OtherProcesses | None = None,
    ) -> None:
        self._shared_events, self._bus = shared_events, shared_events.bus
        self.agent_runner = {one.name: one for one in agent_runner}
        self._dormant_agents = dormant_agents or {}
        self._heard: dict[str, AgentRunner | DormantAgent] = dict(self.agent_runner)
        self._beside = beside
        self._alone = len(agent_runner) == 1 and beside is None
        self._all_failed = False

    async def run(self) -> None:
        """Run from the recovery of all agents to the end of all. An agent that fails is set aside, and the others go
        on.

        Raises the error of the only agent, or where all have failed, of the first; with other processes beside this
        one neither, as agents go on there.
        """
        origins = {name: one.origin for name, one in self.agent_runner.items()}
        found = await recover_all(self._bus, {**self._dormant_agents, **origins})
        self._begin(found)
        after = min(
            (one.behind for one in self.agent_runner.values() if one.at is not None), default=self._shared_events.seq
        )
        async with (
            AsyncExitStack() as stack,
            self._shared_events.subscribe(LIVED_KINDS, after=after, mine=self._heard.__contains__) as subscription,
        ):
            others = self._beside.agents if self._beside is not None else ()
            for one in self.agent_runner.values():
                subject = control_subject(one.name, "*")
                commands = AgentCommands(self.agent_runner, one, self._bus, others)
                await stack.enter_async_context(self._bus.serve(subject, commands.answer))
            dormant_agents = [one for one in self._heard.values() if isinstance(one, DormantAgent)]
            checkpoints = CheckpointSchedule(self._bus, subscription, list(self.agent_runner.values()), dormant_agents)
            await race(
                {
                    "conch.agents": self._lives(),
                    "conch.agents.read": self._read(subscription, checkpoints),
                    "conch.agents.checkpoints": checkpoints.keep(),
                }
            )
            await checkpoints.finish()
        first = next(iter(self.agent_runner.values()))
        if self._alone and first.broken is not None:
            raise first.broken

    def _begin(self, found: Mapping[str, RecoveredAgent | ConchError]) -> None:
        for name, at in found.items():
            one = self.agent_runner.get(name)
            if one is not None:
                try:
                    _begun(one, at)
                except Exception as error:
                    self._failed(one, error)
            elif isinstance(at, RecoveredAgent):
                self._heard[name] = DormantAgent(name, self._dormant_agents[name].agentuid, at)
            else:
                log.warning("agent.rests_unread", agent=name, why=str(at))

    async def _lives(self) -> None:
        """Run until all have ended, and the other processes' agents too. Raises the error of the only agent, or of the
        first where no other is left."""
        try:
            async with asyncio.TaskGroup() as group:
                for one in self.agent_runner.values():
                    group.create_task(self._life(one), name=f"conch.agent.{one.name}")
        except BaseExceptionGroup as failed:
            raise innermost(failed) from None
        if self._beside is not None:
            await self._beside.ended()

    async def _life(self, one: AgentRunner) -> None:
        failed = one.error is not None
        while not failed or (not one.control.batch and await one.let_go_on()):
            try:
                if failed:
                    await one.again(self._bus)
                    self._goes_on()
                await one.live(at_once=failed)
            except Exception as error:
                self._failed(one, error)
                failed = True
            else:
                if not self._alone:
                    one.control.ended()
                return

    def _failed(self, one: AgentRunner, error: Exception) -> None:
        """Set a failed agent aside. Raises its error where no other agent is left in the run."""
        one.set_aside(error)
        none_left = all(other.error is not None for other in self.agent_runner.values())
        if none_left and self._beside is None:
            raise error
        log.error("agent.failed", agent=one.name, error=said(error), exc_info=not isinstance(error, ConchError))
        if none_left and self._beside is not None and not self._all_failed:
            self._all_failed = True
            self._beside.set_aside(error)

    def _goes_on(self) -> None:
        """Report that an agent goes on, where none did."""
        if self._beside is not None and self._all_failed:
            self._all_failed = False
            self._beside.set_aside(None)

    async def _read(self, subscription: StreamSubscription, checkpoints: CheckpointSchedule) -> None:
        while True:
            for arrived in await subscription.get(BATCH):
                self._heard[arrived.agent].hear(arrived)
                checkpoints.heard()
            await asyncio.sleep(0)


def _begun(one: AgentRunner, at: RecoveredAgent | ConchError) -> None:
    if isinstance(at, ConchError):
        raise at
    one.begin(at)
