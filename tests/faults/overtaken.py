"""Folds that two workers share while workers are overtaken and killed; then what they said and the states that they
left are compared with those of one worker to whom nothing happened.

A worker is stopped at a chosen call to its bus, until the other has taken its agents and has come to a chosen call of
its own; then the first goes on. Which calls these are, and what comes between, is drawn.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pydantic import BaseModel

from conch.bus import Bus, shared_subscription
from conch.bus.checkpoints import state_key
from conch.config import Settings
from conch.consumer import ConsumerSpec, ServiceContext, bind, follow
from conch.consumer.group import membership, shared
from conch.consumer.group.membership import joined
from conch.consumer.group.position import holder_of
from conch.consumer.group.shared import SharedConsumer
from conch.consumer.plugins import rule_process
from conch.consumer.plugins.rule_state import OwnRuleState
from conch.consumer.runtime import ownership, snapshots
from conch.experience.assemble import judge
from conch.rewards.progress import SCORER
from conch.rules import RuleInfo
from conch.witness import verify
from conch_schemas import (
    ActionTaken,
    Cut,
    CycleReflected,
    Event,
    ExperienceRecorded,
    MarkWitnessed,
    Outcome,
    Part,
    TaskProgressed,
    WeightsSet,
    decode,
    encode,
    source_of,
    subject_of,
)
from conch_services.curiosity.consumer import curiosity as curiosity_consumer
from conch_services.needs.consumer import needs as needs_consumer
from conch_services.progress.consumer import progress as progress_consumer
from conch_services.reward.consumer import reward as reward_consumer
from conch_services.watch.consumer import watch as watch_consumer
from conch_services.witness.consumer import witness as witness_consumer
from tests.faults.acts import UID, act

AGENTS = ("echo", "delta", "gamma")
CYCLES = 16
PATIENCE = 60.0
"""Seconds after which what is not handled is lost."""
QUICK: dict[Any, dict[str, float]] = {
    membership: {"BEAT_SECONDS": 0.05, "LEASE_SECONDS": 0.3},
    snapshots: {"SNAPSHOT_SECONDS": 0.01, "SNAPSHOT_LONGEST": 0.05},
    ownership: {"SURE_SECONDS": 0.3},
    shared: {"HANDOVER_SECONDS": 0.01},
}
"""What tests set, so that workers are taken for dead soon."""


class Seen(BaseModel):
    """State of a plug-in fold: every cycle that it has seen, in order. Nothing in it knows a repetition."""

    cycles: tuple[int, ...] = ()


def count(state: Seen, action: ActionTaken) -> tuple[Seen, Event]:
    """Say how many acts there were."""
    after = Seen(cycles=(*state.cycles, action.cycle or 0))
    number = str(len(after.cycles))
    return after, follow(action, CycleReflected, consumer="count", version="1", reflection=number, sleep=0.0, ms=0.0)


class _InProcess(rule_process.RuleWorker):
    """Calls its rule here: of the acts that it has seen it returns the sum of their cycles' numbers."""

    async def _start(self) -> None:
        return

    async def _ask(self, before: BaseModel | None, action: ActionTaken) -> dict[str, Any]:
        await asyncio.sleep(0)
        if isinstance(before, OwnRuleState):
            total = int(before.text or 0) + (action.cycle or 0)
            return {"value": total, "state": str(total)}
        assert isinstance(before, rule_process.RuleWindow)
        return {"value": sum(json.loads(one)["cycle"] for one in before.acts) + (action.cycle or 0)}


def _rule(name: str, **carries: Any) -> ConsumerSpec:
    with patch.object(rule_process, "RuleWorker", _InProcess):
        plugin = RuleInfo(name, "1", origin="test", low=0.0, high=1000.0, **carries)
        return rule_process.rule_consumer(plugin, timeout=60.0, memory_mib=64)[0]


def folds(home: Path) -> dict[str, ConsumerSpec]:
    """Every fold that comes with Conch; of plug-ins a fold, a rule with a state and one with a window."""
    own = ServiceContext(Settings.model_validate({"watch": {"recent": 20, "earlier": 20}}), home)
    made = [bind(one, own) for one in (witness_consumer, needs_consumer, curiosity_consumer, progress_consumer)]
    made += [
        bind(watch_consumer, own),
        ConsumerSpec("count", "1", (ActionTaken,), count, state=Seen, initial=Seen, emits=(CycleReflected,)),
        _rule("ordinal", stateful=True),
        _rule("window", window=4),
    ]
    return {spec.name: replace(spec, linger=0.0) for spec in made}


def life(spec: ConsumerSpec, home: Path, agent: str) -> list[Event]:
    """What the fold reads of one agent: acts, and what the other consumers say of them."""
    others = folds(home)
    reward, states = bind(reward_consumer, ServiceContext(Settings(), home)), {}
    facts: list[Event] = [_weights(agent)] if spec.name == SCORER else []
    for cycle in range(CYCLES):
        done = act(cycle, agent=agent)
        facts += [done, reward.handle(done), _progressed(done), _experience(done)]
        for name in {"needs", "curiosity"} - {spec.name}:
            states[name], said = others[name].handle(states.get(name, others[name].initial()), done)
            facts += said if isinstance(said, list | tuple) else [said]
    return [fact for fact in facts if isinstance(fact, spec.kinds)]


def _weights(agent: str) -> WeightsSet:
    part = Part(component=SCORER, weight=1.0, range=(-1.0, 1.0), scorer=SCORER)
    return WeightsSet(id=f"{agent}/weights", source=source_of(agent, UID), agent=agent, version="1", parts=(part,))


def _progressed(done: ActionTaken) -> TaskProgressed:
    rate = (done.cycle or 0) % 7 / 7
    return follow(done, TaskProgressed, consumer="test", version="1", episode="task", test_pass_rate=rate)


def _experience(done: ActionTaken) -> ExperienceRecorded:
    verdict = judge("1", (), ())
    return follow(
        done,
        ExperienceRecorded,
        consumer="store",
        version="1",
        seq=(done.cycle or 0) + 1,
        acted_at=datetime(2026, 1, 1, tzinfo=UTC),
        raw="x" * 40,
        action=done.action,
        outcome=Outcome(status="none", output=Cut(text="", length=0, sha256="")),
        scores=verdict.scores,
        total=verdict.total,
        breakdown=verdict.breakdown,
        coverage=verdict.coverage,
        complete=verdict.complete,
        weights=verdict.weights,
        revision=1,
        model="test",
        ms={},
    )


@dataclass(frozen=True)
class Moment:
    """A call of a worker's to its bus."""

    asks: str
    key: str = ""
    """How the key begins that it reads or writes."""
    done: bool = False
    """Whether the bus has done what was asked."""


STOPS = (
    Moment("get", "state/", done=True),
    Moment("publish_many"),
    Moment("publish_many", done=True),
    Moment("put", "state/"),
    Moment("put", "state/", done=True),
    Moment("put", "position/"),
    Moment("put", "position/", done=True),
)
"""Where a worker is stopped."""
WAKES = (Moment("put", "position/", done=True), *STOPS[:-1])
"""Where the worker that has taken over from it is, when it goes on: from the writing of the position on."""
LATE_STATE = (Moment("put", "state/"), Moment("put", "state/"))
"""The state that the first writes is in the bucket after the second has read it and before the second writes it."""


class Stoppable:
    """A worker's way to its bus. While it is stopped nothing that it asks for is done, and no answer reaches it."""

    def __init__(self, bus: Bus, draw: random.Random) -> None:
        self._bus, self._draw = bus, draw
        self._publishing = asyncio.Lock()
        self._moment: Moment | None = None
        self._former = ""
        self.held, self.answered = asyncio.Event(), asyncio.Event()
        """Whether it was stopped at its moment; whether the call of then has its answer."""
        self.goes = asyncio.Event()
        self.goes.set()
        self.killed = False

    def stop_at(self, moment: Moment, *, former: str = "") -> None:
        """Stop at that moment, the next time; not before it has taken what the worker `former` held."""
        self._moment, self._former = moment, former
        self.held.clear()
        self.answered.clear()

    def go(self) -> None:
        """Go on, and do not stop."""
        self._moment = None
        self.goes.set()

    def _come_to(self, moment: Moment, value: bytes) -> bool:
        """Whether it is stopped here."""
        if self._moment is None:
            return False
        if self._former and moment.key.startswith("position/") and f'"{self._former}.'.encode() not in value:
            self._former = ""
        wanted = self._moment
        is_here = (moment.asks, moment.done) == (wanted.asks, wanted.done) and moment.key.startswith(wanted.key)
        if self._former or not is_here:
            return False
        self._moment = None
        self.goes.clear()
        self.held.set()
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    @property
    def connected(self) -> bool:
        """A worker that was killed says nothing more."""
        return not self.killed

    async def _asked(self, name: str, *given: Any, **named: Any) -> Any:
        for _ in range(self._draw.randrange(3)):
            await asyncio.sleep(0)
        key, value = str(given[0]) if name in ("get", "put") else "", given[1] if name == "put" else b""
        await self.goes.wait()
        is_held = self._come_to(Moment(name, key), b"")
        await self.goes.wait()
        answer = await getattr(self._bus, name)(*given, **named)
        is_held |= self._come_to(Moment(name, key, done=True), value)
        if is_held:
            self.answered.set()
        await self.goes.wait()
        return answer

    async def publish_many(self, messages: Any) -> Any:
        async with self._publishing:  # what is asked for first is sent first, over one connection
            return await self._asked("publish_many", messages)

    async def state(self) -> Any:
        return await self._asked("state")

    async def keys(self) -> Any:
        return await self._asked("keys")

    async def at(self, seq: int) -> Any:
        return await self._asked("at", seq)

    async def get(self, key: str) -> Any:
        return await self._asked("get", key)

    async def put(self, key: str, value: bytes, *, revision: int) -> Any:
        return await self._asked("put", key, value, revision=revision)

    async def read(self, filters: Sequence[str], *, after: int = 0) -> AsyncIterator[Any]:
        await self.goes.wait()
        async for delivery in self._bus.read(filters, after=after):
            await self.goes.wait()
            yield delivery

    @asynccontextmanager
    async def follow(self, filters: Sequence[str], *, after: int) -> AsyncIterator[Any]:
        async with self._bus.follow(filters, after=after) as reader:
            yield _Reader(self, reader)


@dataclass
class _Reader:
    """A stoppable worker's end of the stream."""

    bus: Stoppable
    reader: Any

    async def get(self, most: int = 256) -> Any:
        await self.bus.goes.wait()
        found = await self.reader.get(most)
        await self.bus.goes.wait()
        return found


class Worker:
    """A worker of one fold; it runs from its making on."""

    def __init__(self, bus: Bus, spec: ConsumerSpec, name: str, draw: random.Random) -> None:
        self.name, self.stop, self.bus = name, asyncio.Event(), Stoppable(bus, draw)
        self.task = asyncio.create_task(self._run(spec), name=f"overtaken.{name}")

    async def _run(self, spec: ConsumerSpec) -> None:
        own: Any = self.bus
        async with shared_subscription(own) as shared_events, joined(own, [spec.name], self.name) as others:
            await SharedConsumer(spec, others).run(shared_events, self.stop)

    async def kill(self) -> None:
        """At once: what it asked for may be done, and it says nothing more."""
        self.bus.killed = True
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


Check = Callable[[Sequence[Event], Sequence[Event], Any], Awaitable[list[str]]]
"""(what the fold read, what it said, its state) -> what is wrong."""


@dataclass
class Life:
    """One fold's life under faults."""

    spec: ConsumerSpec
    told: dict[str, list[Event]]
    """What it reads of each agent."""
    check: Check
    entered: Callable[[], AbstractAsyncContextManager[Bus]]
    """Another bus over the same stream."""
    seed: int
    faults: Counter[str] = field(default_factory=Counter)

    async def live(self) -> list[str]:
        """What is wrong at the end. Raises TimeoutError where something is lost for good."""
        draw = random.Random(self.seed)
        self._waiting = {agent: list(facts) for agent, facts in self.told.items()}
        piece = sum(map(len, self._waiting.values())) // 3
        async with self.entered() as bus, self.entered() as one, self.entered() as two:
            workers = [Worker(one, self.spec, "one", draw), Worker(two, self.spec, "two", draw)]
            try:
                while left := [agent for agent in AGENTS if self._waiting[agent]]:
                    for _ in range(draw.randrange(1, piece)):
                        await self._tell(bus, draw.choice(left))
                    if draw.random() < 0.7:
                        await self._overtake(workers, bus, draw.choice(left), draw)
                    else:
                        await self._harm(workers, (one, two), draw)
                for worker in workers:
                    worker.bus.go()
                async with asyncio.timeout(PATIENCE):
                    await self._until_handled(bus, workers)
                    for worker in workers:
                        worker.stop.set()
                        await worker.task
                return [wrong for agent in AGENTS for wrong in await self._wrong(bus, agent)]
            finally:
                for worker in workers:
                    await worker.kill()

    async def _tell(self, bus: Bus, agent: str) -> None:
        """The agent's next event, if there is one."""
        if self._waiting[agent]:
            event = self._waiting[agent].pop(0)
            await bus.publish(subject_of(event), encode(event), id=event.id)

    async def _overtake(self, workers: Sequence[Worker], bus: Bus, agent: str, draw: random.Random) -> None:
        """Stop the worker that holds the agent until the other has taken it, and let it go on while that one works."""
        first, second = workers
        if (await holder_of(bus, self.spec.name, agent) or "").startswith(f"{second.name}."):
            first, second = second, first
        stop, wake = LATE_STATE if draw.random() < 0.4 else (draw.choice(STOPS), draw.choice(WAKES))
        second.bus.go()
        first.bus.go()
        first.bus.stop_at(stop)
        await self._tell(bus, agent)
        reached = await _within(0.3, first.bus.held)
        first.bus.goes.clear()
        second.bus.stop_at(wake, former=first.name)
        for _ in range(draw.randrange(1, 4)):
            await self._tell(bus, agent)
        if await _within(1.5, second.bus.held) and reached:
            self.faults[f"{_words(stop)}, {_words(wake)}"] += 1
        first.bus.go()
        await _within(0.1, first.bus.answered)
        second.bus.go()

    async def _harm(self, workers: list[Worker], buses: Sequence[Bus], draw: random.Random) -> None:
        place = draw.randrange(2)
        worker, fault = workers[place], draw.choice(["stop", "stop", "wake", "kill", "wait"])
        self.faults[fault] += 1
        if fault == "stop":
            worker.bus.goes.clear()
        elif fault == "wake":
            worker.bus.go()
        elif fault == "kill":
            await worker.kill()
            name = draw.choice([worker.name, f"{worker.name.split('-')[0]}-{self.faults['kill']}"])
            workers[place] = Worker(buses[place], self.spec, name, draw)
        if not any(worker.bus.goes.is_set() for worker in workers):
            draw.choice(workers).bus.go()
        await asyncio.sleep(draw.choice([0.0, 0.005, 0.05, 0.6]))

    async def _until_handled(self, bus: Bus, workers: Sequence[Worker]) -> None:
        last, key = (await bus.state()).last, f"position/{self.spec.name}"
        while True:
            for worker in workers:
                if worker.task.done():
                    await worker.task
            entry = await bus.get(key)
            if entry is not None and json.loads(entry.value)["seq"] >= last:
                return
            await asyncio.sleep(0.01)

    async def _wrong(self, bus: Bus, agent: str) -> list[str]:
        spec = self.spec
        emits = {kind.TYPE for kind in spec.emits}
        all_ = [decode(found.data) async for found in bus.read([f"conch.v1.{agent}.>"])]
        given = {event.id for event in self.told[agent]}
        said = [event for event in all_ if event.TYPE in emits and event.id not in given]
        read = [event for event in all_ if isinstance(event, spec.kinds) and event.id in given]
        entry = await bus.get(state_key(spec.name, agent))
        assert spec.state is not None
        assert entry is not None
        state = spec.state.model_validate(json.loads(entry.value)["state"])
        return [f"seed {self.seed}, {spec.name}, {agent}: {wrong}" for wrong in await self.check(read, said, state)]


def as_undisturbed(spec: ConsumerSpec) -> Check:
    """That a fold said what it says of these events in their order, each once, and ended in that state."""

    async def check(read: Sequence[Event], said: Sequence[Event], left: Any) -> list[str]:
        assert spec.initial is not None
        state, expected = spec.initial(), list[Event]()
        for event in read:
            result = spec.handle(state, event)
            state, facts = await result if inspect.isawaitable(result) else result
            expected += [] if facts is None else [facts] if isinstance(facts, Event) else facts
        ids = Counter(event.id for event in said)
        wrong = [f"{event.id} is lost" for event in expected if event.id not in ids]
        wrong += [f"{id} stands there {times} times" for id, times in ids.items() if times > 1]
        if [_timeless(event) for event in said] != [_timeless(event) for event in expected]:
            wrong.append("it said other facts, or in another order")
        if left != state:
            wrong.append("it left another state")
        marks = [event.mark for event in said if isinstance(event, MarkWitnessed)]
        return wrong + [problem.what for problem in verify(marks, [])]

    return check


def _timeless(event: Event) -> dict[str, Any]:
    return event.model_dump(mode="json", exclude={"time"})


async def _within(seconds: float, event: asyncio.Event) -> bool:
    """Whether it is set within that time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


def _words(moment: Moment) -> str:
    return f"{'after' if moment.done else 'before'} {moment.asks} {moment.key}".strip()
