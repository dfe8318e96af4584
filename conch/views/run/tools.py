"""The views of the bus's tools, for `conch bus bench | snapshot | restore | permissions | tail --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from conch.views.base import View
from conch_schemas import JsonObject


class BenchRow(View):
    """The speed of one way to use the bus."""

    what: str
    events: int
    per_second: float
    ms: float
    """Milliseconds of one event."""


class Bench(View):
    """The result of `conch bus bench --json`."""

    schema_: Literal["conch.v1.bench"] = Field(default="conch.v1.bench", alias="schema")
    bytes: int
    """Size of each event."""
    durability: str
    fsync_ms: float | None
    """Milliseconds of one fsync of the home's disk; None: the server is elsewhere."""
    figures: tuple[BenchRow, ...]


class SnapshotMade(View):
    """The result of `conch bus snapshot --json`."""

    schema_: Literal["conch.v1.snapshot"] = Field(default="conch.v1.snapshot", alias="schema")
    file: str
    first: int
    """Sequence of the first event in it."""
    last: int
    events: int
    bytes: int
    """Size of the file."""


class SnapshotRestored(View):
    """The result of `conch bus restore --json`."""

    schema_: Literal["conch.v1.restored"] = Field(default="conch.v1.restored", alias="schema")
    file: str
    first: int
    last: int
    events: int
    bytes: int


class UserRow(View):
    """A user of a NATS server that the person runs."""

    name: str
    for_: str = Field(alias="for")
    """The command that it is for."""
    nkey: str
    """Public half of its key."""
    file: str
    """File of its key."""
    publish: tuple[str, ...]
    """Subjects."""
    subscribe: tuple[str, ...]


class Permissions(View):
    """The users of a NATS server, as `conch bus permissions --json` prints them."""

    schema_: Literal["conch.v1.permissions"] = Field(default="conch.v1.permissions", alias="schema")
    users: tuple[UserRow, ...]


class StoredEvent(View):
    """An event, as a line of `conch bus tail --json`."""

    seq: int
    """Stream sequence."""
    time: str
    """When it was stored."""
    subject: str
    event: JsonObject
    """The CloudEvent as stored on the stream."""


class StoredBytes(View):
    """A message that is no event, as a line of `conch bus tail --json`."""

    seq: int
    time: str
    subject: str
    error: str
    """Why it is none."""
    bytes: str
    """Base64."""
