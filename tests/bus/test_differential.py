"""The two buses side by side: random schedules of everything that is done to a bus, and of what may befall it. What the
memory bus holds in the end the server holds too."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from conch.bus import Bus, MemoryBus, MemoryJournal, OutgoingMessage, Stored, shared_subscription
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.server import EmbeddedServer
from conch.consumer import ConsumerRuntime
from conch.errors import FencedError
from conch_schemas import MessageReceived, MessageSent, agent_of, subject_filter
from tests.conftest import TOKEN
from tests.faults.load import ANSWER, message

T = TypeVar("T")
EXAMPLES, STEPS = 20, 20
SAID, ANSWERED = subject_filter(MessageReceived), subject_filter(MessageSent)


class Memory:
    """The memory bus; its server is the journal."""

    def __init__(self) -> None:
        self.journal, self.base = MemoryJournal(), 0

    async def enter(self) -> None:
        """A new client."""
        self.bus: Bus = MemoryBus(self.journal)
        await self.bus.__aenter__()  # type: ignore[attr-defined]

    async def leave(self) -> None:
        """The client goes."""
        await self.bus.__aexit__()  # type: ignore[attr-defined]

    async def die(self) -> None:
        """The server and with it the client: the process is one."""
        await self.leave()
        await self.enter()

    survives = False
    """Whether work under way goes on by itself when the server comes back."""


class JetStream(Memory):
    """The bus on a server that serves one example after the other; `base`: what the ones before have left behind."""

    survives = True

    def __init__(self, server: EmbeddedServer) -> None:
        self.server = server

    async def enter(self) -> None:
        self.bus = JetStreamBus(Access(self.server.url, token=TOKEN), strict=True)
        await self.bus.__aenter__()

    async def empty(self) -> None:
        """Leave nothing of the example before."""
        self.base = (await self.bus.state()).last
        await self.bus.trim(self.base + 1)

    async def die(self) -> None:
        assert self.server.pid is not None
        os.kill(self.server.pid, signal.SIGKILL)
        await self.server.wait()
        await self.server.start()


class Buses(RuleBasedStateMachine):
    """Both of them. `runner` and `server` are the test's; agents, keys and consumers are the example's own."""

    runner: asyncio.Runner
    server: EmbeddedServer
    example = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).example += 1
        self.memory, self.jetstream = Memory(), JetStream(self.server)
        self.sides = (self.memory, self.jetstream)
        self.numbers = {f"agent-{self.example}-{letter}": 0 for letter in "ab"}
        self.kept: list[OutgoingMessage] = []
        """Published and not trimmed."""
        self.stale: dict[tuple[Memory, str], int] = {}
        self.names = iter(range(1_000))
        self.both(lambda side: side.enter())
        self.run(self.jetstream.empty())

    def teardown(self) -> None:
        self.settle()
        self.both(lambda side: side.leave())

    def run(self, work: Any) -> Any:
        """Within a time that nothing here should need."""
        return self.runner.run(_bounded(work))

    def both(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Do it on both sides at once; they must agree on the result."""

        async def side_by_side() -> tuple[T, T]:
            return tuple(await asyncio.gather(*(work(side) for side in self.sides)))  # type: ignore[return-value]

        ours, theirs = self.run(side_by_side())
        assert ours == theirs
        result: T = ours
        return result

    # -- what is done ------------------------------------------------------------------------------------------------

    @rule(letter=st.sampled_from("ab"), count=st.integers(1, 40), many=st.booleans())
    def publish(self, letter: str, count: int, many: bool) -> None:
        """New events of one agent, singly or in a batch."""
        messages = self.new(letter, count)

        async def on(side: Memory) -> list[bool]:
            stored = await _publish(side.bus, messages, many=many)
            for one, where in zip(messages, stored, strict=True):
                there = await side.bus.at(where.seq)
                assert there is not None
                assert there[1:3] == one[:2]
            return [where.duplicate for where in stored]

        assert not any(self.both(on))

    @rule(
        letter=st.sampled_from("ab"),
        count=st.integers(1, 40),
        many=st.booleans(),
        turns=st.integers(0, 30),
        dies=st.sampled_from(["client", "server"]),
    )
    def publish_and_die(self, letter: str, count: int, many: bool, turns: int, dies: str) -> None:
        """The client or the server dies in the middle of it; the events are published again."""
        messages = self.new(letter, count)

        async def on(side: Memory) -> None:
            trying = asyncio.ensure_future(_publish(side.bus, messages, many=many))
            await _turns(turns)
            await _death(side, trying, dies)
            await _publish(side.bus, messages, many=many)

        self.both(on)

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def publish_again(self, data: st.DataObject) -> None:
        """Events that stand there already."""
        again = data.draw(st.lists(st.sampled_from(self.kept), min_size=1, max_size=20, unique=True))

        async def on(side: Memory) -> list[tuple[bool, bytes]]:
            stored = await _publish(side.bus, again, many=True)
            return [(where.duplicate, (await side.bus.at(where.seq)).data) for where in stored]  # type: ignore[union-attr]

        assert self.both(on) == [(True, one.data) for one in again]

    @precondition(lambda self: self.kept)
    @rule()
    def handle(self) -> None:
        """The consumer answers all there is, and is stopped in order."""
        self.settle()

    @precondition(lambda self: self.kept)
    @rule(turns=st.integers(0, 60), dies=st.sampled_from(["client", "server"]))
    def handle_and_die(self, turns: int, dies: str) -> None:
        """The consumer's process, or the server, dies while it answers."""

        async def on(side: Memory) -> None:
            working = asyncio.ensure_future(self.answers(side))
            await _turns(turns)
            await _death(side, working, dies)

        self.both(on)

    @precondition(lambda self: self.kept)
    @rule(share=st.floats(0, 1))
    def trim(self, share: float) -> None:
        """Of what is answered and stands in one order on both sides, the older part."""
        self.settle()
        ours, theirs = self.run(self.stands(self.memory)), self.run(self.stands(self.jetstream))
        alike = next((place for place, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b), len(ours))
        gone = ours[: int(alike * share)]

        async def on(side: Memory) -> None:
            first = (await side.bus.state()).first
            await side.bus.trim(first + len(gone))

        self.both(on)
        self.kept = [one for one in self.kept if one.data not in set(gone)]

    @rule(
        key=st.sampled_from("xy"), value=st.integers(0, 99), revision=st.sampled_from(["right", "none", "old", "new"])
    )
    def put(self, key: str, value: int, revision: str) -> None:
        """A value of the bucket, at the right revision or a wrong one."""

        async def on(side: Memory) -> bool:
            name = self.key(key)
            entry = await side.bus.get(name)
            now = entry.revision if entry is not None else 0
            asked = {"right": now, "none": 0, "old": self.stale.get((side, name), 0), "new": now + 7}[revision]
            try:
                await side.bus.put(name, b"%d" % value, revision=asked)
            except FencedError:
                return False
            self.stale[side, name] = now
            return True

        self.both(on)

    # -- what may befall it ------------------------------------------------------------------------------------------

    @precondition(lambda self: self.kept)
    @rule()
    def restart_client(self) -> None:
        """It leaves in order, and another one comes."""

        async def on(side: Memory) -> None:
            await side.leave()
            await side.enter()

        self.both(on)

    @precondition(lambda self: self.kept)
    @rule()
    def kill_server(self) -> None:
        """While nothing is under way."""
        self.both(lambda side: side.die())

    # -- what must agree ---------------------------------------------------------------------------------------------

    @invariant()
    def agree(self) -> None:
        """The events, in order; the values of the bucket; and that nothing is missing."""
        ids = {one.data: one.id for one in self.kept}

        async def on(side: Memory) -> tuple[list[str], list[bytes | None]]:
            state = await side.bus.state()
            assert state.missing == 0
            said = [ids[found.data] async for found in side.bus.read([SAID])]
            entries = [await side.bus.get(self.key(key)) for key in "xy"]
            return said, [entry.value if entry is not None else None for entry in entries]

        assert self.both(on)[0] == [one.id for one in self.kept]

    def settle(self) -> None:
        """Answer everything; then what was answered agrees as well, in each agent's order, and the fold's state."""

        async def on(side: Memory) -> Any:
            await self.answers(side)
            answers: dict[str | None, list[bytes]] = {}
            async for found in side.bus.read([ANSWERED]):
                body = json.loads(found.data)
                answers.setdefault(agent_of(found.subject), []).append((body["id"], body["data"]["answers"]))
            states = [await side.bus.get(f"state/{self.consumer}/{agent}") for agent in self.numbers]
            state = await side.bus.state()
            return answers, [json.loads(one.value)["state"] if one else None for one in states], state.messages

        _, states, _ = self.both(on)
        assert [one["last"] if one else 0 for one in states] == list(self.numbers.values())
        assert not any(one["astray"] for one in states if one)

    # -- how ---------------------------------------------------------------------------------------------------------

    @property
    def consumer(self) -> str:
        """This example's."""
        return f"answer-{self.example}"

    def key(self, letter: str) -> str:
        """This example's."""
        return f"differential/{self.example}/{letter}"

    def new(self, letter: str, count: int) -> list[OutgoingMessage]:
        """The agent's next messages."""
        agent = f"agent-{self.example}-{letter}"
        first = self.numbers[agent] + 1
        self.numbers[agent] += count
        messages = [message(agent, number) for number in range(first, first + count)]
        self.kept += messages
        return messages

    async def answers(self, side: Memory) -> None:
        """Run the consumer until it has answered what there is now; then stop it in order."""
        last = (await side.bus.state()).last
        spec = replace(ANSWER, name=self.consumer, begin=side.base)
        async with shared_subscription(side.bus) as shared_events:
            stop, runtime = asyncio.Event(), ConsumerRuntime(shared_events, spec)
            running = asyncio.create_task(runtime.run(stop))
            try:
                while runtime.handled < last and not running.done():
                    await asyncio.sleep(0.001)
                stop.set()
                await running
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    async def stands(self, side: Memory) -> list[bytes]:
        """All events there are, in order; an answer without the time when it was made."""
        found = []
        async for delivery in side.bus.read(["conch.v1.>"]):
            said = delivery.subject.endswith(MessageReceived.TYPE)
            found.append(delivery.data if said else json.loads(delivery.data)["id"].encode())
        return found


async def _bounded(work: Any) -> Any:
    async with asyncio.timeout(30):
        return await work


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def _publish(bus: Bus, messages: Sequence[OutgoingMessage], *, many: bool) -> Sequence[Stored]:
    if many:
        return await bus.publish_many(messages)
    return await asyncio.gather(*(bus.publish(*one[:2], id=one.id) for one in messages))


async def _death(side: Memory, work: asyncio.Future[Any], dies: str) -> None:
    """Of the client with its work, or of the server, which the work may survive."""
    if dies == "client" or not side.survives:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await side.leave()
        await side.enter()
    else:
        await side.die()
        await work


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[type[Buses]]:
    """The machine with a server."""
    with asyncio.Runner() as loop:
        on = EmbeddedServer(tmp_path / "nats", token=TOKEN, strict=False, max_bytes=2**30)
        loop.run(on.start())
        yield type("BusesOnAServer", (Buses,), {"runner": loop, "server": on})
        loop.run(on.stop())


@pytest.mark.torture
@pytest.mark.timeout(400)  # a failure is made smaller before it is shown
def test_both_buses_are_one(machine: type[Buses]) -> None:
    """Whatever is published, handled, repeated, trimmed and fenced, and whoever dies meanwhile: the same events in the
    same order, the same consequences, the same values."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            derandomize=True,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
