"""One consumer, several workers: who handles what, and what happens when workers come, go and die."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.bus import MemoryBus, shared_subscription
from conch.consumer.group import membership as members_module
from conch.consumer.group.membership import Membership, dealt, joined
from conch.consumer.group.position import EVERYTHING, PARTITIONS, ConsumerPosition, free, partition_of, take_position
from conch.consumer.group.shared import SharedConsumer
from conch.errors import BusError, FencedError, StoreError
from conch_schemas import CycleReflected

if TYPE_CHECKING:
    from conch.bus import Bus
    from tests.conftest import MakeAct, Until
    from tests.consumer.conftest import Facts, MakeFold, Pace, Publish


AGENTS = [f"agent-{number}" for number in range(12)]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, quick_snapshots: None) -> None:
    monkeypatch.setattr(members_module, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(members_module, "LEASE_SECONDS", 0.3)


class Worker:
    """A worker of the fold `count`: it runs from its making on."""

    def __init__(self, bus: Any, spec: Any, name: str) -> None:
        self.stop, self.name = asyncio.Event(), name
        self.shared: SharedConsumer | None = None
        self.task = asyncio.create_task(self._run(bus, spec, name))

    async def _run(self, bus: Any, spec: Any, name: str) -> None:
        async with shared_subscription(bus) as shared_events, joined(bus, [spec.name], name) as members:
            self.shared = SharedConsumer(spec, members)
            await self.shared.run(shared_events, self.stop)

    @property
    def count(self) -> int:
        """Events that it handled."""
        return self.shared.tally.handled if self.shared is not None else 0

    @property
    def holds(self) -> bool:
        """Whether it has its share of the agents."""
        return self.shared is not None and self.shared.runtime is not None and self.shared._settled

    async def end(self) -> None:
        """In order."""
        self.stop.set()
        await self.task


@pytest.fixture
async def worker(fold: MakeFold, pace: Pace) -> AsyncIterator[Callable[..., Worker]]:
    """Make a worker; those that are left at the end are cancelled."""
    made: list[Worker] = []

    def make(bus: Any, name: str) -> Worker:
        made.append(Worker(bus, fold(pace()), name))
        return made[-1]

    yield make
    for one in made:
        one.task.cancel()
    await asyncio.gather(*(one.task for one in made), return_exceptions=True)


@asynccontextmanager
async def acting(bus: Any, act: Any, publish: Any) -> AsyncIterator[Callable[[int], Any]]:
    """`await cycles(n)`: every agent acts n more times."""
    done = 0

    async def cycles(count: int) -> None:
        nonlocal done
        for cycle in range(done + 1, done + count + 1):
            for agent in AGENTS:
                await publish(bus, act(cycle, agent))
        done += count

    yield cycles


async def in_order(bus: Any, facts: Any, cycles: int) -> bool:
    """Whether every agent's acts were handled, each once, in order."""
    for agent in AGENTS:
        said = [int(event.reflection) for event in await facts(bus, CycleReflected, agent)]
        assert said == list(range(1, len(said) + 1))
        if len(said) < cycles:
            return False
    return True


async def test_two_workers_share_the_agents(
    bus: Bus, act: MakeAct, publish: Publish, facts: Facts, until: Until, worker: Callable[..., Worker]
) -> None:
    """Each handles some; together all, once each, in each agent's order."""
    first, second = worker(bus, "one"), worker(bus, "two")
    async with acting(bus, act, publish) as cycles:
        await cycles(1)
        await until(lambda: first.holds and second.holds)
        await cycles(4)
        await until(lambda: in_order(bus, facts, 5))

    assert min(first.count, second.count) > 0
    assert first.count + second.count == 5 * len(AGENTS)


async def test_who_joins_takes_its_share_and_who_leaves_gives_it_back(
    bus: Bus, act: MakeAct, publish: Publish, facts: Facts, until: Until, worker: Callable[..., Worker]
) -> None:
    """Agents move without a gap: nothing is left out, nothing is out of order."""
    async with acting(bus, act, publish) as cycles:
        first = worker(bus, "one")
        await cycles(3)
        await until(lambda: in_order(bus, facts, 3))
        second = worker(bus, "two")
        await until(lambda: second.holds)
        await cycles(3)
        await until(lambda: in_order(bus, facts, 6))
        assert second.count > 0
        handled = first.count

        await second.end()
        await cycles(3)
        await until(lambda: in_order(bus, facts, 9))

    assert first.count == handled + 3 * len(AGENTS)


async def test_a_dead_workers_agents_go_to_the_others(
    bus: Bus, act: MakeAct, publish: Publish, facts: Facts, until: Until, worker: Callable[..., Worker]
) -> None:
    """It let go of nothing and said nothing: after the lease the others take over."""
    async with acting(bus, act, publish) as cycles:
        first, second = worker(bus, "one"), worker(bus, "two")
        await cycles(3)
        await until(lambda: in_order(bus, facts, 3))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Membership, "leave", _nothing)
            second.task.cancel()
            await asyncio.gather(second.task, return_exceptions=True)
        await cycles(3)
        await until(lambda: in_order(bus, facts, 6))

    assert not first.task.done()


async def _nothing(_: Membership) -> None:
    """It died: it said nothing."""


async def test_a_worker_of_the_same_name_goes_on_at_once(
    bus: Bus,
    act: MakeAct,
    publish: Publish,
    facts: Facts,
    until: Until,
    worker: Callable[..., Worker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it held before it was killed is its own; nobody's lease is waited for."""
    monkeypatch.setattr(members_module, "LEASE_SECONDS", 3600.0)
    async with acting(bus, act, publish) as cycles:
        first = worker(bus, "one")
        await cycles(2)
        await until(lambda: in_order(bus, facts, 2))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Membership, "leave", _nothing)
            first.task.cancel()
            await asyncio.gather(first.task, return_exceptions=True)
        worker(bus, "one")
        await cycles(2)

        await until(lambda: in_order(bus, facts, 4))


async def test_a_worker_lets_go_of_what_a_process_before_it_held_and_that_is_anothers_now(
    bus: Bus, fold: MakeFold
) -> None:
    """It was killed with all of them; of the same name again it takes its half, and the other half waits for nobody."""
    half = frozenset(range(PARTITIONS // 2))
    await take_position(bus, fold(), mine=EVERYTHING, worker="one")

    again = await take_position(bus, fold(), mine=half, worker="one", is_gone=_lives)

    assert set(again.floors) == half
    assert await free(bus, fold(), EVERYTHING - half, "two", _lives) == EVERYTHING - half


def _lives(_: str) -> bool:
    return False


async def test_an_agents_partition_is_the_same_everywhere(bus: Bus) -> None:
    """By its name alone; and every worker knows the same owner of it."""
    assert [partition_of(agent) for agent in ("echo", "echo-1", "echo-2")] == [2, 3, 9]
    async with joined(bus, ["needs"], "one") as one, joined(bus, ["needs"], "two") as two:
        await one.beat()
        await two.beat()

        assert one.share("needs") | two.share("needs") == EVERYTHING
        assert len(one.share("needs")) == len(two.share("needs")) == PARTITIONS // 2


async def test_the_error_of_a_worker_is_told_where_it_cannot_leave_in_order() -> None:
    """Its heartbeat cannot be removed on a full disk; the others see that no further one comes."""
    full = False

    class FullBus(MemoryBus):
        async def put(self, key: str, value: bytes, *, revision: int) -> int:
            if full:
                raise BusError("the disk is full")
            return await super().put(key, value, revision=revision)

    async def works(bus: Bus) -> None:
        nonlocal full
        async with joined(bus, ["needs"], "one"):
            full = True
            raise StoreError("no room")

    async with FullBus() as bus:
        with pytest.raises(StoreError, match="no room"):
            await works(bus)


@given(st.sets(st.text(min_size=1, max_size=20), min_size=1, max_size=40))
def test_shares_are_even_and_the_same_everywhere(names: set[str]) -> None:
    """Nobody has more than one over another's, in whatever order the workers are heard of."""
    shares = dealt("needs", sorted(names))
    counts = [list(shares.values()).count(name) for name in names]

    assert set(shares) == EVERYTHING
    assert max(counts) - min(counts) <= 1
    assert shares == dealt("needs", sorted(names, reverse=True))


def test_few_partitions_change_hands_when_a_worker_joins() -> None:
    """Of sixteen, a fourth worker's share is four: over many names it is five that move, not twelve."""
    moved = 0
    for number in range(100):
        before, after = (dealt("needs", [f"worker-{number}-{i}" for i in range(count)]) for count in (3, 4))
        moved += sum(before[partition] != after[partition] for partition in EVERYTHING)

    assert 400 <= moved < 600


async def test_a_worker_that_is_cancelled_as_it_is_fenced_ends(
    bus: Bus, act: MakeAct, publish: Publish, worker: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss of its agents does not hide that it is to end: it does not begin again."""
    one, save = worker(bus, "one"), ConsumerPosition.save

    async def fenced(*_: Any) -> None:
        monkeypatch.setattr(ConsumerPosition, "save", save)
        one.task.cancel()
        raise FencedError("another copy has taken over from this one")

    monkeypatch.setattr(ConsumerPosition, "save", fenced)
    await publish(bus, act(1, AGENTS[0]))
    done, _ = await asyncio.wait([one.task], timeout=5.0)

    assert done
    assert one.task.cancelled()
