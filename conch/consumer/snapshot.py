"""Where a consumer is, and its folds' states: kept in the bus's bucket, written by compare-and-set."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError

from conch.bus import Bus
from conch.consumer.spec import ConsumerSpec
from conch.errors import ContractError

RECENT = 2048
"""Ids of handled events that a consumer remembers, to tell a repetition that the server has forgotten."""


def position_key(consumer: str) -> str:
    """The bucket's key of a consumer's position."""
    return f"position/{consumer}"


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

    def remember(self, id: str) -> None:
        """Put `id` among the recent ones."""
        self.recent[id] = None
        if len(self.recent) > RECENT:
            del self.recent[next(iter(self.recent))]


async def load_place(bus: Bus, spec: ConsumerSpec) -> Place:
    """The position last written, taken back where it leads the stream (which was restored, or made anew)."""
    state, entry = await bus.state(), await bus.get(position_key(spec.name))
    if entry is None or not entry.value:
        return Place(epoch=state.epoch, revision=entry.revision if entry is not None else 0)
    found = json.loads(entry.value)
    seq = min(found["seq"], state.last) if found["epoch"] == state.epoch else 0
    return Place(seq, state.epoch, dict.fromkeys(found["recent"]), entry.revision)


async def save_place(bus: Bus, spec: ConsumerSpec, place: Place, seq: int) -> None:
    """Write `seq` as the position. Raises FencedError when another copy wrote since."""
    value = {"seq": seq, "epoch": place.epoch, "version": spec.version, "recent": list(place.recent)}
    place.revision = await bus.put(
        position_key(spec.name), json.dumps(value, separators=(",", ":")).encode(), revision=place.revision
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


async def load_state(bus: Bus, spec: ConsumerSpec, agent: str, end: int) -> Held:
    """The state last written for `agent`, or the initial one; its place at most `end`, the stream's last.

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
    except (ValueError, KeyError, ValidationError) as error:
        raise ContractError(
            f"consumer {spec.name} version {spec.version} cannot read its state for agent {agent} "
            f"({type(error).__name__}): run the version that wrote it, or: conch consumer reset {spec.name}"
        ) from None
    seq = min(int(found["seq"]), end)
    return Held(state, seq, entry.revision, seq)


def encode_state(state: BaseModel, seq: int) -> bytes:
    """The value under `state_key`."""
    return b'{"seq":%d,"state":%s}' % (seq, state.model_dump_json().encode())


async def save_state(bus: Bus, spec: ConsumerSpec, agent: str, held: Held) -> None:
    """Write a fold's state. Raises FencedError when another copy wrote since."""
    if held.seq == held.saved:
        return
    state, seq = held.state, held.seq
    held.revision = await bus.put(state_key(spec.name, agent), encode_state(state, seq), revision=held.revision)
    held.saved = seq


async def reset(bus: Bus, consumer: str) -> None:
    """Let `consumer` begin at the start of the stream, with the states it was born with. Not while it runs."""
    for key in await bus.keys():
        if key == position_key(consumer) or key.startswith(f"state/{consumer}/"):
            entry = await bus.get(key)
            assert entry is not None
            await bus.put(key, b"", revision=entry.revision)
