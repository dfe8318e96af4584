"""`conch bus info`: the server, stream and bucket of the bus, and the position of every consumer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from conch.cli.common import CommonOptions, emit, reach, say, stream_bytes
from conch.cli.options import COMMON
from conch.text import safe_text

if TYPE_CHECKING:
    from conch.views import BusInfo


async def info(*, common: CommonOptions = COMMON) -> None:
    """The server, the stream and the bucket, how far the consumers are, and what to look after."""
    from conch.bus import access_to
    from conch.bus.jetstream import Connection, JetStreamBus
    from conch.views import survey

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
        found = await survey(bus, connection, settings, access.address)
    if common.json:
        emit(found)
    else:
        say("\n".join(screen(found)))


def screen(found: BusInfo) -> Iterator[str]:
    """The bus for a person."""
    server, stream, bucket = found.server, found.stream, found.bucket
    whose = "embedded" if found.embedded else "your own"
    name = safe_text(server.name, one_line=True)
    yield f"server     {name} {server.version} (JetStream level {server.level}), {whose}, {found.url}"
    yield f"stream     {stream.messages} events, {stream.first} to {stream.last}, {_size(stream.bytes)}"
    if stream.first_time is not None and stream.last_time is not None:
        yield f"           from {stream.first_time[:19]} to {stream.last_time[:19]} UTC"
    room = f"{stream.full:.1%} of {_size(stream.limit)}" if stream.limit else "no limit of its own"
    yield f"room       {room}"
    of = "" if found.embedded else ", as far as that server's sync_interval goes"
    yield f"durability {found.durability}{of}; copies {stream.replicas}; epoch {stream.epoch}"
    yield f"bucket     {bucket.keys} keys, {_size(bucket.bytes)}"
    for place, peer in enumerate(found.peers):
        state = "up to date" if peer.current else f"{peer.lag} behind"
        yield f"{'peers' if place == 0 else '':<11}{safe_text(peer.name, one_line=True)} {peer.role}, {state}"
    for place, one in enumerate(found.consumers):
        at = f"at {one.seq}, lag {one.lag}"
        yield f"{'consumers' if place == 0 else '':<11}{safe_text(one.name, one_line=True):<12} {at}"
    yield from (f"warning    {safe_text(sentence, one_line=True)}" for sentence in found.warnings)


def _size(bytes_: float) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20)):
        if bytes_ >= size:
            return f"{bytes_ / size:.1f} {unit}"
    return f"{bytes_ / 2**10:.1f} KiB"
