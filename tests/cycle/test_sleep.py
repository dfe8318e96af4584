"""Sleep: an agent with nothing to do asks its mind nothing, and wakes at once at what concerns it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pytest

from conch.bus import MemoryBus, shared_subscription
from conch.cycle.hosting.host import AgentHost
from conch.cycle.sleep.state import STIRS
from conch.minds import Situation
from conch.workspace import MaterialPiece
from conch_schemas import (
    ActionDecided,
    ActionTaken,
    AgentSlept,
    AgentWoke,
    CycleReflected,
    FileCheck,
    Goal,
    GoalDropped,
    GoalSet,
    SenseMeasured,
    ThoughtFormed,
    Usage,
    source_of,
)
from tests.cycle.conftest import AGENTUID, Running
from tests.cycle.virtual_time import BEGAN, VirtualLoop, run_virtually

if TYPE_CHECKING:
    from tests.cycle.conftest import CrashingBus, Life

HOUR = 3600.0
T = TypeVar("T")


class Night(Protocol):
    """`night(test)`: the test with a running agent, in a time that goes on by itself; its result."""

    def __call__(self, test: Callable[[Running], Awaitable[T]], /) -> T:
        """Runs the test."""


ANSWER = 'TOOL: reply(text="here")'


@pytest.fixture
def sleepy(life: Life) -> Life:
    """An agent of the default settings that rests, and answers messages."""
    life.configured(cycle={"interval": 1.0, "reflect_every": 0, "sleep": {"first": 10.0}})
    life.mind.decides = lambda situation: ANSWER if situation.message else "DO_NOTHING: resting"
    return life


@pytest.fixture
def night(monkeypatch: pytest.MonkeyPatch, sleepy: Life) -> Night:
    """An agent that runs without an end, of the settings of the test."""

    def begin(test: Callable[[Running], Awaitable[T]], /) -> T:
        async def whole() -> T:
            async with living(sleepy) as running:
                return await test(running)

        return run_virtually(monkeypatch, whole())

    return begin


@asynccontextmanager
async def living(life: Life) -> AsyncIterator[Running]:
    """An agent that runs without an end."""
    async with MemoryBus(life.journal) as bus, shared_subscription(bus) as shared_events:
        one = life.hosted(shared_events, None)
        task = asyncio.create_task(AgentHost(shared_events, [one]).run(), name="life")
        while one.control.state == "starting" and not task.done():
            await asyncio.sleep(0)
        running = Running(life, bus, one, task)
        try:
            yield running
        finally:
            one.control.stop()
            await task


async def asleep(running: Running) -> float:
    """Wait until it sleeps; returns the time."""
    while running.one.control.state != "asleep":
        await asyncio.sleep(0.1)
    return asyncio.get_running_loop().time()


async def awake(running: Running) -> float:
    """Wait until it is awake; returns the time."""
    while running.one.control.state == "asleep":
        await asyncio.sleep(0.1)
    return asyncio.get_running_loop().time()


def slept(life: Life) -> list[float]:
    return [fact.seconds for fact in life.facts(AgentSlept)]


def woken(life: Life) -> list[str]:
    return [fact.by for fact in life.facts(AgentWoke)]


def test_an_hour_with_nothing_to_do_asks_the_mind_twice_at_most(night: Night, sleepy: Life) -> None:
    """The sleeps double, and their ends ask nothing: one cycle, of a thought and a decision."""
    night(lambda running: asyncio.sleep(HOUR))

    assert len(sleepy.mind.asked) <= 2
    assert slept(sleepy)[:5] == [10.0, 20.0, 40.0, 80.0, 160.0]
    assert max(slept(sleepy)) <= HOUR
    assert woken(sleepy) == ["stop"]


def test_a_message_wakes_it_at_once(night: Night, sleepy: Life) -> None:
    """It is awake within a second, answers, and sleeps again from ten seconds on."""

    async def test(running: Running) -> float:
        await asyncio.sleep(1000)
        began = asyncio.get_running_loop().time()
        await running.ask("say", {"text": "are you there?"})
        passed = await awake(running) - began
        await asleep(running)
        return passed

    assert night(test) < 1.0
    assert woken(sleepy)[0] == "message"
    assert len(sleepy.mind.asked) == 6
    assert slept(sleepy)[-1] == 10.0


def goal(id: str = "g", path: str = "never", **data: Any) -> dict[str, Any]:
    """A goal as a person adds it."""
    return {"id": id, "statement": f"Make {path}.", "check": {"kind": "file", "path": path}, **data}


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_goal_wakes_it_and_keeps_it_awake_for_some_acts(night: Night, sleepy: Life) -> None:
    """Set, it is worked at; after `cycle.sleep.after` acts without an effect the agent sleeps with it open."""
    sleepy.configured(cycle={"sleep": {"first": 10.0, "after": 4}})

    async def test(running: Running) -> None:
        await asleep(running)
        await running.ask("goal", {"add": goal()})
        await awake(running)
        await asleep(running)

    night(test)

    assert woken(sleepy)[0] == "goal"
    assert len(sleepy.facts(ActionTaken)) == 1 + 4
    assert sleepy.facts(AgentSlept)[-1].why == "4 acts in a row brought no open goal further"


def test_a_goal_that_is_dropped_wakes_it(night: Night, sleepy: Life) -> None:
    """By whomever."""
    sleepy.configured(goals=[goal()], cycle={"sleep": {"first": 10.0, "after": 1}})

    async def test(running: Running) -> None:
        await asleep(running)
        await running.ask("goal", {"drop": "g"})
        await awake(running)

    night(test)

    assert woken(sleepy)[0] == "goal"


def test_a_goal_of_its_own_that_no_person_accepted_lets_it_sleep(night: Night, sleepy: Life) -> None:
    """It waits for a person, whose acceptance wakes it."""
    mine = Goal(id="mine", statement="Mine.", check=FileCheck(path="mine"))

    async def test(running: Running) -> None:
        await running.agent.people_inbox.set_goal(mine, by="agent")
        await asleep(running)
        assert "each open goal waits for a person's decision" in running.one.control.why
        await running.ask("goal", {"accept": "mine"})
        await awake(running)

    night(test)

    assert woken(sleepy)[0] == "goal"


def test_a_night_asks_two_questions_and_four_more_for_a_message(night: Night, sleepy: Life) -> None:
    """A thought and a decision of each cycle: the one before it sleeps, the answer, and the one that rests again."""
    sleepy.mind.decides = lambda at: 'TOOL: reply(text="good night")' if at.message else "DO_NOTHING: resting"

    async def test(running: Running) -> int:
        await asyncio.sleep(3 * HOUR)
        before = len(sleepy.mind.asked)
        await running.ask("say", {"text": "hello"})
        await asyncio.sleep(5 * HOUR)
        return before

    assert (night(test), len(sleepy.mind.asked)) == (2, 6)


def test_a_changed_file_wakes_it_within_seconds(night: Night, sleepy: Life) -> None:
    """Whoever changed it; what the agent itself wrote before it slept does not."""
    (sleepy.workspace / "mine.md").write_text("written in its last act")

    async def test(running: Running) -> float:
        await asyncio.sleep(100)
        began = now()
        (sleepy.workspace / "theirs.md").write_text("new")
        return await awake(running) - began

    assert night(test) <= 2.0
    assert sleepy.facts(AgentWoke)[0].why == "changed in the workspace: theirs.md"
    assert woken(sleepy)[0] == "file"


def test_a_program_that_writes_for_ever_does_not_keep_it_awake(night: Night, sleepy: Life) -> None:
    """Such as one that the agent started: after a few wakes an hour, changes are seen at the end of a sleep alone, and
    the sleeps grow."""
    log = sleepy.workspace / "program.log"

    async def test(_: Running) -> None:
        async def write() -> None:
            while True:
                await asyncio.sleep(5)
                log.write_text(f"{now()}")

        writing = asyncio.create_task(write())
        await asyncio.sleep(6 * HOUR)
        writing.cancel()

    night(test)

    assert len(sleepy.facts(ThoughtFormed)) <= 6 * (STIRS + 1) + 12
    assert set(woken(sleepy)) == {"file", "stop"}
    assert max(slept(sleepy)) == HOUR


def test_a_sensor_wakes_it_when_its_value_is_another_one(night: Night, sleepy: Life) -> None:
    """The same value again is no news."""

    async def test(running: Running) -> None:
        for value in (20.0, 20.0, 21.0):
            await asyncio.sleep(300)
            await running.put(reading(value))
        await asyncio.sleep(2)

    night(test)

    assert woken(sleepy)[:2] == ["sensor", "sensor"]
    assert woken(sleepy)[2:] == ["stop"]


def reading(value: float) -> SenseMeasured:
    number = next(_numbers)
    return SenseMeasured(
        id=f"reading-{number}", source=source_of("echo", AGENTUID), agent="echo", sense="kitchen", value=value,
        unit="C", received=BEGAN, topic="kitchen",
    )  # fmt: skip


_numbers = itertools.count()


def test_a_deadline_wakes_it_and_ends_the_goal(night: Night, sleepy: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next cycle drops the goal."""
    deadline = BEGAN + timedelta(seconds=500)
    sleepy.configured(goals=[goal(deadline=deadline)], cycle={"sleep": {"first": 10.0, "after": 1}})
    monkeypatch.setattr("conch.cycle.agent.is_over", lambda goal, _: goal.deadline <= asyncio.get_running_loop().wall())

    async def test(running: Running) -> float:
        await asleep(running)
        await awake(running)
        return now()

    assert 500 <= night(test) <= 503
    assert woken(sleepy)[0] == "deadline"
    assert [fact.goal for fact in sleepy.facts(GoalDropped)] == ["g"]


def test_a_deadline_without_a_time_zone_is_in_utc(night: Night, sleepy: Life) -> None:
    """It ends no run."""
    deadline = datetime(2999, 1, 1)  # noqa: DTZ001 - as a configuration file may have it
    sleepy.configured(goals=[goal(deadline=deadline)], cycle={"sleep": {"first": 10.0, "after": 1}})

    night(asleep)

    assert slept(sleepy) == [10.0]


def test_a_file_that_changes_while_the_mind_decides_wakes_it(night: Night, sleepy: Life) -> None:
    """The mind has not seen it."""

    def decides(_: Situation) -> str:
        (sleepy.workspace / "theirs.md").write_text("new")
        sleepy.mind.decides = lambda _: "DO_NOTHING: resting"
        return "DO_NOTHING: resting"

    sleepy.mind.decides = decides
    night(lambda running: asyncio.sleep(100))

    assert sleepy.facts(AgentWoke)[0].why == "changed in the workspace: theirs.md"
    assert woken(sleepy) == ["file", "stop"]


def test_an_agent_that_gets_nowhere_sleeps_whatever_it_chooses(night: Night, sleepy: Life) -> None:
    """After five times as many acts without an effect as put one to sleep that rests; a message that it did not answer
    does not change that."""
    sleepy.configured(goals=[goal()], cycle={"sleep": {"first": 10.0, "after": 2}})
    sleepy.mind.decides = lambda _: 'TOOL: filesystem(operation="read", path="nothing")'

    async def test(running: Running) -> None:
        await running.ask("say", {"text": "hello"})
        await asyncio.sleep(HOUR)

    night(test)

    assert len(sleepy.facts(ThoughtFormed)) == 10
    assert sleepy.facts(AgentSlept)[0].why == "10 acts in a row had no effect"


def test_the_end_of_a_pause_wakes_it(night: Night, sleepy: Life) -> None:
    """Paused asleep it is paused, whatever comes; let go on it looks."""

    async def test(running: Running) -> None:
        await asleep(running)
        await running.ask("pause")
        await running.ask("say", {"text": "hello"})
        await asyncio.sleep(100)
        assert running.one.control.state == "paused"
        assert len(sleepy.mind.asked) == 2
        await running.ask("resume")
        await asyncio.sleep(3)

    night(test)

    assert woken(sleepy)[0] == "resume"
    assert len(sleepy.mind.asked) >= 4


def test_its_status_says_that_it_sleeps_and_until_when(night: Night, sleepy: Life) -> None:
    """And what wakes it."""

    async def test(running: Running) -> dict[str, Any]:
        await asyncio.sleep(5)
        return await running.ask("status")

    status = night(test)

    assert status["state"] == "asleep"
    assert 10 <= (datetime.fromisoformat(status["until"]) - BEGAN).total_seconds() <= 12
    assert status["why"].startswith("until 2026-03-01 22:00:1")
    assert status["why"].endswith(" UTC: no goal is open; a message, a goal or a changed file wakes it")


async def test_a_run_of_a_set_number_of_cycles_does_not_sleep(sleepy: Life) -> None:
    """It does its cycles, and ends."""
    sleepy.configured(cycle={"interval": 0})
    await sleepy.run(5)

    assert len(sleepy.facts(CycleReflected)) == 5
    assert slept(sleepy) == []


def test_a_script_does_not_sleep(night: Night, sleepy: Life) -> None:
    """Its lines are acts that somebody wants."""
    sleepy.mind.kind = "scripted"

    night(lambda running: asyncio.sleep(20))

    assert len(sleepy.facts(CycleReflected)) > 10
    assert slept(sleepy) == []


def test_a_clock_that_is_set_while_it_sleeps_changes_no_duration(night: Night, sleepy: Life) -> None:
    """Forwards or back: the sleep ends, as its end would be wrong, and the agent sleeps on without a question."""

    async def test(running: Running) -> None:
        await asyncio.sleep(200)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        for offset in (timedelta(hours=5), timedelta(hours=-5)):
            loop.wall_offset = offset
            await asyncio.sleep(2)
            [*_, last] = sleepy.facts(AgentSlept)
            assert abs(last.until - loop.wall() - timedelta(seconds=last.seconds)) < timedelta(seconds=3)
        await asyncio.sleep(2 * HOUR)

    night(test)

    assert len(sleepy.mind.asked) == 2
    assert woken(sleepy) == ["stop"]
    assert 7200 <= sleepy.facts(AgentWoke)[0].seconds <= 7500


def test_a_check_that_flips_does_not_wake_it(night: Night, sleepy: Life) -> None:
    """Asleep no check is run: only what changed in the workspace is."""
    sleepy.configured(
        goals=[goal(check={"kind": "command", "command": "test $(( $(date +%N) % 2 )) = 0"})],
        cycle={"sleep": {"first": 10.0, "after": 2}},
    )

    async def test(running: Running) -> int:
        await asleep(running)
        before = len(sleepy.mind.asked)
        await asyncio.sleep(6 * HOUR)
        return len(sleepy.mind.asked) - before

    sleepy.mind.decides = lambda _: "DO_NOTHING: it flips"
    assert night(test) == 0


class Parcels:
    """A goal a piece, which a file of the agent's reaches."""

    mark = ("README.md", "# Parcels")

    def piece(self, seed: int, number: int) -> MaterialPiece:
        made = Goal(id=f"p{number}", statement=f"Answer {number}.", check=FileCheck(path=f"answer-{number}"))
        return MaterialPiece("parcel", made, ((f"parcel-{number}", f"{seed}\n"),))


def test_material_comes_while_it_sleeps(night: Night, sleepy: Life) -> None:
    """As if it had had its cycles; what comes wakes it, and is no change from outside."""
    sleepy.script = Parcels()

    async def test(running: Running) -> None:
        await asleep(running)
        while not sleepy.facts(GoalSet):
            await asyncio.sleep(1)

    night(test)

    [piece] = sleepy.facts(GoalSet)
    assert (piece.by, piece.piece) == ("home", 0)
    assert woken(sleepy)[0] == "goal"
    assert (sleepy.workspace / "parcel-0").exists()
    assert slept(sleepy)[0] == 10.0


@pytest.mark.parametrize("stored", [False, True], ids=["not stored", "stored, not acknowledged"])
@pytest.mark.parametrize("at", range(14))
def test_a_kill_asleep_or_at_a_wake_doubles_and_loses_nothing(
    sleepy: Life, at: int, stored: bool, crashing_bus: type[CrashingBus], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each publish of falling asleep, sleeping on, waking and the cycles around it: each sleep and each wake is
    there once, and no cycle is missing."""

    async def killed() -> None:
        bus = crashing_bus(sleepy.journal, at, stored=stored)
        async with bus, shared_subscription(bus) as shared_events:
            one = sleepy.hosted(shared_events, None)
            task = asyncio.create_task(AgentHost(shared_events, [one]).run(), name="life")
            await asyncio.sleep(45)
            with contextlib.suppress(BaseException):
                await bus.request("conch.ctl.echo.say", json.dumps({"text": "hello"}).encode(), timeout=5)
            await asyncio.sleep(45)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def again() -> None:
        async with living(sleepy) as running:
            await asyncio.sleep(100)
            assert running.one.control.state == "asleep"

    with contextlib.suppress(crashing_bus.death):
        run_virtually(monkeypatch, killed())
    sleepy.journal.ids.clear()
    run_virtually(monkeypatch, again())

    events = sleepy.facts()
    assert len({event.id for event in events}) == len(events)
    assert [fact.number for fact in sleepy.facts(AgentSlept)] == list(range(len(slept(sleepy))))
    numbers = [fact.number for fact in sleepy.facts(AgentWoke)]
    assert numbers == sorted(set(numbers))
    cycles = [fact.cycle for fact in sleepy.facts(CycleReflected)]
    assert cycles == list(range(len(cycles)))


def test_a_night_of_a_model_costs_two_questions(night: Night, sleepy: Life) -> None:
    """Ten hours with nothing to do, of a model of 1,400 tokens a question: 2 questions, 2,800 tokens."""
    sleepy.mind.usage = Usage(input_tokens=1380, output_tokens=20)

    night(lambda running: asyncio.sleep(10 * HOUR))

    usages = [fact.usage for fact in sleepy.facts(ThoughtFormed, ActionDecided)]
    tokens = sum(usage.input_tokens + usage.output_tokens for usage in usages)
    assert (len(sleepy.mind.asked), tokens) == (2, 2800)
    assert len(slept(sleepy)) < 9 + 10
