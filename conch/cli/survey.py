"""`conch bus info`: what the bus holds, where, and how everybody is with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from conch.cli.common import Common, access_to, emit, reach, say, stream_bytes
from conch.cli.options import COMMON
from conch.text import safe_text

if TYPE_CHECKING:
    from conch.bus import Bus
    from conch.bus.jetstream.connection import Connection
    from conch.config import Settings

FULL = 0.8
"""Share of the room that the stream may take before that is said."""


async def info(*, common: Common = COMMON) -> None:
    """The server, the stream and the bucket, how far the consumers are, and what to look after."""
    from conch.bus.jetstream import JetStreamBus
    from conch.bus.jetstream.connection import Connection

    home, settings = common.existing(), common.settings()
    own = access_to(home, settings) is None
    async with (
        reach(home, settings) as access,
        JetStreamBus(
            access,
            max_bytes=stream_bytes(settings) if own else -1,
            strict=settings.bus.durability == "strict",
        ) as bus,
        Connection(access, name="conch-info") as connection,
    ):
        found = {"url": access.address, "embedded": settings.bus.url is None} | await survey(bus, connection, settings)
    if common.json:
        emit({"schema": "conch.v1.bus"} | found)
    else:
        say("\n".join(screen(found)))


async def survey(bus: Bus, connection: Connection, settings: Settings) -> dict[str, Any]:
    """Everything that is shown, as JSON values."""
    from conch.bus.jetstream.transfer import described
    from conch.consumer.retention import look
    from conch.consumer.standing import standings

    stream, bucket = await described(connection, "CONCH"), await described(connection, "KV_conch")
    assert stream is not None
    assert bucket is not None
    level = (await connection.api("INFO"))["api"].get("level", 0)
    said, held = connection.said, (await look(bus, settings.bus.keep)).held
    found: dict[str, Any] = {
        "server": {"name": said.get("server_name", ""), "version": said.get("version", ""), "level": level},
        "durability": settings.bus.durability,
        "stream": _stream(stream),
        "bucket": {"keys": bucket["state"]["messages"], "bytes": bucket["state"]["bytes"]},
        "consumers": [{"name": one.name, "seq": one.seq, "lag": one.lag} for one in await standings(bus)],
        "peers": list(_peers(stream.get("cluster") or {})),
    }
    return found | {"warnings": [*(one.sentence for one in held), *_warnings(found)]}


def _stream(info: Mapping[str, Any]) -> dict[str, Any]:
    from conch.bus.jetstream.reader import EPOCH

    state, config = info["state"], info["config"]
    limit = config["max_bytes"] if config.get("max_bytes", -1) > 0 else None
    first, last = state["first_seq"], state["last_seq"]
    return {
        "first": first,
        "first_time": state["first_ts"] if state["messages"] else None,
        "last": last,
        "last_time": state["last_ts"] if state["messages"] else None,
        "messages": state["messages"],
        "missing": last - first + 1 - state["messages"] if state["messages"] else 0,
        "bytes": state["bytes"],
        "limit": limit,
        "full": state["bytes"] / limit if limit is not None else None,
        "replicas": config["num_replicas"],
        "epoch": (config.get("metadata") or {}).get(EPOCH, info["created"]),
    }


def _peers(cluster: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Who keeps a copy of the stream; nobody to speak of where there is one alone."""
    replicas = cluster.get("replicas") or ()
    if replicas:
        yield {"name": cluster.get("leader", ""), "role": "leader", "current": True, "lag": 0}
    for one in replicas:
        current = bool(one.get("current")) and not one.get("offline")
        yield {"name": one["name"], "role": "follower", "current": current, "lag": one.get("lag", 0)}


def _warnings(found: Mapping[str, Any]) -> Iterator[str]:
    stream = found["stream"]
    if (stream["full"] or 0.0) > FULL:
        yield f"the stream is {stream['full']:.0%} full; once it is, everybody who publishes waits (bus.keep)"
    if stream["missing"]:
        yield f"{stream['missing']} events between {stream['first']} and {stream['last']} are damaged or gone"
    for peer in found["peers"]:
        if not peer["name"]:
            yield "the stream has no leader now: nothing can be published"
        elif not peer["current"]:
            yield f"the copy on {peer['name']} is not up to date ({peer['lag']} behind, or it is away)"


def screen(found: Mapping[str, Any]) -> Iterator[str]:
    """The bus for a person."""
    server, stream, bucket = found["server"], found["stream"], found["bucket"]
    whose = "embedded" if found["embedded"] else "your own"
    name = safe_text(server["name"], one_line=True)
    yield f"server     {name} {server['version']} (JetStream level {server['level']}), {whose}, {found['url']}"
    yield f"stream     {stream['messages']} events, {stream['first']} to {stream['last']}, {_size(stream['bytes'])}"
    if stream["messages"]:
        yield f"           from {stream['first_time'][:19]} to {stream['last_time'][:19]} UTC"
    room = f"{stream['full']:.1%} of {_size(stream['limit'])}" if stream["limit"] else "no limit of its own"
    yield f"room       {room}"
    of = "" if found["embedded"] else ", as far as that server's sync_interval goes"
    yield f"durability {found['durability']}{of}; copies {stream['replicas']}; epoch {stream['epoch']}"
    yield f"bucket     {bucket['keys']} keys, {_size(bucket['bytes'])}"
    for place, peer in enumerate(found["peers"]):
        state = "up to date" if peer["current"] else f"{peer['lag']} behind"
        yield f"{'peers' if place == 0 else '':<11}{safe_text(peer['name'], one_line=True)} {peer['role']}, {state}"
    for place, one in enumerate(found["consumers"]):
        at = f"at {one['seq']}, lag {one['lag']}"
        yield f"{'consumers' if place == 0 else '':<11}{safe_text(one['name'], one_line=True):<12} {at}"
    yield from (f"warning    {safe_text(sentence, one_line=True)}" for sentence in found["warnings"])


def _size(bytes_: float) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20)):
        if bytes_ >= size:
            return f"{bytes_ / size:.1f} {unit}"
    return f"{bytes_ / 2**10:.1f} KiB"
