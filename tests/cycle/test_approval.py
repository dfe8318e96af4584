"""Acts that wait for a person's approval: asked for, decided on, and kept through a crash."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import MemoryBus, shared_subscription
from conch.cycle.approvals import wait
from conch.cycle.approvals.answer import short_id, waiting_act
from conch.cycle.hosting.host import AgentHost
from conch.tools import tool
from conch_schemas import (
    ActApproved,
    ActAsked,
    ActDenied,
    ActionDecided,
    ActionTaken,
    MessageSent,
    ThoughtFormed,
    consequence_id,
    encode,
    subject_of,
)

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.cycle.conftest import Life, Running, Start

ASKS = [{"tool": "launch", "do": "ask", "because": "It cannot be called back."}]
WHY = "tools.policy (rule 1) asks for an approval of launch: It cannot be called back."
LONG = 10_000.0
"""Seconds that no test lasts."""


@pytest.fixture
def launched(life: Life) -> Counter[str]:
    """What was launched; each launch needs an approval."""
    counted = Counter[str]()

    @tool
    async def launch(what: str) -> str:
        """Launches something."""
        counted[what] += 1
        return "gone"

    life.add(launch)
    life.configured(tools={"policy": ASKS, "approval_timeout": LONG})
    life.mind.decides = lambda situation: f'TOOL: launch(what="kite {situation.cycle}")'
    return counted


async def asked(running: Running, until: Until) -> str:
    """The id of the act that waits, once it does."""
    await until(lambda: running.agent.control.state == "approval")
    act = waiting_act(running.agent.memory)
    assert act is not None
    return short_id(act)


async def test_an_act_waits_until_a_person_approves_it(
    life: Life, start: Start, until: Until, launched: Counter[str]
) -> None:
    """Nothing runs before; the status, the state and the fact say what waits and until when; then it is done once."""
    running = await start(1)
    act = await asked(running, until)
    status = await running.ask("status")
    await running.idle()

    assert launched == {}
    assert life.facts(ActionDecided) == []
    [fact] = life.facts(ActAsked)
    assert (fact.why, fact.action.skill, fact.until - fact.time > timedelta(seconds=LONG - 60)) == (WHY, "launch", True)
    assert (status["state"], status["approval"]["id"], status["approval"]["why"]) == ("approval", act, WHY)
    assert status["phase"] == "act"
    assert f"conch approve {act}" in status["why"]

    assert (await running.ask("approve", {"act": act, "why": "a good kite"}))["decision"] == "approved"
    await running.task
    [approved] = life.facts(ActApproved)
    assert (approved.why, approved.by, approved.action_id, approved.causation_id) == (
        "a good kite", "user", fact.action_id, fact.id
    )  # fmt: skip
    assert launched == {"kite 0": 1}
    assert [one.guard for one in life.facts(ActionDecided)] == [None]
    assert [state for state, _ in life.said] == ["running", "approval", "running"]


async def test_a_denied_act_is_blocked_with_the_reason(
    life: Life, start: Start, until: Until, launched: Counter[str]
) -> None:
    """It is not done; intent and outcome say that a person denied it, and why."""
    running = await start(1)
    await running.ask("approve", {"act": await asked(running, until), "deny": True, "why": "not today"})
    await running.task

    assert launched == {}
    assert len(life.facts(ActDenied)) == 1
    [taken] = life.facts(ActionTaken)
    assert (taken.outcome.status, taken.outcome.error) == ("blocked", "a person denied it: not today")


async def test_an_act_without_a_decision_is_denied_after_its_time(life: Life, launched: Counter[str]) -> None:
    """The agent denies it itself and goes on; no person is named."""
    life.configured(tools={"approval_timeout": 0.01})
    await life.run(1)

    assert launched == {}
    [denied] = life.facts(ActDenied)
    assert denied.by == "timeout"
    assert [fact.outcome.error for fact in life.facts(ActionTaken)] == ["no person approved it within 0 s"]


async def test_a_policy_denies_without_asking(life: Life, launched: Counter[str]) -> None:
    """The intent holds the rule's sentence, nothing runs, and nobody is asked."""
    life.configured(tools={"policy": [{"tool": "la*", "do": "deny", "because": "No launches."}]})
    await life.run(1)

    sentence = "tools.policy (rule 1) denies launch: No launches."
    assert launched == {}
    assert [fact.guard for fact in life.facts(ActionDecided)] == [sentence]
    assert [fact.outcome.status for fact in life.facts(ActionTaken)] == ["blocked"]
    assert life.facts(ActAsked) == []


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("stored", [True, False])
async def test_a_crash_changes_neither_the_act_nor_its_approval(
    life: Life, start: Start, until: Until, launched: Counter[str], at: int, stored: bool
) -> None:
    """Killed at any publish before the intent: the act is asked for once, and done once after its approval."""
    await life.crash(1, at, stored=stored) if at < 4 else await stopped(life)
    running = await start(1)
    act = await asked(running, until)
    if at == 5:  # a process beside it takes the decision to the stream
        [fact] = life.facts(ActAsked)
        await running.put(answered(fact, ActApproved))
    else:
        await running.ask("approve", {"act": act})
    await running.task

    assert launched == {"kite 0": 1}
    assert (len(life.facts(ActAsked)), len(life.facts(ActApproved)), len(life.facts(ActionDecided))) == (1, 1, 1)
    # A mind that costs nothing decides while the thought's check, the third event, is stored.
    assert life.mind.purposes().count("decide") == (2 if at == 2 or (at == 3 and not stored) else 1)


async def stopped(life: Life) -> None:
    """A process that was told to stop while its act waited."""
    life.said.clear()
    async with MemoryBus(life.journal) as bus, shared_subscription(bus) as shared_events:
        one = life.hosted(shared_events, 1)
        hosting = asyncio.create_task(AgentHost(shared_events, [one]).run(), name="stopped")
        while one.control.state != "approval" and not hosting.done():
            await asyncio.sleep(0)
        one.control.stop()
        await hosting


def answered(fact: ActAsked, kind: type[Any]) -> Any:
    """A person's decision as a process beside the agent publishes it."""
    return kind(
        id=consequence_id(fact.id, "people", "1", kind),
        source=fact.source,
        agent=fact.agent,
        cycle=fact.cycle,
        action_id=fact.action_id,
        causation_id=fact.id,
    )


async def test_a_decision_that_came_while_the_agent_was_gone_counts(
    life: Life, start: Start, launched: Counter[str]
) -> None:
    """The next run acts on it at once, and asks nobody again."""
    await stopped(life)
    [fact] = life.facts(ActAsked)
    async with MemoryBus(life.journal) as bus:
        event = answered(fact, ActApproved)
        await bus.publish(subject_of(event), encode(event), id=event.id)
    await life.run(1)

    assert launched == {"kite 0": 1}
    assert len(life.facts(ActAsked)) == len(life.facts(ThoughtFormed)) == 1


async def test_the_first_of_two_decisions_counts_and_the_second_is_told_so(
    life: Life, start: Start, until: Until, launched: Counter[str]
) -> None:
    """Whether the act still waits or is long done; a denial on the stream behind an approval changes nothing."""
    running = await start(2)
    act = await asked(running, until)
    await running.ask("approve", {"act": act})
    second = await running.ask("approve", {"act": act, "deny": True})
    [fact] = life.facts(ActAsked)
    await running.put(answered(fact, ActDenied))
    await until(lambda: waiting_act(running.agent.memory) is not None)

    assert second["error"].startswith(f"the act {act} was approved at ")
    assert second["error"].endswith("by a person: the first decision counts")
    assert (await running.ask("approve", {"act": act}))["error"] == second["error"]
    assert launched == {"kite 0": 1}


async def test_an_approval_after_the_time_is_refused(
    life: Life, start: Start, until: Until, launched: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one sentence, before the agent has denied the act and after; one on the stream does not count either."""
    monkeypatch.setattr(wait.time, "time", lambda: 0.0)  # the agent's wait does not see that the time is over
    life.configured(tools={"approval_timeout": 0.001})
    running = await start(1)
    act = await asked(running, until)
    [fact] = life.facts(ActAsked)
    await until(lambda: datetime.now(UTC) > fact.until)
    early = await running.ask("approve", {"act": act})
    await running.put(answered(fact, ActApproved))
    await running.idle()
    assert f"the act {act} waited for an approval until" in early["error"]
    assert running.agent.memory.answer is None

    monkeypatch.undo()
    running.agent.control.look_again()
    await running.task
    assert launched == {}
    assert [denied.by for denied in life.facts(ActDenied)] == ["timeout"]


async def test_what_nobody_asked_for_cannot_be_approved(
    life: Life, start: Start, until: Until, launched: Counter[str]
) -> None:
    """Another id, the beginning of one, and a request of another form are refused with what to do."""
    running = await start(1)
    act = await asked(running, until)

    assert "no act 'ffffffff' of echo waits" in (await running.ask("approve", {"act": "ffffffff"}))["error"]
    assert "waits for an approval" in (await running.ask("approve", {"act": act[:3]}))["error"]
    assert 'has "act"' in (await running.ask("approve", {"act": 3}))["error"]
    assert 'has "act"' in (await running.ask("approve", {"act": act, "deny": "yes"}))["error"]
    assert life.facts(ActApproved, ActDenied) == []


async def test_a_paused_agent_does_not_act_on_an_approval(
    life: Life, start: Start, until: Until, launched: Counter[str]
) -> None:
    """The decision is taken; the act comes after the resume. Meanwhile the agent says that it is paused."""
    running = await start(1)
    act = await asked(running, until)
    await running.ask("pause")
    assert running.agent.control.state == "paused"
    await running.ask("approve", {"act": act})
    await running.idle()
    assert launched == {}

    await running.ask("resume")
    await running.task
    assert launched == {"kite 0": 1}


async def test_a_stop_ends_the_wait_at_once(life: Life, start: Start, until: Until, launched: Counter[str]) -> None:
    """Nothing is decided by it: the next run waits on the same act, until the same time."""
    running = await start(1)
    act = await asked(running, until)
    await running.ask("stop")
    await running.task
    assert life.facts(ActDenied, ActionDecided) == []

    again = await start(1)
    assert await asked(again, until) == act
    assert len(life.facts(ActAsked)) == 1


async def test_a_lower_budget_does_not_hide_the_act_that_waits(
    life: Life, start: Start, until: Until, launched: Counter[str]
) -> None:
    """The next run waits for the person first. The approved act waits for room, and is done once there is some."""
    life.configured(budget={"acts_per_hour": 5})
    running = await start(2)
    await running.ask("approve", {"act": await asked(running, until)})
    await until(lambda: len(life.facts(ActAsked)) == 2)
    await running.ask("stop")
    await running.task
    life.configured(budget={"acts_per_hour": 1})

    again = await start(2)
    act = await asked(again, until)
    await again.ask("approve", {"act": act})
    await until(lambda: again.agent.control.state == "budget")
    before = dict(launched)
    await again.ask("resume", {"budget": {"acts_per_hour": 2}})
    await again.task

    assert before == {"kite 0": 1}
    assert launched == {"kite 0": 1, "kite 1": 1}
    assert len(life.facts(ActAsked)) == 2


async def test_a_reply_that_waited_answers_the_message_it_was_meant_for(life: Life, start: Start, until: Until) -> None:
    """A message that came during the wait is not answered by it, also after a restart."""
    life.configured(tools={"policy": [{"tool": "reply", "do": "ask"}], "approval_timeout": LONG})
    life.mind.decides = lambda situation: f'TOOL: reply(text="to {situation.message}")'
    running = await start(1)
    act = await asked(running, until)  # there was no message
    await running.ask("say", {"text": "later"})
    await running.ask("stop")
    await running.task
    again = await start(1)
    await until(lambda: again.agent.control.state == "approval")
    await again.ask("approve", {"act": act})
    await again.task

    assert life.facts(MessageSent) == []
    assert [fact.outcome.status for fact in life.facts(ActionTaken)] == ["error"]
