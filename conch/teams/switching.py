"""A switch of a team's topology in two phases: prepare, quiesce, then commit or abort.

The fact that ends a switch is its commit: a crash before it leaves the old epoch, one after it the new one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Literal, NamedTuple, Protocol

from conch.teams.router import RouterState
from conch.teams.topology import Topology

SwitchPhase = Literal["PREPARE", "QUIESCE", "COMMIT", "ABORT"]
QUIESCE_SECONDS: Final = 0.05
"""Longest time that a switch waits for the messages of the active epoch to be delivered."""


class SwitchResult(NamedTuple):
    """How a switch ended."""

    ok: bool
    """Whether it was committed."""
    epoch: int
    """The active epoch after it."""
    topology: Topology
    """The active topology after it."""
    phase: SwitchPhase
    """The last phase: COMMIT or ABORT."""
    ms: float = 0.0
    """Milliseconds from prepare to the end."""


class SwitchFacts(Protocol):
    """Stores what happens in a switch, and applies it to the router."""

    @property
    def router(self) -> RouterState:
        """The present state."""
        ...

    async def prepare(self, target: Topology) -> None:
        """Store that a switch to this topology is prepared."""
        ...

    async def commit(self) -> None:
        """Store that the prepared switch is committed."""
        ...

    async def abort(self, why: str) -> None:
        """Store that the prepared switch is aborted."""
        ...


async def switch(
    facts: SwitchFacts,
    target: Topology,
    changed: Callable[[], Awaitable[object]] | None = None,
    *,
    deadline: float = QUIESCE_SECONDS,
) -> SwitchResult:
    """Switch to `target`, or go on with a switch that is prepared already (to its own target).

    `changed` waits for the next change of the router; None: it changes by nothing but this switch, which then does not
    wait. A switch whose active epoch is not delivered within `deadline` seconds is aborted. Cancelled, the switch stays
    prepared: the next call finishes it.
    """
    began = time.perf_counter()
    if facts.router.target is None:
        await facts.prepare(target)
    try:
        async with asyncio.timeout(deadline):
            while changed is not None and not facts.router.is_quiet:
                await changed()
    except TimeoutError:
        pass
    is_quiet = facts.router.is_quiet
    if is_quiet:
        await facts.commit()
    else:
        left = sum(map(len, facts.router.queues.values()))
        await facts.abort(f"{left} messages were not delivered within {deadline * 1000:g} ms")
    now = facts.router
    ms = (time.perf_counter() - began) * 1000
    return SwitchResult(is_quiet, now.epoch, now.topology, "COMMIT" if is_quiet else "ABORT", ms)
