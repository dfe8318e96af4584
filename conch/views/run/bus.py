"""The view of the bus: server, stream, bucket and positions, for `conch bus info --json` and the pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from conch.bus import Bus, erased_between
from conch.bus.jetstream import BUCKET_STREAM, EPOCH, STREAM, Connection, described
from conch.config import Settings
from conch.consumer.group import standings
from conch.consumer.operations import look
from conch.views.base import View
from conch_schemas import JsonObject

FULL = 0.8
"""Share of the stream's size limit above which a warning is shown."""


class ServerFigures(View):
    """Name, version and JetStream API level of a nats-server."""

    name: str
    version: str
    level: int
    """Level of its JetStream API."""


class StreamStatus(View):
    """Size, limits and sequences of the stream of events."""

    first: int
    """Sequence of the first event that is kept."""
    first_time: str | None
    """When it was stored; None: the stream is empty."""
    last: int
    last_time: str | None
    messages: int
    """Events that are kept."""
    missing: int
    """Events between the first and the last that are damaged or gone."""
    bytes: int
    limit: int | None
    """Bytes that it may take; None: no limit of its own."""
    full: float | None
    """bytes ÷ limit."""
    replicas: int
    epoch: str
    """Differs for a stream that was made anew."""


class BucketFigures(View):
    """Size of the key-value bucket."""

    keys: int
    bytes: int


class PositionRow(View):
    """The position of a consumer, and its lag."""

    name: str
    seq: int
    """Every event up to this stream sequence is handled."""
    lag: int
    """Events that wait for it."""


class Replica(View):
    """A server that holds a copy of the stream."""

    name: str
    """Empty: the stream has no leader now."""
    role: Literal["leader", "follower"]
    current: bool
    lag: int
    """Operations that it is behind the leader."""


class BusInfo(View):
    """The bus as `conch bus info --json` prints it."""

    schema_: Literal["conch.v1.bus"] = Field(default="conch.v1.bus", alias="schema")
    url: str
    embedded: bool
    """Whether Conch starts the server itself."""
    server: ServerFigures
    durability: str
    stream: StreamStatus
    bucket: BucketFigures
    consumers: tuple[PositionRow, ...]
    peers: tuple[Replica, ...]
    """The leader first; empty where there is one copy alone."""
    warnings: tuple[str, ...]
    """A sentence each."""


async def survey(bus: Bus, connection: Connection, settings: Settings, url: str) -> BusInfo:
    """The server, the stream and the bucket, how far the consumers are, and what to look after."""
    stream, bucket = await described(connection, STREAM), await described(connection, BUCKET_STREAM)
    assert stream is not None
    assert bucket is not None
    level = (await connection.api("INFO"))["api"].get("level", 0)
    said, held = connection.said, (await look(bus, settings.bus.keep)).held
    status, peers = (
        _stream(stream, await erased_between(bus, await bus.state())),
        tuple(_peers(stream.get("cluster") or {})),
    )
    return BusInfo(
        url=url,
        embedded=settings.bus.url is None,
        server=ServerFigures(name=said.get("server_name", ""), version=said.get("version", ""), level=level),
        durability=settings.bus.durability,
        stream=status,
        bucket=BucketFigures(keys=bucket["state"]["messages"], bytes=bucket["state"]["bytes"]),
        consumers=tuple(PositionRow(name=one.name, seq=one.seq, lag=one.lag) for one in await standings(bus)),
        peers=peers,
        warnings=(*(one.sentence for one in held), *_warnings(status, peers)),
    )


def _stream(info: JsonObject, erased: int) -> StreamStatus:
    state, config = info["state"], info["config"]
    limit = config["max_bytes"] if config.get("max_bytes", -1) > 0 else None
    first, last = state["first_seq"], state["last_seq"]
    return StreamStatus(
        first=first,
        first_time=state["first_ts"] if state["messages"] else None,
        last=last,
        last_time=state["last_ts"] if state["messages"] else None,
        messages=state["messages"],
        missing=max(0, last - first + 1 - state["messages"] - erased) if state["messages"] else 0,
        bytes=state["bytes"],
        limit=limit,
        full=state["bytes"] / limit if limit is not None else None,
        replicas=config["num_replicas"],
        epoch=(config.get("metadata") or {}).get(EPOCH, info["created"]),
    )


def _peers(cluster: JsonObject) -> Iterator[Replica]:
    """The servers that keep a copy of the stream; none where there is a single server."""
    replicas = cluster.get("replicas") or ()
    if replicas:
        yield Replica(name=cluster.get("leader", ""), role="leader", current=True, lag=0)
    for one in replicas:
        current = bool(one.get("current")) and not one.get("offline")
        yield Replica(name=one["name"], role="follower", current=current, lag=one.get("lag", 0))


def _warnings(stream: StreamStatus, peers: Sequence[Replica]) -> Iterator[str]:
    if (full := stream.full or 0.0) > FULL:
        yield f"the stream is {full:.0%} full; once it is, everybody who publishes waits (bus.keep)"
    if stream.missing:
        yield f"{stream.missing} events between {stream.first} and {stream.last} are damaged or gone"
    for peer in peers:
        if not peer.name:
            yield "the stream has no leader now: nothing can be published"
        elif not peer.current:
            yield f"the copy on {peer.name} is not up to date ({peer.lag} behind, or it is away)"
