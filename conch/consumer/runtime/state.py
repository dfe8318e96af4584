"""Folds' states: kept in the bus's bucket, written by compare-and-set."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from conch.bus import Bus, StreamState
from conch.consumer.group.position import position_key
from conch.consumer.spec import ConsumerSpec
from conch.errors import ContractError


class UnreadableStateError(ContractError):
    """A state that this version of a fold cannot read: no event is to blame, and the fold cannot go on."""

    def __init__(self, consumer: str, version: str, agent: str, why: str) -> None:
        super().__init__(
            f"consumer {consumer} version {version} cannot read its state for agent {agent} ({why}): "
            f"run the version that wrote it, or: conch consumer reset {consumer}"
        )


def state_key(consumer: str, agent: str) -> str:
    """The bucket's key of a fold's state for one agent."""
    return f"state/{consumer}/{agent}"


def before_key(consumer: str, agent: str, seq: int) -> str:
    """The bucket's key of the state before a dead letter."""
    return f"before/{consumer}/{agent}/{seq}"


@dataclass
class FoldState:
    """A fold's state for one agent, with the place of the last event in it."""

    state: Any
    seq: int
    revision: int
    saved: int
    """The `seq` that was last written."""


async def load_state(bus: Bus, spec: ConsumerSpec, agent: str, stream: StreamState) -> FoldState:
    """The state last written for `agent`, or the initial one; its place taken back where it leads the stream.

    Raises UnreadableStateError when it cannot be read by this version.
    """
    assert spec.state is not None
    assert spec.initial is not None
    entry = await bus.get(state_key(spec.name, agent))
    if entry is None or not entry.value:
        return FoldState(spec.initial(), 0, entry.revision if entry is not None else 0, 0)
    try:
        found = json.loads(entry.value)
        state = spec.state.model_validate(found["state"])
        seq = int(found["seq"]) if found["epoch"] == stream.epoch else 0
        if seq > stream.last:  # the stream is shorter than it was, or went on since it was looked at
            seq = min(seq, (await bus.state()).last)
    except (ValueError, LookupError, TypeError, ValidationError) as error:
        raise UnreadableStateError(spec.name, spec.version, agent, type(error).__name__) from None
    return FoldState(state, seq, entry.revision, seq)


def encode_state(state: BaseModel, seq: int, epoch: str) -> bytes:
    """The value under `state_key` and `before_key`."""
    return b'{"seq":%d,"epoch":%s,"state":%s}' % (seq, json.dumps(epoch).encode(), state.model_dump_json().encode())


async def save_state(
    bus: Bus, spec: ConsumerSpec, agent: str, held: FoldState, state: BaseModel, seq: int, epoch: str
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
        if key == own or key.startswith(f"state/{consumer}/"):
            entry = await bus.get(key)
            assert entry is not None
            await bus.put(key, b"", revision=entry.revision)
