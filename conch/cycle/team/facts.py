"""The facts of a team's switches, published by its agent."""

from __future__ import annotations

import time
from collections.abc import Callable

from conch.cycle.publish import AgentPublisher
from conch.teams import RouterState, Topology
from conch_schemas import ActionTaken, TeamSwitchAborted, TeamSwitched, TeamSwitchPrepared


class TeamSwitchFacts:
    """See `SwitchFacts`. Each fact follows from the act at whose end the team switches."""

    def __init__(self, team: str, facts: AgentPublisher, router: Callable[[], RouterState], act: ActionTaken) -> None:
        self._team, self._facts, self._now, self._act = team, facts, router, act
        self._began: float | None = None

    @property
    def router(self) -> RouterState:
        """The router as of now."""
        return self._now()

    async def prepare(self, target: Topology) -> None:
        """See `SwitchFacts`."""
        self._began = time.perf_counter()
        event = self._facts.after(
            self._act,
            TeamSwitchPrepared,
            team=self._team,
            epoch=self.router.epoch,
            source_topology=self.router.topology,
            target=target,
            by="controller",
        )
        await self._facts.publish(event)

    async def commit(self) -> None:
        """See `SwitchFacts`."""
        assert self.router.target is not None
        ms = (time.perf_counter() - self._began) * 1000 if self._began is not None else 0.0
        epoch, topology = self.router.epoch + 1, self.router.target
        event = self._facts.after(self._act, TeamSwitched, team=self._team, epoch=epoch, topology=topology, ms=ms)
        await self._facts.publish(event)

    async def abort(self, why: str) -> None:
        """See `SwitchFacts`."""
        epoch = self.router.epoch
        event = self._facts.after(self._act, TeamSwitchAborted, team=self._team, epoch=epoch, why=why)
        await self._facts.publish(event)
