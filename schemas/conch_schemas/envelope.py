"""The event envelope (CloudEvents 1.0, structured JSON), and the derivation of ids."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from hashlib import sha1
from typing import Annotated, ClassVar, Final
from uuid import UUID, uuid5

from pydantic import (
    AliasGenerator,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from conch_schemas.json_object import JsonObject

ENVELOPE = {
    "specversion": "specversion",
    "id": "id",
    "source": "source",
    "type": "type",
    "subject": "subject",
    "time": "time",
    "datacontenttype": "datacontenttype",
    "agent": "agent",
    "cycle": "cycle",
    "action_id": "actionid",
    "causation_id": "causationid",
    "traceparent": "traceparent",
    "policy": "policy",
}
"""Python name -> name on the wire, of all fields except `data`. CloudEvents allows only a-z and 0-9 in extensions."""

MAX_EVENT_BYTES = 512 * 1024
"""Most bytes of an encoded event (the bus refuses more)."""

AGENT_PATTERN = r"^[a-z0-9][a-z0-9-]{0,62}$"
"""An agent's name is one token of a subject."""


def _wire_name(name: str) -> str | AliasPath:
    return ENVELOPE[name] if name in ENVELOPE else AliasPath("data", name)


class Value(BaseModel):
    """A part of an event: frozen, strict when written, tolerant when read by `decode`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Event(BaseModel):
    """One event. Envelope and data are attributes of one object; on the wire the data are under `data`.

    Constructing is strict: an unknown field raises ValidationError. Reading (`conch_schemas.decode`) ignores unknown
    fields at every level, so contracts grow by optional fields.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_by_name=True,
        validate_by_alias=True,
        alias_generator=AliasGenerator(validation_alias=_wire_name),
    )

    __slots__ = ("_wire",)  # the encoded bytes, once made; a copy with changes has none

    TYPE: ClassVar[str]
    """Noun and verb of the event, e.g. `action.taken`: the end of its type, its subject and its log line."""

    specversion: Annotated[str, Field(pattern=r"^1\.\d+$")] = "1.0"
    """CloudEvents version."""
    id: str
    """Derived from the cause, never random: the same event published twice has the same id."""
    source: str
    """`conch/<agent>/<agentuid>`: the agent that the event is about, permanently."""
    subject: str | None = None
    """The action id, if there is one."""
    time: datetime = Field(default_factory=partial(datetime.now, UTC))
    """The producer's clock, UTC. For people: events are ordered by stream sequence."""
    datacontenttype: str = "application/json"
    """The media type of `data`."""
    agent: Annotated[str, Field(pattern=AGENT_PATTERN)]
    """The agent's name, a token of the subject."""
    cycle: Annotated[int, Field(ge=0)] | None = None
    """The cycle's number: it only ever increases, per agent. None for events outside a cycle."""
    action_id: str | None = None
    """uuid5(agentuid, "<cycle>.<step>"). None for events that belong to no action."""
    causation_id: str | None = None
    """The id of the event this one follows from."""
    traceparent: str | None = None
    """W3C trace context: the trace is the action's (`conch_schemas.trace`), the span this event's own."""
    policy: str | None = None
    """Digest of the acting policy; `policy.set` holds its content."""

    @property
    def agentuid(self) -> str:
        """The agent's own UUID, from `source`."""
        return self.source.rsplit("/", 1)[-1]

    @model_serializer(mode="wrap")
    def _nest(self, handler: SerializerFunctionWrapHandler) -> JsonObject:
        flat = handler(self)
        wire = {theirs: value for ours, theirs in ENVELOPE.items() if (value := flat.pop(ours, None)) is not None}
        wire["data"] = flat
        return wire


def event_type(kind: type[Event]) -> str:
    """The CloudEvents type of an event class: `conch.v1.action.taken`."""
    return f"conch.v1.{kind.TYPE}"


def source_of(agent: str, agentuid: UUID | str) -> str:
    """The `source` of an agent's events."""
    return f"conch/{agent}/{agentuid}"


def action_id(agentuid: UUID | str, cycle: int, step: int = 0) -> str:
    """The id of the action in a cycle's step: uuid5(agentuid, "<cycle>.<step>"). Steps count from 0 in each cycle."""
    return _derived(_bytes_of(str(agentuid)) or UUID(str(agentuid)).bytes, f"{cycle}.{step}")


def cycle_event_id(action: str, kind: type[Event]) -> str:
    """The id of an event of the cycle: uuid5(action id, type)."""
    return _derived(_bytes_of(action) or UUID(action).bytes, event_type(kind))


def consequence_id(cause: str, consumer: str, version: str, kind: type[Event], index: int = 0) -> str:
    """The id of an event that follows from an event: uuid5(cause, "<consumer>/<version>/<type>/<index>").

    `cause` is any event id; one that is not a UUID (consumers in other languages may use such) is hashed into one
    first.
    """
    return _derived(_bytes_of(cause) or _folded(cause), f"{consumer}/{version}/{event_type(kind)}/{index}")


_VARIANT: Final = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def _derived(namespace: bytes, name: str) -> str:
    """`str(uuid5(UUID(bytes=namespace), name))` in a fifth of the time: several ids are derived for every event."""
    told = sha1(namespace + name.encode(), usedforsecurity=False).hexdigest()
    return f"{told[:8]}-{told[8:12]}-5{told[13:16]}-{_VARIANT[told[16]]}{told[17:20]}-{told[20:32]}"


def _bytes_of(text: str) -> bytes | None:
    """The bytes of a UUID in its usual notation; None for any other text, also where `UUID` would accept it."""
    digits = text.replace("-", "")
    try:
        found = bytes.fromhex(digits)
    except ValueError:
        return None
    return found if len(found) == 16 and len(digits) == 32 else None


def _folded(text: str) -> bytes:
    try:
        return UUID(text).bytes
    except ValueError:
        return uuid5(UUID(int=0), text).bytes
