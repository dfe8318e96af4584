"""Where a consumer is, and its folds' states: kept in the bus's bucket, written by compare-and-set."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError

from conch.bus import Bus, StreamState
from conch.consumer.spec import ConsumerSpec
from conch.errors import ContractError

RECENT = 1024
"""Ids of handled events that a consumer remembers, to tell a repetition that the server has forgotten."""


PARTITIONS = 16
"""Shares that the agents fall into: as many workers can share a consumer. Places on the bus rest on it: it stays."""


def partition_of(agent: str) -> int:
    """The partition of an agent: always the same one, on every machine."""
    return zlib.crc32(agent.encode()) % PARTITIONS


@dataclass(frozen=True)
class Partition:
    """A share of the agents."""

    number: int

    def holds(self, agent: str) -> bool:
        """Whether `agent` belongs to it."""
        return partition_of(agent) == self.number


def position_key(consumer: str, partition: Partition | None = None) -> str:
    """The bucket's key of a consumer's position."""
    return f"position/{consumer}" if partition is None else f"position/{consumer}/{partition.number}"


def state_key(consumer: str, agent: str) -> str:
    """The bucket's key of a fold's state for one agent."""
    return f"state/{consumer}/{agent}"


def before_key(consumer: str, agent: str, seq: int) -> str:
    """The bucket's key of the state before a dead letter."""
    return f"before/{consumer}/{agent}/{seq}"


@dataclass
class Place:
    """A consumer's position: everything up to `seq` is handled and what followed from it is published."""

    seq: int = 0
    epoch: str = ""
    recent: dict[str, None] = field(default_factory=dict)
    """Ids handled of late, oldest first; at most RECENT."""
    revision: int = 0
    holder: str = ""
    """The worker that handles it; empty: nobody, or one that is told by nobody."""

    def remember(self, id: str) -> None:
        """Put `id` among the recent ones."""
        self.recent[id] = None
        if len(self.recent) > RECENT:
            del self.recent[next(iter(self.recent))]


async def load_place(bus: Bus, spec: ConsumerSpec, partition: Partition | None = None) -> Place:
    """The position last written, taken back where it leads the stream (which was restored, or made anew)."""
    state, entry = await bus.state(), await bus.get(position_key(spec.name, partition))
    if entry is None or not entry.value:
        begin = min(spec.begin, state.last) if entry is None else 0  # reset: from the start
        return Place(seq=begin, epoch=state.epoch, revision=entry.revision if entry is not None else 0)
    try:
        found = json.loads(entry.value)
        seq = min(int(found["seq"]), state.last) if found["epoch"] == state.epoch else 0
        recent = dict.fromkeys(map(str, found["recent"]))
    except (ValueError, LookupError, TypeError) as error:
        raise ContractError(
            f"the position of {spec.name} cannot be read ({type(error).__name__}): conch consumer reset {spec.name}"
        ) from None
    return Place(seq, state.epoch, recent, entry.revision)


async def save_place(
    bus: Bus, spec: ConsumerSpec, partition: Partition | None, place: Place, seq: int, recent: Sequence[str]
) -> None:
    """Write `seq` as the position, with the ids handled of late. Raises FencedError when another copy wrote since."""
    value = {"seq": seq, "epoch": place.epoch, "version": spec.version, "recent": recent}
    value["kinds"] = [kind.TYPE for kind in spec.kinds]
    if place.holder:
        value["holder"] = place.holder
    place.revision = await bus.put(
        position_key(spec.name, partition), json.dumps(value, separators=(",", ":")).encode(), revision=place.revision
    )
    place.seq = seq


@dataclass
class Held:
    """A fold's state for one agent, with the place of the last event in it."""

    state: Any
    seq: int
    revision: int
    saved: int
    """The `seq` that was last written."""


async def load_state(bus: Bus, spec: ConsumerSpec, agent: str, stream: StreamState) -> Held:
    """The state last written for `agent`, or the initial one; its place taken back where it leads the stream.

    Raises ContractError when it cannot be read by this version.
    """
    assert spec.state is not None
    assert spec.initial is not None
    entry = await bus.get(state_key(spec.name, agent))
    if entry is None or not entry.value:
        return Held(spec.initial(), 0, entry.revision if entry is not None else 0, 0)
    try:
        found = json.loads(entry.value)
        state = spec.state.model_validate(found["state"])
        seq = int(found["seq"]) if found["epoch"] == stream.epoch else 0
        if seq > stream.last:  # the stream is shorter than it was, or went on since it was looked at
            seq = min(seq, (await bus.state()).last)
    except (ValueError, LookupError, TypeError, ValidationError) as error:
        raise ContractError(
            f"consumer {spec.name} version {spec.version} cannot read its state for agent {agent} "
            f"({type(error).__name__}): run the version that wrote it, or: conch consumer reset {spec.name}"
        ) from None
    return Held(state, seq, entry.revision, seq)


def encode_state(state: BaseModel, seq: int, epoch: str) -> bytes:
    """The value under `state_key` and `before_key`."""
    return b'{"seq":%d,"epoch":%s,"state":%s}' % (seq, json.dumps(epoch).encode(), state.model_dump_json().encode())


async def save_state(
    bus: Bus, spec: ConsumerSpec, agent: str, held: Held, state: BaseModel, seq: int, epoch: str
) -> None:
    """Write `state` as of `seq`, unless it is written. Raises FencedError when another copy wrote since."""
    if seq == held.saved:
        return
    value = encode_state(state, seq, epoch)
    held.revision = await bus.put(state_key(spec.name, agent), value, revision=held.revision)
    held.saved = seq


async def reset(bus: Bus, consumer: str) -> None:
    """Let `consumer` begin at the start of the stream, with the states it was born with. Not while it runs."""
    own = position_key(consumer)
    for key in await bus.keys():
        if key == own or key.startswith((f"{own}/", f"state/{consumer}/")):
            entry = await bus.get(key)
            assert entry is not None
            await bus.put(key, b"", revision=entry.revision)
