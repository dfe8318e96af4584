"""What an agent waits for: its mind, tokens, a person's leave, the next cycle."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import MemoryBus
from conch.cycle import model_retry
from conch.cycle.control import Control
from conch.cycle.model_retry import ModelRetry
from conch.cycle.state.memory import HOUR
from conch.errors import ModelError
from conch.minds import Completion, Prompt, ScriptEnded
from conch_schemas import ActionTaken, AgentPaused, AgentResumed, CycleReflected, ThoughtFormed, Usage

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.cycle.conftest import Life, Start


async def test_a_mind_that_fails_is_asked_again_and_costs_no_cycle(life: Life) -> None:
    """Failures are no replies: the cycle goes on with the first answer, and the state says so meanwhile."""
    life.mind.failures = [ModelError(f"busy {n}", retry_after=0.001) for n in range(3)]
    await life.run(1)

    assert [fact.cycle for fact in life.facts(ActionTaken)] == [0]
    assert [state for state, _ in life.said] == ["running", "mind", "mind", "mind", "running"]
    assert life.said[1] == ("mind", "busy 0; trying again in 0 s")


async def test_the_status_tells_for_how_long_the_mind_is_waited_for(
    life: Life, start: Start, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seconds of now, not those of the first report; once the mind has replied, none."""
    monkeypatch.setattr(model_retry, "SILENT_SECONDS", 0.01)
    released, complete = asyncio.Event(), life.mind.complete

    async def slow(prompt: Prompt) -> Completion:
        await released.wait()
        return await complete(prompt)

    monkeypatch.setattr(life.mind, "complete", slow)
    running = await start()
    await until(lambda: running.agent.status()["state"] == "mind")
    began = model_retry.monotonic()
    monkeypatch.setattr(model_retry, "monotonic", lambda: began + 42.0)

    assert running.agent.status()["why"] == "no reply for 42 s so far, it is waited for"
    monkeypatch.undo()
    released.set()
    await until(lambda: running.agent.status()["state"] == "running")
    assert running.agent.status()["why"] == ""


async def test_a_fatal_failure_before_the_mind_ever_spoke_ends_the_run(life: Life) -> None:
    """A wrong key or model is for a person to mend: the sentence comes out as itself."""
    life.mind.failures = [ModelError("no such model", fatal=True)]

    with pytest.raises(ModelError, match="no such model"):
        await life.run(1)
    assert life.facts(ThoughtFormed) == []


async def test_a_fatal_failure_of_a_mind_that_spoke_is_waited_for(life: Life) -> None:
    """A mind that once worked may do so again: a run of days does not end for it."""
    life.mind.thinks = lambda _: life.mind.failures.append(ModelError("odd", fatal=True, retry_after=0.001)) or "Hm."
    await life.run(1)

    assert len(life.facts(ActionTaken)) == 1


async def test_a_run_of_set_length_does_not_wait_for_a_mind_that_never_spoke(life: Life) -> None:
    """`--cycles` with no model at the address ends with the reason, at once."""
    life.batch = True
    life.mind.failures = [ModelError("nobody there", unreachable=True)]

    with pytest.raises(ModelError, match="nobody there"):
        await life.run(1)


async def test_a_run_of_set_length_waits_a_while_for_a_mind_that_fails(life: Life) -> None:
    """A reply that was cut off may be whole the next time; after GIVE_UP_SECONDS without any the run ends."""
    life.batch = True
    life.mind.failures = [ModelError("cut", retry_after=0.001), ModelError("cut", retry_after=0.001)]
    await life.run(1)
    assert len(life.facts(ActionTaken)) == 1


async def test_a_run_of_set_length_gives_a_failing_mind_up(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing whole for GIVE_UP_SECONDS, and never before: the run ends with the reason."""
    monkeypatch.setattr(model_retry, "GIVE_UP_SECONDS", 0.0)
    life.batch = True
    life.mind.failures = [ModelError("cut", retry_after=0.001)] * 3

    with pytest.raises(ModelError, match="cut"):
        await life.run(1)


@pytest.mark.parametrize("spoke", [False, True])
async def test_a_run_of_set_length_gives_up_a_mind_that_cannot_be_read(life: Life, spoke: bool) -> None:
    """Five unread replies to one question, also behind a thought that was read: the run ends with the reason."""
    life.batch = True
    unread = [ModelError(f"unread {n}", unread=True, retry_after=0.001) for n in range(1, 9)]
    life.mind.thinks = lambda _: life.mind.failures.extend(unread) or "Hm."
    life.mind.failures = [] if spoke else list(unread)

    with pytest.raises(ModelError, match="unread 5") as raised:
        await life.run(1)

    assert raised.value.exit_code == 3
    assert len(life.facts(ThoughtFormed)) == spoke
    assert life.facts(ActionTaken) == []


async def test_replies_that_cannot_be_read_are_waited_for_where_they_may_end(life: Life) -> None:
    """A run without a set length; an overloaded endpoint (a status) or one that is away, of a mind that spoke."""

    def failing(count: int = 9, **kind: Any) -> list[ModelError]:
        return [ModelError("odd", retry_after=0.001, **kind) for _ in range(count)]

    ways = (
        (False, failing(unread=True)),
        (True, failing(unread=True, status=529)),
        (True, failing(unreachable=True)),
        (True, failing(4, unread=True) + failing(1, unreachable=True) + failing(4, unread=True)),
    )
    for cycles, (batch, failures) in enumerate(ways, 1):
        life.batch = batch
        life.mind.thinks = lambda _, failures=failures: life.mind.failures.extend(failures) or "Hm."
        await life.run(cycles)
        assert len(life.facts(ActionTaken)) == cycles


async def test_a_mind_that_takes_its_time_is_said_to_be_waited_for(
    life: Life, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question that hangs is said within seconds, in a reflection too; the reply ends that."""
    monkeypatch.setattr(model_retry, "SILENT_SECONDS", 0.01)
    life.configured(cycle={"reflect_every": 1})
    usual = life.mind.complete

    async def slow(prompt: Any) -> Any:
        if prompt.purpose != "decide":
            before = len(life.said)
            await until(lambda: len(life.said) > before)
        return await usual(prompt)

    life.mind.complete = slow
    await life.run(1)

    assert [state for state, _ in life.said] == ["running", "mind", "running", "mind", "running"]
    assert life.said[1] == ("mind", "no reply for 0 s so far, it is waited for")


async def test_a_slow_mind_is_not_said_to_be_waited_for_each_time(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply may take twice as long as the slowest before it, without a word."""
    control, said = Control(lambda state, _: said.append(state)), []
    waiting = ModelRetry(control, None)
    monkeypatch.setattr(model_retry, "SILENT_SECONDS", 0.05)

    for seconds in (0.2, 0.2, 0.2):
        await waiting.once(asyncio.sleep(seconds))

    assert said == ["mind", "running"]


@pytest.mark.parametrize(("asked_for", "seconds"), [(None, 30.0), (40.0, 40.0)])
async def test_a_run_of_set_length_ends_no_later_for_its_back_off(
    monkeypatch: pytest.MonkeyPatch, asked_for: float | None, seconds: float
) -> None:
    """The last wait for a mind that never spoke is as short as the time that is left, unless the endpoint asked."""
    control, now = Control(lambda *_: None, batch=True), 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    async def ask() -> str:
        raise ModelError("cut", retry_after=asked_for)

    monkeypatch.setattr(control, "sleep", sleep)
    monkeypatch.setattr(model_retry, "monotonic", lambda: now)
    with pytest.raises(ModelError, match="cut"):
        await ModelRetry(control, None).answer(ask)

    assert now == pytest.approx(seconds)


async def test_stop_ends_the_wait_for_a_mind_at_once(life: Life, start: Start, until: Until) -> None:
    """Told to stop while the mind is down for an hour, the run ends; the next one finishes the cycle."""
    life.mind.thinks = lambda _: life.mind.failures.append(ModelError("down", retry_after=3600)) or "Later."
    running = await start()
    await until(lambda: running.agent.control.state == "mind")
    began = time.monotonic()
    assert (await running.ask("stop"))["ok"]
    await running.task
    assert time.monotonic() - began < 1

    life.mind.failures.clear()
    await life.run(0)
    assert [fact.cycle for fact in life.facts(ActionTaken)] == [0]


async def test_stop_ends_a_question_under_way(life: Life, start: Start, until: Until) -> None:
    """A mind that takes minutes to answer holds up no end."""
    asked, cancelled = asyncio.Event(), list[bool]()

    async def never(_: Any) -> Any:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)

    life.mind.complete = never
    running = await start()
    await asked.wait()
    await running.ask("stop")
    await running.task

    assert cancelled == [True]


async def test_stop_while_it_reflects_ends_the_cycle_without_a_reflection(
    life: Life, start: Start, until: Until
) -> None:
    """The act is done, so the cycle is finished in order."""
    life.configured(cycle={"reflect_every": 1})
    usual, reflecting = life.mind.complete, asyncio.Event()

    async def slow(prompt: Any) -> Any:
        if prompt.purpose == "reflect":
            reflecting.set()
            await asyncio.Event().wait()
        return await usual(prompt)

    life.mind.complete = slow
    running = await start()
    await reflecting.wait()
    await running.ask("stop")
    await running.task

    assert [fact.reflection for fact in life.facts(CycleReflected)] == [""]


async def test_a_reflection_that_fails_is_left_out(life: Life) -> None:
    """A mind that cannot reflect does not hold up the agent."""
    life.configured(cycle={"reflect_every": 1})
    life.mind.decides = lambda _: life.mind.failures.append(ModelError("busy")) or "DO_NOTHING: resting"
    await life.run(1)

    assert [fact.reflection for fact in life.facts(CycleReflected)] == [""]
    assert life.said == [("running", "")]


async def test_stop_ends_the_sleep_between_cycles(life: Life, start: Start, until: Until) -> None:
    """Neither a stop during the sleep nor one during the cycle before it waits for the interval."""
    life.configured(cycle={"interval": 3600.0})
    running = await start()
    await until(lambda: life.facts(CycleReflected))
    await running.ask("stop")
    await running.task

    running = await start()
    life.mind.decides = lambda _: "REFLECT: the end"
    usual = running.agent.hear

    def stop_late(delivery: Any) -> None:
        usual(delivery)
        if b"action.taken" in delivery.data and b"the end" in delivery.data:
            running.agent.control.stop()

    running.agent.hear = stop_late
    async with asyncio.timeout(30):
        await running.task


async def test_resume_does_not_hasten_the_next_cycle(life: Life, start: Start, until: Until) -> None:
    """Pause and resume during the sleep leave the rhythm as it is."""
    life.configured(cycle={"interval": 3600.0})
    running = await start()
    await until(lambda: life.facts(CycleReflected))
    await running.ask("pause")
    await running.ask("resume")
    await running.idle()

    assert len(life.facts(ThoughtFormed)) == 1


async def test_a_pause_and_its_end_are_facts(life: Life, start: Start) -> None:
    """Each is published once: a request that changes nothing publishes nothing."""
    running = await start()
    for verb in ("resume", "pause", "pause", "resume", "resume"):
        await running.ask(verb)

    assert (len(life.facts(AgentPaused)), len(life.facts(AgentResumed))) == (1, 1)


async def test_a_paused_agent_begins_no_cycle_until_it_is_resumed(life: Life, start: Start, until: Until) -> None:
    """Pause holds before the next cycle; resume goes on with the next number."""
    running = await start()
    await until(lambda: len(running.cycles()) > 2)
    await running.ask("pause")

    async def settled() -> bool:  # the cycle that was under way when the pause came is over
        before = len(life.facts(ThoughtFormed))
        await running.idle()
        return running.agent.memory.thought is None and len(life.facts(ThoughtFormed)) == before

    await until(settled)
    count, status = len(life.facts(ThoughtFormed)), await running.ask("status")
    await running.idle()
    assert (status["state"], len(life.facts(ThoughtFormed))) == ("paused", count)

    await running.ask("resume")
    await until(lambda: len(life.facts(ThoughtFormed)) > count)
    assert life.said[-1] == ("running", "")


async def test_stop_ends_a_paused_agent(life: Life, start: Start) -> None:
    """Nobody has to resume an agent to end it."""
    running = await start()
    await running.ask("pause")
    await running.ask("stop")
    await running.task


async def test_the_hours_tokens_pause_the_agent_until_a_time_that_is_said(
    life: Life, start: Start, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Used up, the agent waits and says until when; an hour later it goes on."""
    now = time.time()
    monkeypatch.setattr(model_retry.time, "time", lambda: now)
    life.configured(mind={"max_tokens_per_hour": 100})
    life.mind.usage = Usage(input_tokens=30, output_tokens=30)
    running = await start()
    await until(lambda: running.agent.control.state == "budget")
    status = await running.ask("status")
    assert len(life.facts(ActionTaken)) == 1
    said = "120 of 100 tokens in the last hour (mind.max_tokens_per_hour), 10 kept for people's messages: paused until "
    assert status["why"].startswith(said)
    assert status["tokens_in_hour"] == 120

    now += HOUR + 60
    await running.ask("resume")  # wakes it, as time would
    await until(lambda: len(life.facts(ActionTaken)) >= 2)


async def test_a_restart_does_not_forget_what_was_spent(life: Life, start: Start, until: Until) -> None:
    """The hour's tokens are on the stream: a crash gives no new budget."""
    life.configured(mind={"max_tokens_per_hour": 100})
    life.mind.usage = Usage(output_tokens=60)
    await life.run(1)
    asked = len(life.mind.asked)
    running = await start()
    await until(lambda: running.agent.control.state == "budget")

    assert len(life.mind.asked) == asked


async def test_the_tokens_of_a_reflection_count(life: Life) -> None:
    """Everything that the mind used is in the hour's figure."""
    life.configured(cycle={"reflect_every": 1})
    life.mind.usage = Usage(output_tokens=7)
    agent = await life.run(1)

    assert agent.memory.tokens_in_hour(time.time()) == 21


async def test_the_end_of_a_script_is_the_end_of_the_run(life: Life) -> None:
    """ScriptEnded is no error; the memory is written down."""
    life.mind.failures = []
    life.mind.thinks = lambda situation: "On." if situation.cycle < 2 else (_ for _ in ()).throw(ScriptEnded())
    agent = await life.run(None)

    assert agent.memory.next_cycle == 2
    assert "agent/echo" in life.journal.bucket


async def test_a_bus_that_is_gone_is_said_until_it_is_back(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state names the bus while a fact waits for it, and runs again once it is stored."""
    gone = [True]
    monkeypatch.setattr(MemoryBus, "connected", property(lambda _: not (gone and gone.pop())))
    await life.run(1)

    assert [state for state, _ in life.said] == ["running", "bus", "running"]


async def test_waiting_grows_to_a_minute_and_never_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """2, 4, 8 … seconds with jitter, at most 60, also after days; what the endpoint asks for comes first."""
    control, waits = Control(lambda *_: None), []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(control, "sleep", sleep)
    failures = [ModelError("x") for _ in range(1500)] + [
        ModelError("x", retry_after=90),
        ModelError("x", retry_after=1e9),
    ]

    async def ask() -> str:
        if failures:
            raise failures.pop(0)
        return "spoke"

    assert await ModelRetry(control, None).answer(ask) == "spoke"
    assert 1.5 <= waits[0] <= 2
    assert 3 <= waits[1] <= 4
    assert 45 <= max(waits[10:1500]) <= 60
    assert waits[1500:] == [90, HOUR]


def test_the_state_is_the_trouble_that_still_holds() -> None:
    """A trouble that is over uncovers the one before it, and a pause; nothing is reported twice."""
    said: list[str] = []
    control = Control(lambda state, _: said.append(state))
    control.running()
    control.pause()
    control.trouble("mind", "silent")
    control.trouble("bus", "gone")
    control.trouble("bus", "gone")
    control.over("bus")
    control.over("bus")
    control.over("mind")
    control.resume()
    control.stop()
    control.stop()
    control.resume()

    assert said == ["running", "paused", "mind", "bus", "mind", "paused", "running", "stopping"]
