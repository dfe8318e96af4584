"""Recovers agents' memories from their checkpoints and the events after them, in one pass to the stream's end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from conch.bus import MAX_BYTES, Bus, KeyValue, MemoryRecord, ReceivedEvent, memory_key
from conch.cycle.state.memory import CYCLE_KINDS, MEASURED_KINDS, NOTHING_OPEN, OWN_KINDS, AgentMemory, remember
from conch.errors import BusError, ConchError, ContractError, FencedError
from conch.log import get_logger
from conch.tasks import concurrently
from conch_schemas import (
    ContractViolationError,
    Event,
    ExperienceRecorded,
    MessageReceived,
    agent_filter,
    agent_of,
    subject_filter,
)

log = get_logger(__name__)


LIVED_KINDS: tuple[type[Event], ...] = (*OWN_KINDS, *MEASURED_KINDS, ExperienceRecorded)
"""The events that a memory and its mind use: the agent's own, measurements, experiences."""
FEW = 8
"""Most agents for which the reader filters by agent; with more, all agents' events are read and others' skipped."""


@dataclass(frozen=True)
class RecoveryStart:
    """What is known of an agent before the stream is read."""

    agentuid: str
    beyond: int = 0
    """The experience store has joined cycles below this one: none below it begins or acts again."""
    born: int | None = None
    """For an agent without a checkpoint: no event up to this sequence is its own. None: not known."""
    room: int | None = None
    """Bytes that its memory may take for its last acts; None: as many as before."""
    rests: bool = False
    """It does not run in this process: without a checkpoint, its events are not searched."""


@dataclass
class RecoveredAgent:
    """A recovered memory and the positions of its reader and checkpoint."""

    memory: AgentMemory
    end: int
    """Sequence up to which the memory held everything when the run began."""
    read: int
    """Sequence up to which the agent's reader has delivered everything; it begins after the checkpoint, so that the
    mind misses no experience. At most the memory's position."""
    epoch: str
    """Epoch of the stream."""
    revision: int
    """Revision of the checkpoint in the bucket; 0: there is none."""
    before_checkpoint: Callable[[], None] = lambda: None
    """Called before the memory is written: stores what was heard up to its position and is held back."""
    checkpoints: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the memory is written: concurrent writes of our own would look like another copy's."""
    unsure: bytes | None = None
    """The value being written when that was cancelled: it may be stored or not."""


async def recover(bus: Bus, agent: str, origin: RecoveryStart) -> RecoveredAgent:
    """The memory as of the end of the stream.

    Raises BusError when the stream's agent of this name is another one, ContractError for an unreadable snapshot.
    """
    found = (await recover_all(bus, {agent: origin}))[agent]
    if isinstance(found, ConchError):
        raise found
    return found


async def recover_all(bus: Bus, origins: Mapping[str, RecoveryStart]) -> dict[str, RecoveredAgent | ConchError]:
    """The memories as of the end of the stream, by name; the error in place of one that cannot be recovered.

    One pass for all that have a checkpoint, from the oldest one; another for those without.
    """
    state = await bus.state()
    found: dict[str, RecoveredAgent | ConchError] = {}
    entries = await concurrently(lambda agent: bus.get(memory_key(agent)), origins)
    for agent, entry in zip(origins, entries, strict=True):
        at = RecoveredAgent(
            AgentMemory(room=origins[agent].room or 0), end=state.last, read=0, epoch=state.epoch, revision=0
        )
        if entry is None and origins[agent].rests:
            continue
        try:
            found[agent] = _begun(at, agent, origins[agent], entry)
        except ConchError as error:
            found[agent] = error
    await _pass_over_idle(bus, {agent: at for agent, at in found.items() if origins[agent].rests})
    going = {agent: at for agent, at in found.items() if isinstance(at, RecoveredAgent) and at.read < at.end}
    for some in ({agent: at for agent, at in going.items() if bool(at.revision) is known} for known in (True, False)):
        found |= await _read_on(bus, origins, some)
    for agent, at_ in found.items():
        if isinstance(at_, RecoveredAgent):
            at_.memory = _not_below(at_.memory, origins[agent].beyond)
    return found


async def _pass_over_idle(bus: Bus, dormant_agents: Mapping[str, RecoveredAgent | ConchError]) -> None:
    """Move agents without new events to the stream's end, however old their checkpoints are."""
    behind = [
        (agent, at) for agent, at in dormant_agents.items() if isinstance(at, RecoveredAgent) and at.read < at.end
    ]
    counted = await concurrently(lambda one: bus.count([agent_filter(one[0])], after=one[1].read), behind)
    for (_, at), count in zip(behind, counted, strict=True):
        at.read = at.read if count else at.end


def _begun(at: RecoveredAgent, agent: str, origin: RecoveryStart, entry: KeyValue | None) -> RecoveredAgent:
    """The memory of a checkpoint. Raises BusError for another agent's, ContractError for an unreadable one."""
    if entry is None:
        at.read = min(origin.born or 0, at.end)
        return at
    written = _snapshot(agent, entry.value)
    refuse_stranger(agent, origin.agentuid, written.agentuid)
    at.memory, at.revision = written.memory, entry.revision
    if origin.room is not None:
        at.memory = at.memory.model_copy(update={"room": origin.room})
    if written.epoch == at.epoch:
        at.read = min(written.seq, at.end)
    return at


async def _read_on(
    bus: Bus, origins: Mapping[str, RecoveryStart], some: dict[str, RecoveredAgent]
) -> dict[str, ConchError]:
    """Apply the events after the checkpoints. Returns the errors of those that fail, by name."""
    if not some:
        return {}
    filters = [
        subject_filter(kind, who)
        for kind in (*OWN_KINDS, *MEASURED_KINDS)
        for who in (some if len(some) <= FEW else ("*",))
    ]
    failed: dict[str, ConchError] = {}
    end = 0
    async for delivery in bus.read(filters, after=min(at.read for at in some.values())):
        end = delivery.seq
        agent = agent_of(delivery.subject) or ""
        at = some.get(agent)
        if at is not None and delivery.seq > at.read and agent not in failed:
            try:
                _add(at, agent, origins[agent].agentuid, ReceivedEvent(delivery, agent))
            except BusError as error:
                failed[agent] = error
    for at in some.values():
        at.end = max(at.end, end)
    return failed


def _add(at: RecoveredAgent, agent: str, agentuid: str, arrived: ReceivedEvent) -> None:
    try:
        event = arrived.event
    except ContractViolationError:
        return  # its consumers write a dead letter for it
    if isinstance(event, CYCLE_KINDS):
        refuse_stranger(agent, agentuid, event.agentuid)
    take(at, event, arrived.seq)


def take(at: RecoveredAgent, event: Event, seq: int) -> None:
    """Apply others' events, and those published while the agent was not running."""
    at.memory = remember(at.memory, event)
    if isinstance(event, MessageReceived) and not at.memory.knows_message(event.id):
        log.warning("message.beyond_bounds", message=event.id, seq=seq)


def refuse_stranger(agent: str, agentuid: str, found: str) -> None:
    """Raises BusError where an event under this name is another agent's."""
    if found != agentuid:
        raise BusError(
            f"the stream belongs to another agent named {agent} ({found}, this home's is {agentuid}): "
            "give this one another name (--config, agent), or use another NATS account"
        )


async def save(bus: Bus, agent: str, agentuid: str, at: RecoveredAgent) -> None:
    """Write the checkpoint. Raises FencedError when another copy of the agent wrote it since.

    A memory too large for the bus is not written, and that is reported: the stream keeps the events it was made of.
    Cancelled, it may or may not be written; the next write recognises its own.
    """
    async with at.checkpoints:
        at.before_checkpoint()
        data = MemoryRecord(agentuid=agentuid, epoch=at.epoch, seq=at.read, memory=at.memory).encode()
        if len(data) > MAX_BYTES:
            log.error("memory.too_large", bytes=len(data), most=MAX_BYTES, goals=len(at.memory.goals))
            return
        unsure, at.unsure = at.unsure, data
        try:
            at.revision = await bus.put(memory_key(agent), data, revision=at.revision)
        except FencedError:
            found = await bus.get(memory_key(agent))
            if unsure is None or found is None or found.value != unsure:
                raise
            at.revision = await bus.put(memory_key(agent), data, revision=found.revision)
        at.unsure = None


def _snapshot(agent: str, data: bytes) -> MemoryRecord[AgentMemory]:
    try:
        return MemoryRecord[AgentMemory].decode(data)
    except ContractError as error:
        raise ContractError(
            f"the memory of agent {agent} on the bus cannot be read by this version ({error}): "
            "run the version that wrote it"
        ) from None


def _not_below(memory: AgentMemory, beyond: int) -> AgentMemory:
    """The stream lost what the store has joined: those cycles are over, their numbers are not used again."""
    thought = memory.thought
    over = thought is not None and memory.taken is None and thought.cycle is not None and thought.cycle < beyond
    if not over and memory.next_cycle >= beyond:
        return memory
    return memory.model_copy(update=NOTHING_OPEN | {"next_cycle": max(memory.next_cycle, beyond)})
