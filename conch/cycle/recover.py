"""Recover: the agent's memory from its snapshot and its own facts, read to the end of the stream."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from conch.bus import Bus
from conch.cycle.memory import OWN_KINDS, Memory, remember
from conch.errors import BusError, ContractError
from conch_schemas import ContractViolationError, Event, NeedsChanged, decode, subject_filter


@dataclass
class Recovered:
    """Where the agent goes on."""

    memory: Memory
    seq: int
    """The agent's own facts up to here are in the memory."""
    read: int
    """Others' facts up to here were taken."""
    revision: int
    """Of the snapshot in the bucket."""
    written: int = 0
    """The snapshot holds everything up to here: the stream need not keep it for this agent."""


def memory_key(agent: str) -> str:
    """The bucket's key of an agent's memory."""
    return f"agent/{agent}"


async def recover(bus: Bus, agent: str, agentuid: str, *, beyond: int) -> Recovered:
    """The memory as of the end of the stream. `beyond`: the next cycle's number is at least this, whatever is there.

    Raises BusError when the stream's agent of this name is another one, ContractError for an unreadable snapshot.
    """
    state = await bus.state()
    entry = await bus.get(memory_key(agent))
    memory, seq, read, revision = Memory(), 0, 0, 0
    if entry is not None:
        try:
            found = json.loads(entry.value)
            memory = Memory.model_validate(found["memory"])
        except (ValueError, LookupError, ValidationError) as error:
            raise ContractError(
                f"the memory of agent {agent} on the bus cannot be read by this version ({type(error).__name__}): "
                "run the version that wrote it"
            ) from None
        _refuse_stranger(agent, agentuid, found["agentuid"])
        revision = entry.revision
        if found["epoch"] == state.epoch:
            seq, read = min(found["seq"], state.last), min(found["read"], state.last)
    kinds: tuple[type[Event], ...] = (*OWN_KINDS, NeedsChanged)
    filters = [subject_filter(kind, agent) for kind in kinds]
    async for delivery in bus.read(filters, after=seq):
        try:
            event = decode(delivery.data)
        except ContractViolationError:
            continue  # garbage on our subject: its readers make dead letters of it
        if event.agent == agent and not isinstance(event, NeedsChanged):
            _refuse_stranger(agent, agentuid, event.agentuid)
        memory = remember(memory, event)
    if memory.next_cycle < beyond:
        # The stream lost what the store has joined: that cycle is over, its number is not used again.
        memory = memory.model_copy(update={"next_cycle": beyond, "thought": None})
    return Recovered(memory, state.last, read, revision)


async def save(bus: Bus, agent: str, agentuid: str, recovered: Recovered) -> None:
    """Write the memory down. Raises FencedError when another copy of the agent did since."""
    value: dict[str, Any] = {
        "agentuid": agentuid,
        "epoch": (await bus.state()).epoch,
        "seq": recovered.seq,
        "read": recovered.read,
        "memory": recovered.memory.model_dump(mode="json"),
    }
    data = json.dumps(value, separators=(",", ":")).encode()
    recovered.revision = await bus.put(memory_key(agent), data, revision=recovered.revision)
    recovered.written = min(value["seq"], value["read"])


def _refuse_stranger(agent: str, agentuid: str, found: str) -> None:
    if found != agentuid:
        raise BusError(
            f"the stream belongs to another agent named {agent} ({found}, this home's is {agentuid}): "
            "give this one another name (--config, agent), or use another NATS account"
        )
