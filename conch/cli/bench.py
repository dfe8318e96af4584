"""`conch bus bench`: measure the speed of this home's bus."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from conch.cli.common import CommonOptions, emit, reach, say, table
from conch.cli.options import COMMON
from conch.errors import UsageError

MOST_BYTES = 256 * 2**20
"""Largest size of all events together, for which the stream and the disk have room."""

Events = Annotated[int, Parameter(validator=Number(gte=1, lte=1_000_000), help="How many events.")]
Size = Annotated[int, Parameter(name="--bytes", validator=Number(gte=1, lte=1_000_000), help="Bytes of each.")]


async def bench(*, events: Events = 5000, size: Size = 1024, common: CommonOptions = COMMON) -> None:
    """Publish and read events of no meaning, on a stream of their own that is gone afterwards, and say how fast it was.

    With a run in progress it takes its turn beside that: both are slower then.
    """
    from conch.bus.jetstream import Connection, fsync_seconds, measure

    if events * size > MOST_BYTES:
        raise UsageError(f"{events} events of {size} bytes are more than {MOST_BYTES // 2**20} MiB: fewer or smaller")
    home, settings = common.existing(), common.settings()
    strict = settings.bus.durability == "strict"
    async with reach(home, settings) as access, Connection(access, name="conch-bench") as connection:
        fsync = fsync_seconds(home.bus) if settings.bus.url is None else None
        replicas = 1 if settings.bus.url is None else settings.bus.replicas
        figures = await measure(connection, events=events, size=size, strict=strict, replicas=replicas)
    if common.json:
        from conch.views import Bench, BenchRow

        rows = tuple(
            BenchRow(what=one.what, events=one.events, per_second=one.rate, ms=one.each * 1e3) for one in figures
        )
        fsync_ms = fsync * 1e3 if fsync is not None else None
        emit(Bench(bytes=size, durability=settings.bus.durability, fsync_ms=fsync_ms, figures=rows))
        return
    cost = [f"{one.each / fsync:.2f}" if fsync else "-" for one in figures]
    rows_ = [
        (one.what, one.events, f"{one.rate:,.0f}", f"{one.each * 1e3:.3f}", syncs)
        for one, syncs in zip(figures, cost, strict=True)
    ]
    table((f"{size} bytes, {settings.bus.durability}", "events", "per second", "ms each", "fsyncs each"), rows_)
    if fsync is not None:
        say(f"one fsync of this disk takes {fsync * 1e3:.3f} ms")
