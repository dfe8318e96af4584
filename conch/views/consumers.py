"""How far each consumer is, as `conch consumer list | lag --json` and the pages show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from conch.bus import Bus
from conch.consumer.group import lag as reader_lag
from conch.consumer.runtime.dead_letters import open_dead_letters


@dataclass(frozen=True)
class ConsumerLag:
    """How far a consumer is."""

    name: str
    acknowledged: int
    """Everything up to this place in the stream is done; written once a second."""
    lag: int
    """Events that concern it behind that, counted by the server."""
    letters: int
    """Its dead letters that are open."""


async def standings(bus: Bus) -> tuple[int, list[ConsumerLag]]:
    """(the stream's last sequence, every consumer that has a place on this bus, whether it runs or not)."""
    found, last = await reader_lag.standings(bus), (await bus.state()).last
    letters = Counter([letter.consumer async for letter in open_dead_letters(bus)])
    return last, [ConsumerLag(one.name, one.seq, one.lag, letters[one.name]) for one in found]


def consumers_shown(last: int, found: Sequence[ConsumerLag]) -> dict[str, Any]:
    """`conch.v1.consumers`: a row each; `last` is the stream's last sequence."""
    return {"schema": "conch.v1.consumers", "last": last, "consumers": [vars(one) for one in found]}


def lag_shown(last: int, found: Sequence[ConsumerLag]) -> dict[str, Any]:
    """`conch.v1.lag`: how many events wait for each, the most first."""
    rows = [{"name": one.name, "lag": one.lag} for one in most_behind(found)]
    return {"schema": "conch.v1.lag", "last": last, "consumers": rows}


def most_behind(found: Sequence[ConsumerLag]) -> list[ConsumerLag]:
    """Those for which the most events wait first."""
    return sorted(found, key=lambda one: -one.lag)
