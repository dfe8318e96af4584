"""A switch in two phases: it waits for deliveries, commits or aborts, and goes on after it was cut short."""

from __future__ import annotations

import asyncio

from conch.teams import RoutedMessage, RouterLimits, RouterState, aborted, committed, prepared, sent, switch, taken
from conch.teams.topology import Topology

ONE = RouterLimits(queued=10, delivered=1)


class _LiveRouter:
    def __init__(self) -> None:
        self.router, self.said, self.moved = RouterState(), list[str](), asyncio.Event()

    def fill(self, number: int) -> None:
        for at in range(number):
            one = RoutedMessage(id=str(at), sender="planner", to="coder", text="", step=0, epoch=0)
            self.router = sent(self.router, one, ONE)

    def take(self) -> None:
        self.router, _ = taken(self.router, "coder", ONE)
        self.moved.set()

    async def changed(self) -> None:
        await self.moved.wait()
        self.moved.clear()

    async def prepare(self, target: Topology) -> None:
        self.said.append(f"prepare {target}")
        self.router = prepared(self.router, target)

    async def commit(self) -> None:
        self.said.append("commit")
        self.router = committed(self.router, ONE)

    async def abort(self, why: str) -> None:
        self.said.append(why)
        self.router = aborted(self.router, ONE)


async def test_a_switch_waits_until_the_active_epoch_is_delivered() -> None:
    """It is committed once the role that was full has taken its messages."""
    live = _LiveRouter()
    live.fill(2)
    async with asyncio.TaskGroup() as group:
        switching = group.create_task(switch(live, "chain", live.changed, deadline=60.0))
        await asyncio.sleep(0)
        live.take()

    assert switching.result()[:4] == (True, 1, "chain", "COMMIT")
    assert live.said == ["prepare chain", "commit"]


async def test_a_role_that_takes_nothing_ends_the_switch_after_its_deadline() -> None:
    """The epoch stays, and the reason says how many messages were left."""
    live = _LiveRouter()
    live.fill(3)

    found = await switch(live, "chain", live.changed)

    assert found[:4] == (False, 0, "star", "ABORT")
    assert live.said[-1] == "2 messages were not delivered within 50 ms"
    assert found.ms >= 40


async def test_a_switch_that_is_prepared_already_goes_on_to_its_own_target() -> None:
    """After a crash between prepare and commit it is finished, not begun again."""
    live = _LiveRouter()
    live.router = prepared(live.router, "flat")

    found = await switch(live, "chain")

    assert found[:4] == (True, 1, "flat", "COMMIT")
    assert live.said == ["commit"]
