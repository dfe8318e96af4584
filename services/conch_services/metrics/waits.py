"""The metrics of agents that do nothing for a known time: at a limit of the budget, or asleep."""

from __future__ import annotations

import math

from conch_schemas import ActionTaken, AgentSlept, AgentWoke, BudgetReached, Event
from conch_services.metrics.instruments import Instruments
from conch_services.metrics.labels import BoundedLabels


class WaitFigures:
    """Until when each agent waits or sleeps."""

    def __init__(self, instruments: Instruments, agents: BoundedLabels) -> None:
        self._to, self._agents = instruments, agents
        self._waiting: set[str] = set()
        """The agents that wait at a limit of their budget."""

    def count(self, event: Event) -> None:
        """Take one fact; one of another type changes nothing."""
        match event:
            case BudgetReached():
                agent = self._agents(event.agent)
                self._to.budget_waits.set(math.inf if event.until is None else event.until.timestamp(), agent)
                self._waiting.add(agent)
            case AgentSlept():
                self._to.asleep.set(event.until.timestamp(), self._agents(event.agent))
            case AgentWoke():
                self._to.asleep.set(0.0, self._agents(event.agent))
            case ActionTaken() if (agent := self._agents(event.agent)) in self._waiting:
                self._waiting.discard(agent)
                self._to.budget_waits.set(0.0, agent)
