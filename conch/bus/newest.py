"""Reads the newest event of each of many subjects concurrently."""

from __future__ import annotations

from collections.abc import Sequence

from conch.bus.protocol import Bus, Delivery
from conch.bus.subscription import decoded
from conch.tasks import concurrently
from conch_schemas import ContractViolationError, Event


async def newest(bus: Bus, subjects: Sequence[str]) -> list[tuple[int, Event | None]]:
    """(sequence, event) of each subject, in their order; sequence 0 where there is none.

    The event is None where the bytes are no valid event: the consumers write dead letters for those.
    """
    found = await concurrently(bus.last, subjects)
    return [(delivery.seq, _event(delivery)) if delivery is not None else (0, None) for delivery in found]


def _event(delivery: Delivery) -> Event | None:
    try:
        return decoded(delivery.subject, delivery.data)
    except ContractViolationError:
        return None
