"""A consumer whose agents are shared among workers: one runtime a partition, each of them at one worker at a time.

An agent belongs to a partition for ever; a partition goes to one of the workers that are alive, by their names alone.
Who hands it on writes its place down first, so that the order of an agent's events holds; who takes over from a dead
worker waits until it is taken for dead, and fences it, should it live after all.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, fields

import structlog

from conch.bus import Bus, Feed, Tap
from conch.consumer.members import Members
from conch.consumer.run import ConsumerRuntime, Tally
from conch.consumer.snapshot import Partition, partition_of, position_key
from conch.consumer.spec import ConsumerSpec
from conch.errors import ConchError, ContractError, FencedError

log = structlog.get_logger(__name__)

HANDOVER_SECONDS = 0.1
"""Between two looks whether a partition's former worker has let go of it."""
LOOK_SECONDS = 10.0
"""Between two writings of how far the stream was searched for new agents."""


@dataclass
class _Share:
    """A partition that is ours, or about to be."""

    stop: asyncio.Event
    task: asyncio.Task[None] | None = None
    runtime: ConsumerRuntime | None = None


class SharedConsumer:
    """See `conch.consumer.service.Service`. Handles the partitions that fall to this worker."""

    def __init__(self, spec: ConsumerSpec, members: Members) -> None:
        self.spec, self.name = spec, spec.name
        self._members = members
        self._shares: dict[int, _Share] = {}
        self._known: set[int] = set()
        """Partitions that have agents: each has a place on the bus."""
        self._ended = Tally()
        """Of runtimes that are no more."""
        self._gate: Tap | None = None
        self._assigned = False
        """Whether every partition that is known, and ours, is among the shares."""
        self._again = asyncio.Event()

    @property
    def tally(self) -> Tally:
        """Of all its partitions together."""
        return _sum([self._ended, *(share.runtime.tally for share in self._shares.values() if share.runtime)])

    @property
    def handled(self) -> int:
        """Everything up to here that falls to this worker is handled, and what followed from it is published."""
        if self._gate is None or not self._assigned or any(share.runtime is None for share in self._shares.values()):
            return -1
        running = [share.runtime.handled for share in self._shares.values() if share.runtime is not None]
        return min([self._gate.seen, *running])

    @property
    def busy(self) -> bool:
        """Never: nothing here waits for its time."""
        return False

    async def run(self, feed: Feed, stop: asyncio.Event) -> None:
        """Until `stop`: then every partition is finished, written down and let go of.

        Raises ContractError for a position or state that cannot be read, BusError when the bus refuses for good.
        """
        self._feed, self._bus = feed, feed.bus
        self._shares.clear()
        self._members.consumers.add(self.name)
        await self._members.show()
        try:
            await self._run(stop)
        except* ConchError as failed:
            raise failed.exceptions[0] from None
        finally:
            self._members.consumers.discard(self.name)

    async def _run(self, stop: asyncio.Event) -> None:
        self._known = await self._partitions()
        after = await searched_up_to(self._bus, self.spec)
        async with self._feed.tap(self.spec.kinds, after=after, mine=self._is_new) as self._gate:
            async with asyncio.TaskGroup() as self._group:
                tasks = [
                    self._group.create_task(self._meet(self._gate), name=f"conch.{self.name}.gate"),
                    self._group.create_task(self._assign(), name=f"conch.{self.name}.assign"),
                ]
                await stop.wait()
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                for share in self._shares.values():
                    share.stop.set()
            await self._note()

    # -- new agents --------------------------------------------------------------------------------------------------

    def _is_new(self, agent: str) -> bool:
        return partition_of(agent) not in self._known

    async def _partitions(self) -> set[int]:
        prefix = position_key(self.name) + "/"
        return {int(key.removeprefix(prefix)) for key in await self._bus.keys() if key.startswith(prefix)}

    async def _meet(self, gate: Tap) -> None:
        """Give each partition whose first agent comes a place on the bus, right before that agent's first event."""
        noted = asyncio.get_running_loop().time()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    for arrived in await gate.get():
                        await self._found(partition_of(arrived.agent), arrived.seq)
            if asyncio.get_running_loop().time() - noted > LOOK_SECONDS:
                noted = asyncio.get_running_loop().time()
                await self._note()

    async def _found(self, number: int, seq: int) -> None:
        if number in self._known:
            return
        self._assigned = False
        value = {"seq": seq - 1, "epoch": (await self._bus.state()).epoch, "version": self.spec.version, "recent": []}
        with contextlib.suppress(FencedError):  # another worker met it too
            await self._bus.put(position_key(self.name, Partition(number)), json.dumps(value).encode(), revision=0)
        self._known.add(number)
        self._feed.reroute()
        self._again.set()

    async def _note(self) -> None:
        """Write down how far every partition is known: the next start searches from there."""
        assert self._gate is not None
        key, seen = position_key(self.name), self._gate.seen
        entry = await self._bus.get(key)
        value = {"seq": seen, "epoch": (await self._bus.state()).epoch, "version": self.spec.version, "recent": []}
        with contextlib.suppress(FencedError):
            await self._bus.put(key, json.dumps(value).encode(), revision=entry.revision if entry is not None else 0)

    # -- whose is what -----------------------------------------------------------------------------------------------

    async def _assign(self) -> None:
        """Take what falls to this worker and let go of what does not, whenever workers or agents come or go."""
        while True:
            self._members.changed.clear()
            self._again.clear()
            for number in sorted(self._known):
                share, mine = self._shares.get(number), self._members.owner(self.name, number) == self._members.name
                if mine and share is None:
                    self._take(number)
                elif not mine and share is not None:
                    share.stop.set()
            self._assigned = True
            await _either(self._members.changed, self._again)

    def _take(self, number: int) -> None:
        share = self._shares[number] = _Share(asyncio.Event())
        share.task = self._group.create_task(self._hold(number, share), name=f"conch.{self.name}.{number}")

    async def _hold(self, number: int, share: _Share) -> None:
        partition = Partition(number)
        try:
            if not await self._is_free(partition, share.stop):
                return
            share.runtime = ConsumerRuntime(self._feed, self.spec, partition=partition, holder=self._members.name)
            await share.runtime.run(share.stop)
        except FencedError as error:
            log.warning("consumer.fenced", consumer=self.name, partition=number, why=str(error))
        finally:
            del self._shares[number]
            if share.runtime is not None:
                self._ended = _sum([self._ended, share.runtime.tally])
            self._again.set()

    async def _is_free(self, partition: Partition, stop: asyncio.Event) -> bool:
        """Once nobody else holds it, True; False when it is not to be ours any more."""
        while not stop.is_set():
            entry = await self._bus.get(position_key(self.name, partition))
            holder = _holder(entry.value if entry is not None else b"")
            if not holder or holder == self._members.name or self._members.is_gone(holder):
                return True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HANDOVER_SECONDS):
                    await stop.wait()
        return False


async def searched_up_to(bus: Bus, spec: ConsumerSpec) -> int:
    """Everything up to here belongs to partitions that have a place of their own, or was handled before those."""
    entry, state = await bus.get(position_key(spec.name)), await bus.state()
    if entry is None:
        return min(spec.begin, state.last)
    try:
        found = json.loads(entry.value) if entry.value else {"epoch": ""}
        return min(int(found["seq"]), state.last) if found["epoch"] == state.epoch else 0
    except (ValueError, LookupError, TypeError) as error:
        raise ContractError(
            f"the position of {spec.name} cannot be read ({type(error).__name__}): conch consumer reset {spec.name}"
        ) from None


def _holder(value: bytes) -> str:
    try:
        return str(json.loads(value).get("holder", "")) if value else ""
    except (ValueError, AttributeError):
        return ""  # who takes it says what is wrong with it


def _sum(tallies: Iterable[Tally]) -> Tally:
    return Tally(**{field.name: sum(getattr(one, field.name) for one in tallies) for field in fields(Tally)})


async def _either(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()
