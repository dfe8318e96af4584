"""A durable on the stream as another program makes one: Conch's consumers keep their positions in the bucket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conch.bus import MemoryBus
from conch.bus.memory import MemoryDurableReader

STREAM = "CONCH"


async def durable(bus: Any, name: str, filters: Sequence[str], *, after: int) -> None:
    """Make the durable `name` that has acknowledged everything up to `after`."""
    if isinstance(bus, MemoryBus):
        bus.journal.durables[name] = MemoryDurableReader(tuple(filters), after)
        return
    config = {
        "durable_name": name,
        "name": name,
        "filter_subjects": list(filters),
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": after + 1,
        "ack_policy": "all",
    }
    await bus._connection.api(f"CONSUMER.CREATE.{STREAM}.{name}", {"stream_name": STREAM, "config": config})
