"""Several agents in one process: each lives for itself, one reader and one writer serve all."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import MemoryBus, MemoryJournal, Stored, shared_subscription
from conch.bus.checkpoints import memory_key
from conch.cycle.agent import Agent
from conch.cycle.control import Control
from conch.cycle.hosting.host import AgentHost, OtherProcesses
from conch.cycle.hosting.runner import AgentRunner, RunStart
from conch.cycle.schedule import Schedule
from conch.cycle.state import checkpoint
from conch.cycle.state.recover import RecoveredAgent, RecoveryStart, recover_all
from conch.errors import BusError, FencedError, ModelError
from conch.processes import messages
from conch.tools import Notes, tool
from conch_schemas import (
    ActionTaken,
    CycleReflected,
    Event,
    MessageReceived,
    ThoughtFormed,
    action_id,
    control_subject,
    cycle_event_id,
    decode,
    encode,
    source_of,
    subject_of,
)

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.cycle.conftest import CrashingBus, Life


NAMES = ("echo-1", "echo-2", "echo-3")


def uid(name: str) -> str:
    return f"00000000-0000-4000-8000-{sum(name.encode()):012}"


class Town:
    """Agents over one journal, each with a mind of its own; hosted as often as a test asks for."""

    def __init__(self, directory: Path, make: Any) -> None:
        self.journal = MemoryJournal()
        self.lives = {name: make(directory, name) for name in NAMES}
        self.hosted: dict[str, AgentRunner] = {}
        self.batch = False

    def host(self, shared_events: Any, names: tuple[str, ...] = NAMES, cycles: int | None = None) -> AgentHost:
        self.hosted = {name: self._one(shared_events, name, cycles) for name in names}
        resting = {name: RecoveryStart(uid(name), rests=True) for name in NAMES if name not in names}
        return AgentHost(shared_events, list(self.hosted.values()), resting)

    def _one(self, shared_events: Any, name: str, cycles: int | None) -> AgentRunner:
        life = self.lives[name]
        life.batch = self.batch
        control: Control = life._control()

        def make(at: RecoveredAgent, _: RunStart) -> Agent:
            agent: Agent = life._made(shared_events, control, at)
            return agent

        cycle_schedule = Schedule(life.settings.cycle.interval, None)
        return AgentRunner(
            name, RecoveryStart(life.agentuid), control, cycle_schedule, make, life.furnish, cycles=cycles
        )

    async def run(self, cycles: int | None, names: tuple[str, ...] = NAMES, bus: MemoryBus | None = None) -> None:
        """A process from its start to its end: so many more cycles of each."""
        async with bus or MemoryBus(self.journal) as entered, shared_subscription(entered) as shared_events:
            await self.host(shared_events, names, cycles).run()

    def facts(self, name: str, *kinds: type[Event]) -> list[Any]:
        events = [decode(delivery.data) for delivery in self.journal.events.values()]
        return [event for event in events if event.agent == name and (not kinds or isinstance(event, kinds))]

    def cycles(self, name: str) -> list[int]:
        """Those that are over."""
        return [event.cycle for event in self.facts(name, CycleReflected)]

    async def tell(self, bus: MemoryBus, name: str, text: str) -> None:
        """A message that another process puts on the stream."""
        said = MessageReceived(id=f"m-{name}", source=source_of(name, uid(name)), agent=name, text=text)
        await bus.publish(subject_of(said), encode(said), id=said.id)

    def written(self, name: str) -> Any:
        """The memory as it stands in the bucket."""
        return json.loads(self.journal.bucket[memory_key(name)].value)


@pytest.fixture
def town(tmp_path: Path, make_life: type[Life]) -> Town:
    def make(directory: Path, name: str) -> Any:
        workspace = directory / name
        workspace.mkdir()
        life = make_life(workspace, Notes(directory / f"{name}.db"))
        life.configured(agent=name)
        life.agentuid = uid(name)
        return life

    return Town(tmp_path, make)


class Begin:
    """`bus = await begin()`: the agents without an end."""

    def __init__(self, town: Town, stack: AsyncExitStack) -> None:
        self._town, self._stack = town, stack
        self.tasks: list[asyncio.Task[None]] = []

    @property
    def task(self) -> asyncio.Task[None]:
        """The one that was begun last."""
        return self.tasks[-1]

    async def __call__(self, names: tuple[str, ...] = NAMES) -> MemoryBus:
        bus = await self._stack.enter_async_context(MemoryBus(self._town.journal))
        shared_events = await self._stack.enter_async_context(shared_subscription(bus))
        self.tasks.append(asyncio.create_task(self._town.host(shared_events, names).run()))
        hosted = self._town.hosted
        while not all(one.control.state != "starting" for one in hosted.values()) and not self.task.done():
            await asyncio.sleep(0)
        return bus


@pytest.fixture
async def begin(town: Town) -> AsyncIterator[Begin]:
    """The agents of the town, until the test is over."""
    stack = AsyncExitStack()
    yield (begin := Begin(town, stack))
    for task in begin.tasks:
        task.cancel()
    await asyncio.gather(*begin.tasks, return_exceptions=True)
    await stack.aclose()


async def ask(bus: MemoryBus, name: str, verb: str, **body: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        await bus.request(control_subject(name, verb), json.dumps(body).encode(), timeout=5)
    )
    return found


async def test_each_lives_its_own_cycles(town: Town) -> None:
    """So many more cycles for each, under its own name and id, and the end comes when all are done."""
    await town.run(2)
    await town.run(3)

    for name in NAMES:
        assert town.cycles(name) == [0, 1, 2, 3, 4]
        assert {fact.agentuid for fact in town.facts(name)} == {uid(name)}


async def test_whatever_dies_each_of_them_is_finished(town: Town, crashing_bus: type[CrashingBus]) -> None:
    """A process that dies again and again: no cycle of any agent has a gap, and nothing is done twice."""
    for at in (3, 8, 9, 11, 17, 2, 5):
        with pytest.raises(crashing_bus.death):
            await town.run(50, bus=crashing_bus(town.journal, at, stored=at % 2 == 0))
        town.journal.ids.clear()
    await town.run(2)

    for name in NAMES:
        cycles = town.cycles(name)
        assert cycles == list(range(len(cycles)))
        assert len(cycles) >= 2
        ids = Counter(fact.id for fact in town.facts(name))
        assert max(ids.values()) == 1


async def test_one_that_fails_is_set_aside_and_the_others_go_on(town: Town, begin: Begin, until: Until) -> None:
    """Its state says why; it does nothing more until somebody lets it go on, and then goes on where it was."""
    town.lives["echo-2"].mind.failures = [OSError("its disk is gone")]
    bus = await begin()
    await until(lambda: len(town.cycles("echo-1")) > 2 and len(town.cycles("echo-3")) > 2)
    status = await ask(bus, "echo-2", "status")
    refused = await ask(bus, "echo-2", "say", text="hello")

    assert (status["state"], status["why"]) == ("failed", "OSError: its disk is gone")
    assert "conch resume --agent echo-2" in refused["error"]
    assert town.facts("echo-2", ThoughtFormed) == []

    await ask(bus, "echo-2", "resume")
    await until(lambda: len(town.cycles("echo-2")) > 2)
    assert town.cycles("echo-2")[:3] == [0, 1, 2]
    assert (await ask(bus, "echo-2", "status"))["state"] == "running"


async def test_what_is_told_while_one_is_let_go_on_is_not_lost(town: Town, begin: Begin, until: Until) -> None:
    """A message that came while it was set aside waits in its memory."""
    town.lives["echo-2"].mind.failures = [OSError("gone")]
    bus = await begin()
    await until(lambda: town.hosted["echo-2"].control.state == "failed")
    await town.tell(bus, "echo-2", "are you there?")
    await ask(bus, "echo-2", "resume")
    await until(lambda: town.hosted["echo-2"].at is not None)

    await until(lambda: [one.text for one in town.hosted["echo-2"].agent.memory.waiting] == ["are you there?"])


async def test_where_all_fail_the_first_ones_error_comes_out(town: Town) -> None:
    """A mind that refuses everybody is no reason to wait for anybody."""
    for name in NAMES:
        town.lives[name].mind.failures = [ModelError(f"no key for {name}", fatal=True)] * 9

    with pytest.raises(ModelError, match="no key for"):
        await town.run(None)


async def test_a_run_of_some_cycles_does_not_wait_for_one_that_failed(town: Town) -> None:
    """The others do all of theirs, and it is known who failed of what."""
    town.batch = True
    town.lives["echo-3"].mind.failures = [ModelError("no key", fatal=True)]
    await town.run(3)

    assert town.cycles("echo-1") == town.cycles("echo-2") == [0, 1, 2]
    assert {name: str(one.error) for name, one in town.hosted.items() if one.error} == {"echo-3": "no key"}


async def test_a_second_copy_of_one_stops_that_one_alone(town: Town, begin: Begin, until: Until) -> None:
    """A cycle's fact that echo-2 did not say itself is somebody else's."""
    bus = await begin()
    await until(lambda: len(town.cycles("echo-2")) > 1)
    action = action_id(uid("echo-2"), 9000)
    identity = {"id": cycle_event_id(action, ThoughtFormed), "cycle": 9000, "action_id": action, "subject": action}
    foreign = town.facts("echo-2", ThoughtFormed)[0].model_copy(update=identity | {"traceparent": None})
    await bus.publish(subject_of(foreign), encode(foreign), id=foreign.id)
    await until(lambda: town.hosted["echo-2"].control.state == "failed")
    seen = len(town.cycles("echo-1"))

    await until(lambda: len(town.cycles("echo-1")) > seen + 2)
    assert isinstance(town.hosted["echo-2"].error, FencedError)


async def test_a_memory_that_somebody_else_wrote_stops_that_one_alone(
    town: Town, begin: Begin, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compare-and-set of one agent's memory is no other's concern."""
    monkeypatch.setattr(checkpoint, "HEARD", 1)
    bus = await begin()
    await until(lambda: memory_key("echo-2") in town.journal.bucket)
    entry = town.journal.bucket[memory_key("echo-2")]
    await bus.put(memory_key("echo-2"), entry.value, revision=entry.revision)
    await until(lambda: town.hosted["echo-2"].control.state == "failed")
    seen = len(town.cycles("echo-3"))

    await until(lambda: len(town.cycles("echo-3")) > seen + 2)


async def test_a_stranger_of_one_name_keeps_out_that_one_alone(town: Town, begin: Begin, until: Until) -> None:
    """Another home's agent of the name stands on the stream: the others begin."""
    await town.run(1)
    town.lives["echo-1"].agentuid = "00000000-0000-4000-8000-000000000001"
    bus = await begin()
    await until(lambda: len(town.cycles("echo-2")) > 2)

    assert isinstance(town.hosted["echo-1"].error, BusError)
    assert "another agent named echo-1" in (await ask(bus, "echo-1", "status"))["why"]
    assert town.cycles("echo-1") == [0]


async def test_all_are_paused_asked_and_stopped_at_once(town: Town, begin: Begin, until: Until) -> None:
    """With `all`, what is asked of one is asked of each."""
    bus = await begin()
    await ask(bus, "echo-1", "pause", all=True)
    paused = await ask(bus, "echo-3", "status", all=True)
    await ask(bus, "echo-2", "resume")
    await until(lambda: len(town.cycles("echo-2")) > 3)
    one_goes_on = await ask(bus, "echo-1", "status", all=True)
    await ask(bus, "echo-2", "stop", all=True)

    assert paused["states"] == {"paused": 3}
    assert [row["agent"] for row in paused["agents"]] == list(NAMES)
    assert one_goes_on["states"] == {"paused": 2, "running": 1}
    assert [row["agent"] for row in one_goes_on["agents"]] == ["echo-1", "echo-3", "echo-2"]
    await begin.task


class Beside:
    """Two processes on one bus: echo-1 in the first, echo-2 and echo-3 in the second."""

    SHARES = (NAMES[:1], NAMES[1:])

    def __init__(self, town: Town, group: asyncio.TaskGroup, shared_events: Any) -> None:
        self.town, self.ended, self.over = town, [False, False], asyncio.Event()
        self.set_aside: list[Exception | None] = []
        self.bus = shared_events.bus
        self.hosted: dict[str, AgentRunner] = {}
        self.tasks = []
        for number, names in enumerate(self.SHARES):
            runners = {name: town._one(shared_events, name, None) for name in names}
            self.hosted |= runners
            other = self.SHARES[1 - number]
            others = OtherProcesses(
                [messages.OtherAgents(first=other[0], number=len(other))], self.set_aside.append, self._ended(number)
            )
            host = AgentHost(shared_events, list(runners.values()), {}, others)
            self.tasks.append(group.create_task(host.run()))

    def _ended(self, number: int) -> Callable[[], Awaitable[None]]:
        async def ended() -> None:
            self.ended[number] = True
            await self.over.wait()

        return ended

    async def end(self) -> None:
        """Stop all, wait for the end of both."""
        await ask(self.bus, "echo-1", "stop", all=True)
        self.over.set()
        await asyncio.wait(self.tasks)


@pytest.fixture
async def beside(town: Town, until: Until) -> AsyncIterator[Beside]:
    """Two processes, until the test is over."""
    async with MemoryBus(town.journal) as bus, shared_subscription(bus) as shared_events, asyncio.TaskGroup() as group:
        made = Beside(town, group, shared_events)
        await until(lambda: all(one.control.state != "starting" for one in made.hosted.values()))
        yield made
        await made.end()


async def test_a_request_for_all_reaches_the_agents_of_other_processes(beside: Beside) -> None:
    """By whichever agent it is asked; the status is of all of them."""
    await ask(beside.bus, "echo-2", "pause", all=True)
    paused = await ask(beside.bus, "echo-1", "status", all=True)
    await ask(beside.bus, "echo-1", "resume", all=True)
    here = await ask(beside.bus, "echo-1", "status", all=True, passed_on=True)
    running = await ask(beside.bus, "echo-3", "status", all=True)

    assert paused["states"] == {"paused": 3}
    assert sorted(row["agent"] for row in paused["agents"]) == list(NAMES)
    assert here["states"] == {"running": 1}
    assert running["states"] == {"running": 3}


async def test_a_process_whose_agents_have_ended_answers_until_all_have(beside: Beside, until: Until) -> None:
    """So that whoever asks its agents first still hears of the others."""
    await ask(beside.bus, "echo-1", "stop")
    await until(lambda: beside.ended == [True, False])

    found = await ask(beside.bus, "echo-1", "status", all=True)

    assert found["states"] == {"ended": 1, "running": 2}
    assert not any(task.done() for task in beside.tasks)


async def test_a_process_whose_agents_all_failed_waits_for_a_word(town: Town, beside: Beside, until: Until) -> None:
    """Others go on elsewhere: that none is left here is reported once, and that one goes on again."""
    town.lives["echo-1"].mind.failures = [OSError("gone")]
    await until(lambda: beside.hosted["echo-1"].control.state == "failed")
    assert [str(error) for error in beside.set_aside] == ["gone"]
    seen = len(town.cycles("echo-1"))

    await ask(beside.bus, "echo-1", "resume")

    await until(lambda: len(town.cycles("echo-1")) > seen)
    assert beside.set_aside[1:] == [None]
    assert len(town.cycles("echo-2")) > 0


async def test_memories_are_written_at_once_where_there_are_none_and_then_in_turn(
    town: Town, begin: Begin, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One at a time, whoever was heard: what is read again after a crash stays bounded for each."""
    await begin()
    await until(lambda: all(memory_key(name) in town.journal.bucket for name in NAMES))
    first = {name: town.journal.bucket[memory_key(name)].revision for name in NAMES}
    monkeypatch.setattr(checkpoint, "HEARD", 5)

    await until(lambda: all(town.journal.bucket[memory_key(n)].revision > first[n] for n in NAMES))
    places = [town.written(name)["seq"] for name in NAMES]
    assert all(0 < seq <= town.journal.last for seq in places)


async def test_memories_of_idle_agents_move_on_with_the_stream(
    town: Town, begin: Begin, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All agents here are paused while others act elsewhere: their positions do not keep the stream from being
    trimmed."""
    monkeypatch.setattr(checkpoint, "IDLE_SECONDS", 0.05)
    bus = await begin(NAMES[:2])
    await ask(bus, "echo-1", "pause", all=True)
    await until(lambda: all(memory_key(name) in town.journal.bucket for name in NAMES[:2]))
    other = town.facts("echo-1")[0].model_copy(update={"agent": "joy", "source": source_of("joy", uid("joy"))})
    for number in range(3):
        event = other.model_copy(update={"id": f"00000000-0000-4000-8000-{number:012}"})
        await bus.publish(subject_of(event), encode(event), id=event.id)
    end = town.journal.last

    await until(lambda: all(town.written(name)["seq"] >= end for name in NAMES[:2]))


async def test_at_an_end_in_order_every_memory_is_written(town: Town) -> None:
    """The next process reads nothing again."""
    await town.run(2)

    for name in NAMES:
        assert town.written(name)["memory"]["next_cycle"] == 2
        assert town.written(name)["seq"] >= town.facts(name, ActionTaken)[-1].cycle


async def test_one_that_rests_remembers_what_it_is_told(town: Town, begin: Begin, until: Until) -> None:
    """A later run of fewer agents: the others rest, their memories are kept up, and they go on when they are back."""
    await town.run(2)
    bus = await begin(("echo-1",))
    await town.tell(bus, "echo-3", "sleep well")
    await until(lambda: len(town.cycles("echo-1")) > 3)
    await ask(bus, "echo-1", "stop")
    await begin.task

    assert [one["text"] for one in town.written("echo-3")["memory"]["waiting"]] == ["sleep well"]
    assert town.written("echo-3")["seq"] > town.written("echo-3")["memory"]["next_cycle"]
    assert town.cycles("echo-3") == [0, 1]
    await town.run(1, ("echo-3",))
    assert town.cycles("echo-3") == [0, 1, 2]


class CountingBus(MemoryBus):
    """Counts what is read of the stream."""

    def __init__(self, journal: MemoryJournal) -> None:
        super().__init__(journal)
        self.passes = self.read_events = 0

    async def read(self, filters: Any, *, after: int = 0) -> AsyncIterator[Any]:
        self.passes += 1
        async for delivery in super().read(filters, after=after):
            self.read_events += 1
            yield delivery


async def test_all_are_recovered_in_one_pass(town: Town) -> None:
    """However many agents there are; those made just now are not looked for at all."""
    await town.run(3)
    born = {f"new-{number}": RecoveryStart(uid(f"new-{number}"), born=town.journal.last) for number in range(50)}
    town.journal.bucket[memory_key("echo-1")] = town.journal.bucket[memory_key("echo-1")]
    for name in NAMES:
        _forget_half(town, name)
    async with CountingBus(town.journal) as bus:
        found = await recover_all(bus, {name: RecoveryStart(uid(name)) for name in NAMES} | born)

    assert bus.passes == 1
    assert bus.read_events < town.journal.last
    assert [found[name].memory.next_cycle for name in NAMES] == [3, 3, 3]  # type: ignore[union-attr]
    assert {found[name].memory.next_cycle for name in born} == {0}  # type: ignore[union-attr]


def _forget_half(town: Town, name: str) -> None:
    """The memory as it was written in the middle of the stream."""
    at = town.journal.last // 2
    entry = town.journal.bucket[memory_key(name)]
    value = json.loads(entry.value) | {"seq": at, "memory": {}}
    town.journal.bucket[memory_key(name)] = type(entry)(json.dumps(value).encode(), entry.revision)


async def test_a_memory_that_cannot_be_read_is_that_agents_alone(town: Town) -> None:
    """The others are recovered; it has its sentence."""
    await town.run(1)
    entry = town.journal.bucket[memory_key("echo-2")]
    town.journal.bucket[memory_key("echo-2")] = type(entry)(b"{}", entry.revision)
    async with MemoryBus(town.journal) as bus:
        found = await recover_all(bus, {name: RecoveryStart(uid(name)) for name in NAMES})

    assert isinstance(found["echo-1"], RecoveredAgent)
    assert isinstance(found["echo-3"], RecoveredAgent)
    assert "the memory of agent echo-2 on the bus cannot be read" in str(found["echo-2"])


async def test_tools_are_used_in_turn(town: Town, until: Until, begin: Begin) -> None:
    """So many agents act at once; the others think meanwhile, and their intents are stored when their turn comes."""
    running, most = Counter[str](), 0

    @tool
    async def work() -> str:
        """Works."""
        nonlocal most
        running["now"] += 1
        most = max(most, running["now"])
        await asyncio.sleep(0)
        running["now"] -= 1
        return "done"

    turns = asyncio.Semaphore(1)
    for life in town.lives.values():
        life.turns = turns
        life.add(work)
        life.mind.decides = lambda _: "TOOL: work()"
    await town.run(4)

    assert most == 1
    assert all(len(town.cycles(name)) == 4 for name in NAMES)


async def test_an_act_that_only_reads_waits_for_no_program(town: Town) -> None:
    """While every slot for tools is taken, an agent looks at its files: it needs no more than a moment."""
    taken = asyncio.Semaphore(0)
    for life in town.lives.values():
        life.turns = taken
        life.mind.decides = lambda _: 'TOOL: filesystem(operation="exists", path=".")'
    async with asyncio.timeout(30):
        await town.run(2)

    assert all(len(town.cycles(name)) == 2 for name in NAMES)


async def test_an_outcome_is_stored_when_its_slot_is_free(life: Life) -> None:
    """While the bus takes its time for an outcome, the next agent uses its tool."""
    slots, free = asyncio.Semaphore(1), dict[str, bool]()

    class Watched(MemoryBus):
        async def publish(self, subject: str, data: bytes, *, id: str) -> Stored:
            free[subject.rpartition("action.")[2]] = not slots.locked()
            return await super().publish(subject, data, id=id)

    life.turns = slots
    life.mind.decides = lambda _: 'TOOL: filesystem(operation="write", path="a.txt", content="b")'
    await life.run(1, Watched(life.journal))

    assert (free["decided"], free["taken"]) == (False, True)
