"""Checkpoints: every value that is stored in the bus's key-value bucket, its key, and who writes it.

| key | value | written by |
|---|---|---|
| `position/<consumer>` | `PositionRecord` | the workers of a consumer, side by side; a consumer that keeps its position elsewhere announces it here (the store: beside its rows) |
| `state/<consumer>/<agent>` | `StateRecord` | the worker of a fold that owns the agent's partition |
| `before/<consumer>/<agent>/<seq>` | `StateRecord` | the same, before the event at `seq` became a dead letter |
| `agent/<agent>` | `MemoryRecord` | the process that hosts the agent |
| `worker/<worker>` | `WorkerRecord` | each process that runs consumers, every second |
| `run/<run>` | `RunRecord` | each run on a server that is not its own, every second |
| `policy/active/<agent>` | `PolicyRecord` | the trainer, `conch train promote` and `rollback`, the dashboard |
| `policy/trainer/<agent>` | `LeaseRecord` | the trainer of the agent's lineage: the consumer, or `conch train run` |
| `letter/<id>` | `LetterRecord` | `conch dlq retry` and `conch dlq drop`, and the dashboard |
| `trimmed` | `TrimRecord` | retention, before it trims the stream |
| `erased` | `EraseRecord` | `conch forget`, before it erases events of the stream |
| `home` | a UUID as text | the first `conch run` with a store on this stream |

All are written by compare-and-set (`Bus.put`). An empty value means that the key was reset or given up. Readers ignore
fields that they do not know, so that workers of different versions share a bucket.
"""  # noqa: E501 - a table

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Annotated, Any, Generic, Literal, NamedTuple, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError, field_validator

from conch.bus.protocol import StreamState
from conch.errors import ContractError

TRIMMED = "trimmed"
"""Key of the sequence before which the stream was trimmed. Events that are missing behind it were not trimmed."""
ERASED = "erased"
"""Key of the sequences that were erased at a person's request: holes at them are no damage."""
STORE_OWNER = "home"
"""Key that says whose store joins the stream: the UUID of that home's agent."""
TRAINER = "trainer"
"""The consumer that trains, and moves the pointers of adapters."""
CLEARED = b""
"""The value of a key that was reset or given up."""
PARTITIONS = 16
"""Partitions that the agents fall into: as many workers can share a consumer. Stored positions rest on it: it stays."""

_POSITION, _STATE, _BEFORE, _MEMORY, _WORKER, _LETTER = "position", "state", "before", "agent", "worker", "letter"
_RUN = "run"
_POLICY = "policy/active"
_LEASE = "policy/trainer"
_WITH_POSITION = (_POSITION, _STATE, _MEMORY)
"""Kinds of keys whose values name a position in the stream."""
_OF_CONSUMER = (_POSITION, _STATE, _BEFORE)
"""Kinds of keys that belong to one consumer; the second part is its name."""
_SEQUENCES = ("seq", "read")
"""Fields that name a position; `read` stood in memories of former versions."""
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")

_Seq = Annotated[int, Field(ge=0)]
Memory = TypeVar("Memory")


class _BucketRecord(BaseModel):
    """A value of the bucket."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", validate_by_name=True, validate_by_alias=True, serialize_by_alias=True
    )

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """The record that stands in `value`. Raises ContractError, in one sentence, for anything else."""
        try:
            return cls.model_validate_json(value)
        except ValidationError as error:
            raise ContractError(_sentence(error)) from None

    def encode(self) -> bytes:
        """The value to store."""
        return self.model_dump_json().encode()


class Checkpoint(_BucketRecord):
    """How far something has come in one stream."""

    seq: _Seq
    """Sequence of the last event that is in it."""
    epoch: str
    """Identity of the stream that `seq` is a sequence of."""

    def position(self, stream: StreamState) -> int:
        """`seq` as a position in this stream: at most its end, and 0 where the stream was made anew."""
        return min(self.seq, stream.last) if self.epoch == stream.epoch else 0


class PartitionRecord(NamedTuple):
    """A partition of a consumer."""

    seq: _Seq
    """Everything up to here of this partition's agents is handled."""
    owner: str
    """Id of the worker that owns it, `<worker>.<hex>`; empty: none does."""


class PositionRecord(Checkpoint):
    """The position of a consumer; `seq` is the lowest of its partitions."""

    version: str | None = None
    """Version of the consumer that wrote it."""
    kinds: tuple[str, ...] | None = None
    """Types of the events that concern the consumer, `action.taken`; none: all."""
    partitions: dict[int, PartitionRecord] | None = Field(None, alias="shares")
    """By number, 0 to PARTITIONS - 1. None: the consumer is one worker, and has handled everything up to `seq`."""
    recent: dict[str, tuple[str, ...]] | None = None
    """Ids of recently handled events by the worker that handled them; under the empty name those of former owners."""

    @field_validator("recent", mode="before")
    @classmethod
    def _of_one_worker(cls, recent: Any) -> Any:
        return {"": recent} if isinstance(recent, list) else recent  # as it was before workers shared a consumer

    @property
    def whole(self) -> dict[int, PartitionRecord]:
        """All partitions by number, as a worker needs them. Raises ContractError where some are missing."""
        if not self.partitions:
            return {number: PartitionRecord(self.seq, "") for number in range(PARTITIONS)}
        if missing := set(range(PARTITIONS)) - self.partitions.keys():
            raise ContractError(f"{len(missing)} of {PARTITIONS} partitions are missing")
        return {number: self.partitions[number] for number in range(PARTITIONS)}

    def encode(self) -> bytes:
        """The value to store; what is None is left out."""
        return self.model_dump_json(exclude_none=True).encode()

    def owner_of(self, partition: int) -> str | None:
        """Id of the worker that owns a partition; None: none does."""
        found = (self.partitions or {}).get(partition)
        return (found.owner or None) if found is not None else None


class StateRecord(Checkpoint):
    """The state of a fold for one agent, after the event at `seq`."""

    state: Any
    """As JSON; the consumer's own model reads it."""


class MemoryRecord(Checkpoint, Generic[Memory]):
    """The memory of an agent, after the event at `seq`."""

    agentuid: str
    memory: Memory


class WorkerRecord(_BucketRecord):
    """The heartbeat of a process that runs consumers. Another value each time: a reader watches the revision."""

    model_config = ConfigDict(coerce_numbers_to_str=True)  # only the consumers matter to a reader

    consumers: tuple[str, ...]
    """Names of the consumers that it takes part in."""
    host: str | None = None
    pid: int | None = None
    beat: str | None = None
    """Drawn for each heartbeat."""


class RunRecord(_BucketRecord):
    """The heartbeat of a run, and its claim on agents. Another value each time: a reader watches the revision."""

    agents: tuple[str, ...]
    """Names; `echo-11..20` stands for ten."""
    host: str
    pid: int
    home: str
    """Path of its home directory, for messages."""
    since: int | None = None
    """Revision of the first heartbeat, with which the claim was made; None: this is the first. Of two claims on one
    agent the lower counts."""
    beat: str
    """Drawn for each heartbeat."""


class TrimRecord(_BucketRecord):
    """How far the stream was trimmed."""

    before: int
    """Sequence of the first event that was left."""
    epoch: str


class EraseRecord(_BucketRecord):
    """The sequences of the stream that were erased."""

    epoch: str
    spans: tuple[tuple[int, int], ...]
    """(first, last) of each run of sequences, in order."""


class TrialRecord(_BucketRecord):
    """A candidate on trial beside the adapter that acts."""

    adapter: str
    """Digest."""
    generation: int
    """The one that it would become."""
    round: str | None = None
    stage: Literal["shadow", "canary"]
    begun: _Seq
    """The first cycle of the stage."""
    block: Annotated[int, Field(ge=1)] = 1
    """Cycles in a row that one of the two gets."""
    share: Annotated[float, Field(ge=0.0, le=1.0)] = 0.5
    """Of the blocks, that the candidate acts in as a canary."""
    evidence: str = ""
    """Id of the event that allowed the trial; empty: not recorded."""


class PolicyRecord(_BucketRecord):
    """Which adapter of an agent acts: the pointer of its lineage. Agents read it at the beginning of each cycle."""

    agentuid: str = ""
    move: _Seq = 0
    """Number of moves of the pointer; trials do not count."""
    adapter: str | None = None
    """Digest of the one that acts; None: the base alone."""
    generation: _Seq = 0
    previous: str | None = None
    """What acted before the last move; it stays loaded."""
    previous_generation: _Seq = 0
    trial: TrialRecord | None = None
    by: str = ""
    """What made the last move: `trial`, `person`, or the trigger of a rollback."""
    why: str = ""
    """Of the last move."""
    evidence: str = ""
    """Id of the event that allowed it."""


class LeaseRecord(_BucketRecord):
    """The heartbeat of a lineage's trainer. Another value each time: a reader watches the revision."""

    host: str
    pid: int
    owner: str
    """Drawn for each trainer."""
    beat: str
    """Drawn for each heartbeat."""


class LetterRecord(RootModel[Literal["retried", "dropped"]]):
    """What became of a dead letter."""

    model_config = ConfigDict(frozen=True)

    def encode(self) -> bytes:
        """The value to store."""
        return self.model_dump_json().encode()


def position_key(consumer: str) -> str:
    """Key of a consumer's position."""
    return f"{_POSITION}/{consumer}"


def state_key(consumer: str, agent: str) -> str:
    """Key of a fold's state for one agent."""
    return f"{_STATE}/{consumer}/{agent}"


def before_key(consumer: str, agent: str, seq: int) -> str:
    """Key of a fold's state before the event at `seq`, which is a dead letter."""
    return f"{_BEFORE}/{consumer}/{agent}/{seq}"


def memory_key(agent: str) -> str:
    """Key of an agent's memory; also the name under which `conch consumer` lists it."""
    return f"{_MEMORY}/{agent}"


def worker_key(worker: str) -> str:
    """Key of a worker's heartbeat."""
    return f"{_WORKER}/{worker}"


def run_key(run: str) -> str:
    """Key of a run's heartbeat."""
    return f"{_RUN}/{run}"


def policy_key(agent: str) -> str:
    """Key of the pointer of an agent's adapters."""
    return f"{_POLICY}/{agent}"


def lease_key(agent: str) -> str:
    """Key of the heartbeat of the trainer of an agent's lineage."""
    return f"{_LEASE}/{agent}"


def letter_key(letter: str) -> str:
    """Key of what became of a dead letter. An id that cannot be part of a key is hashed: any publisher chooses one."""
    return f"{_LETTER}/{letter if _PLAIN.fullmatch(letter) else hashlib.sha256(letter.encode()).hexdigest()}"


def position_consumer(key: str) -> str | None:
    """The consumer whose position stands under `key`; None: it is no position."""
    return _rest(key, _POSITION)


def state_agent(key: str, consumer: str) -> str | None:
    """The agent whose state for `consumer` stands under `key`; None: it is no state of this consumer."""
    return _rest(key, f"{_STATE}/{consumer}")


def before_seq(key: str, consumer: str, agent: str) -> int | None:
    """Sequence of the dead letter before which the state under `key` is; None: it is none of this fold and agent."""
    rest = _rest(key, f"{_BEFORE}/{consumer}/{agent}")
    return int(rest) if rest is not None and rest.isdecimal() else None


def memory_agent(key: str) -> str | None:
    """The agent whose memory stands under `key`; None: it is no memory."""
    return _rest(key, _MEMORY)


def worker_name(key: str) -> str | None:
    """The worker whose heartbeat stands under `key`; None: it is no heartbeat."""
    return _rest(key, _WORKER)


def is_run(key: str) -> bool:
    """Whether a run's heartbeat stands under `key`."""
    return _rest(key, _RUN) is not None


def keys_of(consumer: str, keys: Iterable[str], *, letters: bool) -> list[str]:
    """Those of the keys that belong to `consumer`: its position and states; with `letters` also the states before its
    dead letters, without which these cannot be retried."""
    kinds = _OF_CONSUMER if letters else (_POSITION, _STATE)
    own = tuple(f"{kind}/{consumer}/" for kind in kinds)
    return [key for key in keys if key == position_key(consumer) or key.startswith(own)]


def patterns_of(consumer: str) -> list[str]:
    """Patterns of the keys that a worker of `consumer` writes."""
    own = [worker_key("*"), position_key(consumer), *(f"{kind}/{consumer}/>" for kind in _OF_CONSUMER)]
    return [*own, f"{_POLICY}/>", f"{_LEASE}/>"] if consumer == TRAINER else own


def patterns_of_commands() -> list[str]:
    """Patterns of the keys that the command line writes: dead letters settled, consumers reset, adapters promoted and
    rolled back."""
    return [f"{kind}/>" for kind in (_LETTER, _POLICY, *_OF_CONSUMER)]


def names_position(key: str) -> bool:
    """Whether the value under `key` names a position in the stream: `rewind` is for these."""
    return key.startswith(tuple(f"{kind}/" for kind in _WITH_POSITION))


def encode_state(state: BaseModel, seq: int, epoch: str) -> bytes:
    """The value of a StateRecord, of a state that is a model: it becomes JSON once."""
    return b'{"seq":%d,"epoch":%s,"state":%s}' % (seq, json.dumps(epoch).encode(), state.model_dump_json().encode())


def rewind(value: bytes, stream: StreamState) -> bytes | None:
    """`value` with each position that is beyond the end of this stream set to its end, or to 0 where the stream was
    made anew: a consumer would pass over what is appended later. None: there is no such position, or the value cannot
    be read, and is left to its reader. Fields that are not known here stay as they are.
    """
    try:
        found: Any = json.loads(value) if value else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    end = stream.last if found.get("epoch") == stream.epoch else 0
    beyond: dict[str, object] = {
        name: end for name in _SEQUENCES if isinstance(found.get(name), int) and found[name] > end
    }
    partitions: Any = found.get("shares")
    if _are_partitions(partitions) and any(seq > end for seq, _ in partitions.values()):
        beyond["shares"] = {number: (min(seq, end), owner) for number, (seq, owner) in partitions.items()}
    if not beyond:
        return None
    return json.dumps(found | beyond | {"epoch": stream.epoch}, separators=(",", ":")).encode()


def advance(value: bytes, stream: StreamState) -> bytes:
    """`value` with its position set to the end of this stream: what it lacks is given up. Other fields stay as they
    are. Raises ContractError for a value without a position."""
    Checkpoint.decode(value)
    return json.dumps(json.loads(value) | {"seq": stream.last, "epoch": stream.epoch}, ensure_ascii=False).encode()


def _are_partitions(found: Any) -> bool:
    return isinstance(found, dict) and all(
        isinstance(partition, list) and len(partition) == 2 and isinstance(partition[0], int)
        for partition in found.values()
    )


def _rest(key: str, prefix: str) -> str | None:
    return key.removeprefix(f"{prefix}/") if key.startswith(f"{prefix}/") else None


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]
