"""Runs several agents in one process with one reader, one checkpoint schedule, and isolated failures.

Two processes that host the same agent (after a home was copied, say) never run an action twice: an intent is stored
under the cycle's own id before anything is run, and the second process's intent is another content under that id. A
process that reads an event of the agent that it did not publish, or finds its memory written by another process, stops
that agent and reports it; where both read each other's events, both stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

from conch.bus import SharedSubscription, StreamSubscription
from conch.cycle.hosting.commands import AgentCommands
from conch.cycle.hosting.dormant import DormantAgent
from conch.cycle.hosting.runner import AgentRunner, said
from conch.cycle.state.checkpoint import CheckpointSchedule
from conch.cycle.state.recover import LIVED_KINDS, RecoveredAgent, RecoveryStart, recover_all
from conch.errors import ConchError
from conch.log import get_logger
from conch.tasks import innermost, race
from conch_schemas import control_subject

log = get_logger(__name__)

BATCH = 32
"""Events handled at a time: between two batches other tasks have the event loop."""


class AgentHost:
    """The agents of one process. `dormant_agents`: agents of the home that do not run here, kept up to date."""

    def __init__(
        self,
        shared_events: SharedSubscription,
        agent_runner: Sequence[AgentRunner],
        dormant_agents: Mapping[str, RecoveryStart] | None = None,
    ) -> None:
        self._shared_events, self._bus = shared_events, shared_events.bus
        self.agent_runner = {one.name: one for one in agent_runner}
        self._dormant_agents = dormant_agents or {}
        self._heard: dict[str, AgentRunner | DormantAgent] = dict(self.agent_runner)
        self._alone = len(agent_runner) == 1

    async def run(self) -> None:
        """Run from the recovery of all agents to the end of all. An agent that fails is set aside, and the others go
        on.

        Raises the error of the only agent, or where all have failed, of the first.
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
            for one in self.agent_runner.values():
                subject = control_subject(one.name, "*")
                await stack.enter_async_context(self._bus.serve(subject, AgentCommands(self.agent_runner, one).answer))
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
        [first, *others] = self.agent_runner.values()
        if not others and first.broken is not None:
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
        """Run until all have ended. Raises the error of the only agent, or of the first where no other is left."""
        try:
            async with asyncio.TaskGroup() as group:
                for one in self.agent_runner.values():
                    group.create_task(self._life(one), name=f"conch.agent.{one.name}")
        except BaseExceptionGroup as failed:
            raise innermost(failed) from None

    async def _life(self, one: AgentRunner) -> None:
        failed = one.error is not None
        while not failed or (not one.control.batch and await one.let_go_on()):
            try:
                if failed:
                    await one.again(self._bus)
                await one.live(at_once=failed)
            except Exception as error:
                self._failed(one, error)
                failed = True
            else:
                if not self._alone:
                    one.control.ended()
                return

    def _failed(self, one: AgentRunner, error: Exception) -> None:
        """Set a failed agent aside. Raises its error where no other agent is left."""
        one.set_aside(error)
        if self._alone or all(other.error is not None for other in self.agent_runner.values()):
            raise error
        log.error("agent.failed", agent=one.name, error=said(error), exc_info=not isinstance(error, ConchError))

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
