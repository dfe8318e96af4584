"""Which agents' rows a writer works on, where several writers share a store."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from conch.bus import PARTITIONS

EVERY_PARTITION: Final = frozenset(range(PARTITIONS))
_IN: Final = f" AND get_byte(sha256(convert_to(agent, 'UTF8')), 0) % {PARTITIONS} IN "
"""As `stored_partition`, in PostgreSQL: no other database has several writers."""


@lru_cache(maxsize=65536)
def stored_partition(agent: str) -> int:
    """The partition of an agent in a store that writers share: always the same one, on every machine. By SHA-256, which
    the database computes, too."""
    return hashlib.sha256(agent.encode(errors="replace")).digest()[0] % PARTITIONS


class OwnedPartitions:
    """The partitions of the agents that a writer owns. One that has the store alone owns all, whatever it is given."""

    def __init__(self, *, shares: bool) -> None:
        self.shares = shares
        """Whether there may be other writers."""
        self.floors: Mapping[int, int] = {}
        """Each partition that is owned, and up to which stream sequence it was applied when it was taken."""

    @property
    def numbers(self) -> frozenset[int]:
        """The partitions."""
        return frozenset(self.floors) if self.shares else EVERY_PARTITION

    @property
    def condition(self) -> str:
        """What follows the conditions of a statement, with the column `agent`, so that it gives rows of owned agents
        alone."""
        if not self.shares:
            return ""
        return f"{_IN}({', '.join(map(str, sorted(self.floors))) or '-1'})"

    def has(self, agent: str) -> bool:
        """Whether the agent's partition is owned."""
        return not self.shares or stored_partition(agent) in self.floors

    def lacks(self, agent: str, seq: int) -> bool:
        """Whether an event of the agent at this sequence is to be applied: it is owned, and was not applied before."""
        return not self.shares or seq > self.floors.get(stored_partition(agent), seq)
