"""The active alarms of agents, read from the watchers' states in the checkpoint bucket."""

from __future__ import annotations

from collections.abc import Sequence

from conch.bus import Bus, KeyValue, StateRecord, state_agent, state_key
from conch.errors import ContractError
from conch.rewards.watch import CONSUMER, WatchState
from conch.tasks import concurrently


async def watched(bus: Bus, agents: Sequence[str]) -> dict[str, WatchState]:
    """The watchers' state of each of these agents, about a second old at most; its `active` are the alarms that go on.

    Agents that were never watched, and those with a state of another version, are left out. Raises BusError.
    """
    entries = await concurrently(lambda agent: bus.get(state_key(CONSUMER, agent)), agents)
    states = {agent: _state(entry) for agent, entry in zip(agents, entries, strict=True)}
    return {agent: state for agent, state in states.items() if state is not None}


async def watched_agents(bus: Bus) -> list[str]:
    """The agents with a stored state of the watchers."""
    found = (state_agent(key, CONSUMER) for key in await bus.keys())
    return [agent for agent in found if agent is not None]


def _state(entry: KeyValue | None) -> WatchState | None:
    try:
        if entry is None or not entry.value:
            return None
        return WatchState.model_validate(StateRecord.decode(entry.value).state)
    except (ContractError, ValueError, LookupError, TypeError):
        return None
