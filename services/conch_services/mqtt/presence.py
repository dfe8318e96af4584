"""Retained messages about the agents: each one's status, and its Home Assistant discovery."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from conch.bus import Bus, ReceivedEvent
from conch_schemas import (
    ContractViolationError,
    Event,
    ExperienceRecorded,
    JsonObject,
    NeedsChanged,
    decode,
    subject_filter,
    type_of,
)
from conch_services.mqtt.discovery import RetainedMessage, announce_agent, announce_need
from conch_services.mqtt.topics import status_topic

AGENTS, NEEDS = 10_000, 64
"""Agents with a status, and needs of each that are announced: names are unbounded."""

_TELLING = (ExperienceRecorded.TYPE, NeedsChanged.TYPE)


@dataclass
class _KnownAgent:
    """The announced state of one agent."""

    cycle: int | None = None
    reward: float | None = None
    time: str | None = None
    needs: dict[str, None] = field(default_factory=dict)


class AgentPresence:
    """The agents that are active, as seen in the events. It makes messages and sends none."""

    def __init__(self, host: str, discovery: str | None) -> None:
        """`host`: the agent that the home is named for. `discovery`: Home Assistant's prefix; None: nothing for it."""
        self._host, self._discovery = host, discovery
        self._agents: dict[str, _KnownAgent] = {}
        self._changed: set[str] = {host}

    async def remember(self, bus: Bus) -> None:
        """Read the host's last cycle from the stream, where it is still there."""
        for kind in (ExperienceRecorded, NeedsChanged):
            if (found := await bus.last(subject_filter(kind, self._host))) is not None:
                try:
                    self._learn(self._host, decode(found.data))
                except ContractViolationError:
                    continue  # no event: it is not published to the broker, either

    def learn(self, arrived: ReceivedEvent) -> list[RetainedMessage]:
        """Take a fact in; what it makes known for the first time."""
        agent = arrived.agent
        telling = type_of(arrived.subject) in _TELLING
        if not telling and agent in self._agents:
            return []
        return self._learn(agent, arrived.event if telling else None)

    def _learn(self, agent: str, event: Event | None) -> list[RetainedMessage]:
        news: list[RetainedMessage] = []
        known = self._agents.get(agent)
        if known is None:
            if len(self._agents) >= AGENTS:
                return []
            known = self._agents[agent] = _KnownAgent()
            self._changed.add(agent)
            if self._discovery is not None:
                news += announce_agent(self._discovery, agent, self._host)
        if isinstance(event, ExperienceRecorded):
            known.cycle, known.reward, known.time = event.cycle, event.total, event.time.isoformat()
            self._changed.add(agent)
        elif isinstance(event, NeedsChanged):
            new = [need for need in event.after if need not in known.needs][: NEEDS - len(known.needs)]
            known.needs |= dict.fromkeys(new)
            if self._discovery is not None:
                news += [announce_need(self._discovery, agent, self._host, need) for need in new]
        return news

    def everything(self) -> Iterator[RetainedMessage]:
        """All messages for a broker that may have lost its retained ones: the statuses first."""
        yield from self.statuses({self._host, *self._agents})
        if self._discovery is None:
            return
        for agent, known in self._agents.items():
            yield from announce_agent(self._discovery, agent, self._host)
            yield from (announce_need(self._discovery, agent, self._host, need) for need in known.needs)

    def changed(self) -> list[RetainedMessage]:
        """The statuses that changed since they were asked for."""
        changed, self._changed = self._changed, set()
        return list(self.statuses(changed))

    def farewell(self) -> Iterator[RetainedMessage]:
        """All statuses as they are when we leave in order; the host's last, which the others hang on."""
        yield from self.statuses(set(self._agents) - {self._host}, "offline")
        yield from self.statuses({self._host}, "offline")

    def statuses(self, agents: set[str], state: str = "online") -> Iterator[RetainedMessage]:
        """The retained status of each."""
        for agent in sorted(agents):
            yield RetainedMessage(status_topic(agent), status(agent, state, self._agents.get(agent)))


def status(agent: str, state: str, known: _KnownAgent | None = None) -> bytes:
    """`state`: online, offline. Beside it the last recorded cycle, its reward and time; null where there is none."""
    last = known or _KnownAgent()
    said: JsonObject = {"agent": agent, "state": state}
    return json.dumps(said | {"cycle": last.cycle, "reward": last.reward, "time": last.time}).encode()
