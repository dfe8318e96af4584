"""How a program joins a bus as an agent: its uuid, the only program of its name, and a weight set."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence

from conch.bus import Bus, MemoryRecord, decoded, memory_key, newest
from conch.cli.run.agents import AgentIdentity, members
from conch.cli.run.history import with_numbers
from conch.config import Settings
from conch.consumer import expected_parts, report_weights, weights_in_force
from conch.consumer.plugins import Discovery
from conch.cycle.state.memory import AgentMemory
from conch.errors import BusError, ConchError, ContractError, FencedError
from conch.home import Home
from conch.log import get_logger
from conch.requests import ask
from conch_schemas import (
    ContractViolationError,
    Part,
    PolicySet,
    WeightsSet,
    control_subject,
    subject_filter,
)
from conch_schemas.envelope import AGENT_PATTERN

log = get_logger(__name__)

ANSWER_SECONDS = 1.0
"""Seconds that another program of the same name has to answer; without one the bus says so at once."""


def refuse_name(name: str) -> None:
    """Raises ContractError for what is no agent's name."""
    if not re.fullmatch(AGENT_PATTERN, name):
        raise ContractError(f"an agent cannot be called {name[:70]!r}: a-z, 0-9 and -, 1 to 63 characters")


async def refuse_second(bus: Bus, name: str) -> None:
    """Raises FencedError where an agent of this name answers on the bus: a program, or one of `conch run`."""
    try:
        found = await ask(bus, control_subject(name, "status"), {}, timeout=ANSWER_SECONDS)
    except BusError:
        return
    except ConchError as error:
        found = {"state": f"it refuses to tell: {error}"}
    raise FencedError(
        f"another program acts as {name} on this bus ({found.get('state')}, cycle {found.get('cycle')}): "
        "end it first, or give this one another name"
    )


async def identity_in(bus: Bus, home: Home, name: str) -> AgentIdentity:
    """The agent of a home, made where it is new, with the least number of its next cycle. Raises HomeError."""
    found, failed = members(home, [name])
    for error in failed.values():
        raise error
    [identity] = await with_numbers(bus, home, found, lambda sentence: log.warning("agent.history", note=sentence))
    return identity


async def identity_on(bus: Bus, name: str) -> AgentIdentity:
    """The agent that the bus knows by this name: by its checkpoint, else by its events; else a new one, whose uuid is
    in its checkpoint when this returns. Of two programs that make it at once, both have the one that was written
    first."""
    key = memory_key(name)
    while (entry := await bus.get(key)) is None:
        [(_, known)] = await newest(bus, [subject_filter(PolicySet, name)])
        agentuid, stream = known.agentuid if known is not None else str(uuid.uuid4()), await bus.state()
        if known is not None:
            return AgentIdentity(name, agentuid, fresh=False)
        first = MemoryRecord[AgentMemory](
            agentuid=agentuid, epoch=stream.epoch, seq=stream.last, memory=AgentMemory()
        ).encode()
        try:
            await bus.put(key, first, revision=0)
        except FencedError:
            continue  # another program was first
        return AgentIdentity(name, agentuid, fresh=True)
    return AgentIdentity(name, MemoryRecord[AgentMemory].decode(entry.value).agentuid, fresh=False)


async def weigh(bus: Bus, identity: AgentIdentity, settings: Settings) -> None:
    """Put a weight set in force for an agent that has none: the one that was set last for any agent on this bus, as a
    run publishes it; where there is none either, the built-in parts of `settings`."""
    [(_, known)] = await weights_in_force(bus, [identity.name])
    if known is None:
        parts, whose = await _last_set(bus)
        parts = parts or expected_parts(settings, Discovery())
        await report_weights(bus, {identity.name: identity.agentuid}, parts, f"as for {whose}" if whose else "built in")


async def _last_set(bus: Bus) -> tuple[Sequence[Part], str]:
    """The parts of the newest weight set on the stream, and its agent; empty where there is none."""
    parts: Sequence[Part] = ()
    whose = ""
    async for delivery in bus.read([subject_filter(WeightsSet)]):
        try:
            event = decoded(delivery.subject, delivery.data)
        except ContractViolationError:
            continue
        if isinstance(event, WeightsSet):
            parts, whose = event.parts, event.agent
    return parts, whose
