"""The observation that a mind is asked with: from the agent's memory and its workspace."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime

from conch.config import NeedSettings
from conch.cycle.context import AgentContext
from conch.cycle.goals import in_order
from conch.cycle.grounding.files import list_files
from conch.cycle.grounding.sensors import perceived
from conch.cycle.own_goals.bounds import has_room
from conch.cycle.state.memory import AgentMemory
from conch.cycle.state.sessions import conversation
from conch.minds import SensorValue, Situation
from conch.needs import initial_state, most_pressing, needs_of, pressing, priorities_of
from conch.tools import GOAL_TOOL, able_tools

FRESH_SECONDS = 1.0
"""Seconds that a list of the workspace's files stays valid between a thought and its decision."""

SHOWN_WAITING = 20
"""Messages that wait behind the first one and are shown."""


@dataclass(frozen=True)
class Observation:
    """The state in which a mind is asked: the situation, and the message that waits for an answer."""

    situation: Situation
    message: tuple[str, str] | None
    """Id and text of the oldest message that waits."""


class Observer:
    """Makes the observations of one agent."""

    def __init__(self, agent_context: AgentContext) -> None:
        self._agent_context, self._tools = agent_context, tuple(agent_context.toolbox.registry.names)
        self._priorities = priorities_of(agent_context.settings.needs)
        self._raised_by = {need: _raising(its) for need, its in needs_of(agent_context.settings.needs).items()}
        self._own_goals = agent_context.settings.own_goals
        self._listed: tuple[str, ...] = ()
        self._listed_at = -FRESH_SECONDS
        self._born_with = initial_state(agent_context.settings.needs).levels

    def _files(self, memory: AgentMemory) -> tuple[str, ...]:
        """The workspace's files, cached from the thought to the decision that follows it."""
        deciding = memory.thought is not None and memory.decided is None
        if not deciding or time.monotonic() - self._listed_at > FRESH_SECONDS:
            self._listed, self._listed_at = list_files(self._agent_context.workspace), time.monotonic()
        return self._listed

    def needs(self, memory: AgentMemory) -> dict[str, float]:
        """Satisfaction per need, 0..1: the last published, otherwise the start value."""
        return {need: memory.needs.get(need, start) for need, start in self._born_with.items()}

    def senses(self, memory: AgentMemory) -> tuple[SensorValue, ...]:
        """The last reading of each sensor, by name, including stale ones."""
        return perceived(memory.senses, self._agent_context.settings.edge.senses, time.time())

    def observation(self, memory: AgentMemory, number: int) -> Observation:
        """The present observation, in the cycle of this number."""
        needs, grounded = self.needs(memory), memory.grounded
        waiting = memory.waiting[0] if memory.waiting else None
        situation = Situation(
            agent=self._agent_context.settings.agent,
            cycle=number,
            needs=needs,
            pressing=pressing(needs, self._priorities),
            need=most_pressing(needs, self._priorities),
            goals=tuple(goal.as_told() for goal in in_order(memory.goals.values())),
            measures={
                id: (active.best, active.measure if active.measure is not None else active.best)
                for id, active in memory.goals.items()
                if active.best is not None
            },
            raised_by=self._raised_by,
            lessons=memory.lessons,
            waiting=tuple(later.text for later in memory.waiting[1 : 1 + SHOWN_WAITING]),
            message=waiting.text if waiting is not None else None,
            conversation=conversation(memory.sessions, waiting.session) if waiting is not None else (),
            thought=memory.thought.thought.text if memory.thought is not None else "",
            claims=grounded.claims if grounded is not None else (),
            memory=grounded.memory if grounded is not None else (),
            recent=memory.recall(),
            reached=tuple(goal.statement for goal in memory.reached),
            files=self._files(memory),
            proposed=frozenset(id for id, active in memory.goals.items() if not active.pays),
            may_propose=GOAL_TOOL in self._tools and has_room(memory, self._own_goals, datetime.now(UTC)),
            tools=able_tools(self._tools, self._agent_context.sandbox),
            senses=tuple(sense for sense in self.senses(memory) if not sense.stale),
        )
        return Observation(situation, (waiting.id, waiting.text) if waiting is not None else None)


def _raising(need: NeedSettings) -> tuple[str, ...]:
    """The events that raise a need, the strongest first."""
    raising = [event for event, delta in need.events.items() if delta > 0]
    return tuple(sorted(raising, key=lambda event: -need.events[event]))
