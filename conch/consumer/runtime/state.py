"""The states of folds: stored in the bucket of the bus, written by compare-and-set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from conch.bus import CLEARED, Bus, StateRecord, StreamState, encode_state, keys_of, state_key
from conch.consumer.spec import ConsumerSpec
from conch.errors import ContractError


class UnreadableStateError(ContractError):
    """A stored state that this version of a fold cannot read: no event is to blame, and the fold cannot go on."""

    def __init__(self, consumer: str, version: str, agent: str, why: str) -> None:
        super().__init__(
            f"consumer {consumer} version {version} cannot read its state for agent {agent} ({why}): "
            f"run the version that wrote it, or: conch consumer reset {consumer}"
        )


@dataclass
class FoldState:
    """A fold's state for one agent, with the sequence of the last event in it."""

    state: Any
    seq: int
    revision: int
    saved: int
    """The `seq` that was last written."""


async def load_state(bus: Bus, spec: ConsumerSpec, agent: str, stream: StreamState) -> FoldState:
    """The state last stored for `agent`, or the initial one. A sequence beyond the end of the stream is set back.

    Raises UnreadableStateError when it cannot be read by this version.
    """
    assert spec.state is not None
    assert spec.initial is not None
    entry = await bus.get(state_key(spec.name, agent))
    if entry is None or not entry.value:
        return FoldState(spec.initial(), 0, entry.revision if entry is not None else 0, 0)
    try:
        record = StateRecord.decode(entry.value)
        state = spec.state.model_validate(record.state)
    except ContractError as error:
        raise UnreadableStateError(spec.name, spec.version, agent, str(error)) from None
    except (ValueError, LookupError, TypeError) as error:  # of the consumer's own validators, too
        raise UnreadableStateError(spec.name, spec.version, agent, type(error).__name__) from None
    if record.epoch == stream.epoch and record.seq > stream.last:  # it is shorter than it was, or went on since
        stream = await bus.state()
    seq = record.position(stream)
    return FoldState(state, seq, entry.revision, seq)


async def save_state(
    bus: Bus, spec: ConsumerSpec, agent: str, held: FoldState, state: BaseModel, seq: int, epoch: str
) -> None:
    """Store `state` as of `seq`, unless it is stored. Raises FencedError when another copy wrote since."""
    if seq == held.saved:
        return
    value = encode_state(state, seq, epoch)
    held.revision = await bus.put(state_key(spec.name, agent), value, revision=held.revision)
    held.saved = seq


async def reset(bus: Bus, consumer: str) -> None:
    """Let `consumer` begin at the start of the stream, with the states it was born with. Not while it runs."""
    for key in keys_of(consumer, await bus.keys(), letters=False):
        entry = await bus.get(key)
        assert entry is not None
        await bus.put(key, CLEARED, revision=entry.revision)
