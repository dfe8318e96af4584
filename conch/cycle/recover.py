"""Recover: the agent's memory from its snapshot and its own facts, read to the end of the stream."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import structlog
from pydantic import ValidationError

from conch.bus import Bus
from conch.bus.admit import MAX_BYTES
from conch.cycle.memory import CYCLE_KINDS, MEASURED_KINDS, OWN_KINDS, Memory, remember
from conch.errors import BusError, ContractError
from conch_schemas import (
    ContractViolationError,
    Event,
    ExperienceRecorded,
    MessageReceived,
    decode,
    subject_filter,
)

log = structlog.get_logger(__name__)


@dataclass
class Recovered:
    """Where the agent goes on, and how far it has come since."""

    memory: Memory
    end: int
    """The memory began with everything up to here."""
    read: int
    """The agent's reader has handed over everything up to here; it begins behind the snapshot, so that no experience
    is missed by the mind. At most what the memory holds."""
    epoch: str
    """Of the stream."""
    revision: int
    """Of the snapshot in the bucket."""
    written: int = 0
    """The snapshot holds everything up to here: the stream need not keep it for this agent."""


def memory_key(agent: str) -> str:
    """The bucket's key of an agent's memory."""
    return f"agent/{agent}"


def lived_by(agent: str) -> list[str]:
    """Filters of the facts that the agent lives by: its own, its needs and senses, its experiences."""
    return [*_remembered(agent), subject_filter(ExperienceRecorded, agent)]


async def recover(bus: Bus, agent: str, agentuid: str, *, beyond: int) -> Recovered:
    """The memory as of the end of the stream. `beyond`: what the store has joined lies below this cycle, so no cycle
    below it begins or acts again, whatever is there.

    Raises BusError when the stream's agent of this name is another one, ContractError for an unreadable snapshot.
    """
    state = await bus.state()
    recovered = Recovered(Memory(), end=state.last, read=0, epoch=state.epoch, revision=0)
    if (entry := await bus.get(memory_key(agent))) is not None:
        memory, found = _snapshot(agent, entry.value)
        refuse_stranger(agent, agentuid, found["agentuid"])
        recovered.memory, recovered.revision = memory, entry.revision
        if found["epoch"] == state.epoch:
            recovered.read = recovered.written = min(found["seq"], state.last)
    async for delivery in bus.read(_remembered(agent), after=recovered.read):
        recovered.end = max(recovered.end, delivery.seq)
        if (event := decoded(delivery.data, agent)) is None:
            continue
        if isinstance(event, CYCLE_KINDS):
            refuse_stranger(agent, agentuid, event.agentuid)
        recovered.memory = remember(recovered.memory, event)
        if isinstance(event, MessageReceived) and not recovered.memory.knows_message(event.id):
            log.warning("message.beyond_bounds", message=event.id, seq=delivery.seq)
    recovered.memory = _not_below(recovered.memory, beyond)
    return recovered


def decoded(data: bytes, agent: str) -> Event | None:
    """The agent's fact in these bytes; None for what is none: its consumers make dead letters of it."""
    try:
        event = decode(data)
    except ContractViolationError:
        return None
    return event if event.agent == agent else None


def refuse_stranger(agent: str, agentuid: str, found: str) -> None:
    """Raises BusError where a fact of this name is another agent's."""
    if found != agentuid:
        raise BusError(
            f"the stream belongs to another agent named {agent} ({found}, this home's is {agentuid}): "
            "give this one another name (--config, agent), or use another NATS account"
        )


async def save(bus: Bus, agent: str, agentuid: str, recovered: Recovered) -> None:
    """Write the memory down. Raises FencedError when another copy of the agent did since.

    A memory too large for the bus is not written, and said so: the stream keeps what it was made of.
    """
    read = recovered.read
    value = {
        "agentuid": agentuid,
        "epoch": recovered.epoch,
        "seq": read,
        "memory": recovered.memory.model_dump(mode="json"),
    }
    data = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    if len(data) > MAX_BYTES:
        log.error("memory.too_large", bytes=len(data), most=MAX_BYTES, goals=len(recovered.memory.goals))
        return
    recovered.revision = await bus.put(memory_key(agent), data, revision=recovered.revision)
    recovered.written = read


def _remembered(agent: str) -> list[str]:
    return [subject_filter(kind, agent) for kind in (*OWN_KINDS, *MEASURED_KINDS)]


def _snapshot(agent: str, data: bytes) -> tuple[Memory, dict[str, Any]]:
    try:
        found = json.loads(data)
        place = {"agentuid": str(found["agentuid"]), "epoch": str(found["epoch"]), "seq": int(found["seq"])}
        return Memory.model_validate(found["memory"]), place
    except (ValueError, LookupError, TypeError, ValidationError) as error:
        raise ContractError(
            f"the memory of agent {agent} on the bus cannot be read by this version ({type(error).__name__}): "
            "run the version that wrote it"
        ) from None


def _not_below(memory: Memory, beyond: int) -> Memory:
    """The stream lost what the store has joined: those cycles are over, their numbers are not used again."""
    thought = memory.thought
    over = thought is not None and memory.taken is None and thought.cycle is not None and thought.cycle < beyond
    if not over and memory.next_cycle >= beyond:
        return memory
    nothing_open = {"thought": None, "grounded": None, "decided": None, "taken": None}
    return memory.model_copy(update=nothing_open | {"next_cycle": max(memory.next_cycle, beyond)})
