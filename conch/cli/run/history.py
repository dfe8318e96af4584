"""Detects that the history of an agent was lost, and chooses the cycle number with which the agent goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from pydantic import BaseModel

from conch.bus import Bus, MemoryRecord, memory_key, newest
from conch.cli.run.agents import AgentIdentity
from conch.cycle.state.count import ON_DISK_EVERY, cycles_begun
from conch.errors import ContractError
from conch.home import Home
from conch.log import get_logger
from conch_schemas import ThoughtFormed, subject_filter

log = get_logger(__name__)

UNCOUNTED = 1_000_000
"""The next cycle number for an agent without a known count: few agents have begun more cycles."""


class _Numbered(BaseModel):
    """The fields of an agent's memory that are read here; newer versions have them too."""

    next_cycle: int


async def with_numbers(
    bus: Bus, home: Home, identities: Sequence[AgentIdentity], warn: Callable[[str], None]
) -> list[AgentIdentity]:
    """The agents, each with a next cycle number that it has not used, even after a loss of stream or store; a loss is
    reported.

    `identities`: with what the store knows of them.
    """
    begun = await asyncio.to_thread(lambda: {one.name: _begun(home, one.name) for one in identities if not one.fresh})
    return [
        await _numbered(bus, one, number, warn) if (number := begun.get(one.name, 0)) > one.beyond else one
        for one in identities
    ]


def _begun(home: Home, agent: str) -> int:
    """Cycles that the agent may have begun, according to its own files."""
    counted = cycles_begun(home.agent_dir(agent))
    return counted if counted is not None else UNCOUNTED if home.reflex_file(agent).exists() else 0


async def _numbered(bus: Bus, identity: AgentIdentity, begun: int, warn: Callable[[str], None]) -> AgentIdentity:
    known = max(identity.beyond, await _known(bus, identity.name))
    if known >= begun or (known and begun == UNCOUNTED):
        return identity
    if known:  # the store has joined it but for its end
        return replace(identity, beyond=begun + 1)
    beyond = UNCOUNTED if begun == UNCOUNTED else begun + 2 * ON_DISK_EVERY
    what = "it has learnt" if begun == UNCOUNTED else f"{begun} cycles"
    sentence = (
        f"agent {identity.name} has acted before ({what}), but neither the stream nor the store knows of it: "
        "its history "
        f"is gone, and it goes on with cycle {beyond}, so that no number stands for two; a copy of bus/ or of the "
        "store that is put back before the next run brings the history back"
    )
    log.error("agent.history_gone", agent=identity.name, begun=begun, next=beyond)
    warn(sentence)
    return replace(identity, beyond=beyond)


async def _known(bus: Bus, agent: str) -> int:
    """The number behind the last cycle that the stream, or what the agent wrote down beside it, knows of."""
    [(_, thought)] = await newest(bus, [subject_filter(ThoughtFormed, agent)])
    entry = await bus.get(memory_key(agent))
    written = 0
    if entry is not None and entry.value:
        try:
            written = MemoryRecord[_Numbered].decode(entry.value).memory.next_cycle
        except ContractError:
            log.warning("agent.memory_unreadable", agent=agent)  # the agent reports what to do
    return max(written, 0 if thought is None or thought.cycle is None else thought.cycle + 1)
