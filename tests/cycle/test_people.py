"""What people ask of a running agent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from conch.bus import MemoryBus
from conch.cycle.inbox import MOST_GOALS
from conch.cycle.state.memory import MOST_WAITING, AgentMemory
from conch.errors import UsageError
from conch.text import cut
from conch_schemas import ActionTaken, FileCheck, Goal, GoalDropped, GoalSet, MessageReceived, MessageSent, source_of

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.cycle.conftest import Life, Start


GOAL = {"statement": "There is x.", "check": {"kind": "file", "path": "x"}}


async def test_a_message_waits_is_answered_once_and_the_oldest_first(life: Life, start: Start, until: Until) -> None:
    """`say` until `reply`: each message gets its own answer, in the order in which they came."""
    running = await start()
    ids = [(await running.ask("say", {"text": f"question {n}"}))["id"] for n in range(3)]
    assert (await running.ask("status"))["waiting"] == ["question 0", "question 1", "question 2"]

    def decides(situation: Any) -> str:
        if situation.message is None:
            return "DO_NOTHING: nobody waits"
        return f'TOOL: reply(text="to {situation.message}")'

    life.mind.decides = decides
    await until(lambda: len(life.facts(MessageSent)) == 3)
    await until(lambda: len(running.cycles()) > 6)

    sent = life.facts(MessageSent)
    assert [(fact.answers, fact.text) for fact in sent] == [(ids[n], f"to question {n}") for n in range(3)]
    assert (await running.ask("status"))["waiting"] == []


async def test_a_reply_answers_the_message_that_was_decided_on(life: Life, start: Start, until: Until) -> None:
    """A message that comes between decision and act is not answered by words that were not meant for it."""
    running = await start()
    tell = running.agent.people_inbox.tell
    usual = life.mind.complete

    async def complete(prompt: Any) -> Any:
        found = await usual(prompt)
        if prompt.purpose == "decide" and not life.facts(MessageReceived):
            await tell("are you there?", "user", "m1")
        return found

    life.mind.complete = complete
    life.mind.decides = lambda _: 'TOOL: reply(text="hello?")'
    await until(lambda: life.facts(MessageSent))

    first = life.facts(ActionTaken)[0]
    assert (first.outcome.status, first.outcome.answered) == ("error", None)
    assert len(life.facts(MessageSent)) == 1


async def test_the_same_message_asked_twice_is_said_once(life: Life, start: Start) -> None:
    """A request repeated for want of a reply has the same id, and no second fact."""
    running = await start()
    one = await running.ask("say", {"text": "hello", "id": "k1"})
    life.journal.ids.clear()
    two = await running.ask("say", {"text": "hello", "id": "k1"})

    assert two == one | {"again": True}
    assert len(life.facts(MessageReceived)) == 1


async def test_a_flood_of_messages_is_refused_at_a_bound(life: Life) -> None:
    """The agent takes so many and says how many wait; its memory still fits its snapshot."""
    async with MemoryBus(life.journal) as bus:
        agent = await life.agent(bus)
        for number in range(MOST_WAITING):
            await agent.people_inbox.tell(f"message {number}", "user", str(number))
        with pytest.raises(UsageError, match="1000 messages wait for an answer already"):
            await agent.people_inbox.tell("one more", "user", "more")
        await life.save(bus)
        assert agent.memory == (await life.agent(bus)).memory

    assert len(life.facts(MessageReceived)) == MOST_WAITING


async def test_large_messages_are_cut_and_bounded_together(life: Life) -> None:
    """A megabyte is cut to an event's size; so many of them are refused before the memory is too large."""
    async with MemoryBus(life.journal) as bus:
        agent = await life.agent(bus)
        while agent.memory.has_room(cut("\x01" * 1_000_000).text):
            await agent.people_inbox.tell("\x01" * 1_000_000, "user", str(len(agent.memory.waiting)))
        with pytest.raises(UsageError, match="wait for an answer already"):
            await agent.people_inbox.tell("\x01" * 1_000_000, "user", "more")
        await life.save(bus)
        written = AgentMemory.model_validate(json.loads(life.journal.bucket["agent/echo"].value)["memory"])

    assert written == agent.memory
    assert 2 < len(life.facts(MessageReceived)) < 50


async def test_a_message_that_waited_on_the_stream_is_found_while_the_agent_runs(
    life: Life, start: Start, until: Until
) -> None:
    """A fact that others put on the stream while the agent runs is noticed, once."""
    running = await start()
    await running.put(
        MessageReceived(id="m1", source=source_of("echo", life.agentuid), agent="echo", text="from beside")
    )
    await until(lambda: running.agent.memory.waiting)

    assert [waiting.text for waiting in running.agent.memory.waiting] == ["from beside"]


async def test_a_goal_is_set_and_dropped_by_request(life: Life, start: Start) -> None:
    """Adding answers with the goal's id; dropping it ends it; twice is refused with a reason."""
    running = await start()
    added = await running.ask("goal", {"add": GOAL | {"id": "x"}})
    assert added == {"ok": True, "goal": "x"}
    assert "was set before" in (await running.ask("goal", {"add": GOAL | {"id": "x"}}))["error"]
    assert [goal["id"] for goal in (await running.ask("status"))["goals"]] == ["x"]
    assert (await running.ask("goal", {"drop": "x", "why": "done with it"}))["goal"] == "x"
    assert "no active goal 'x'" in (await running.ask("goal", {"drop": "x"}))["error"]
    assert "was set before" in (await running.ask("goal", {"add": GOAL | {"id": "x"}}))["error"]

    assert [fact.goal.id for fact in life.facts(GoalSet)] == ["x"]
    assert [fact.why for fact in life.facts(GoalDropped)] == ["done with it"]


async def test_goals_of_the_settings_beyond_the_bound_come_as_there_is_room(life: Life) -> None:
    """The others are set at the start, and no run ends for it."""
    goals = [{"id": str(n), "statement": f"Do {n}.", "check": {"kind": "file", "path": "x"}} for n in range(60)]
    life.configured(goals=goals)
    async with MemoryBus(life.journal) as bus:
        agent = await life.agent(bus)
        await agent.run(1)
        await agent.people_inbox.drop_goal("3", "done with it")
        await agent.run(2)

    assert [fact.goal.id for fact in life.facts(GoalSet)] == [str(number) for number in range(MOST_GOALS + 1)]


async def test_active_goals_are_bounded(life: Life) -> None:
    """Every goal is checked after every act, so there are only so many, and none is a book."""
    async with MemoryBus(life.journal) as bus:
        agent = await life.agent(bus)
        for number in range(MOST_GOALS):
            goal = Goal(id=str(number), statement="\x01" * 1000, check=FileCheck(path="x"))
            await agent.people_inbox.set_goal(goal, by="user")
        with pytest.raises(UsageError, match="50 goals are active already"):
            await agent.people_inbox.set_goal(Goal(id="more", statement="More.", check=FileCheck(path="x")), by="user")
        with pytest.raises(UsageError, match="at most 8192 are allowed"):
            await agent.people_inbox.set_goal(
                Goal(id="book", statement="A book.", check=FileCheck(path="x", equals="x" * 9000)), by="user"
            )
        await agent.run(1)

    assert len(life.facts(ActionTaken)[0].goals) == MOST_GOALS


@pytest.mark.parametrize(
    ("verb", "body", "why"),
    [
        ("say", {}, "a message needs a text"),
        ("say", {"text": " \n"}, "a message needs a text"),
        ("say", {"text": 7}, "a message needs a text"),
        ("say", b"[]", "must be a JSON object"),
        ("say", b"{", "not JSON"),
        ("say", b"\xff", "not JSON"),
        ("say", b"[" * 100_000, "not JSON"),
        ("goal", {}, '"add", a goal, or "drop"'),
        ("goal", {"add": "x"}, '"add", a goal, or "drop"'),
        ("goal", {"add": {}}, "this is no goal: statement"),
        ("goal", {"add": GOAL | {"check": {"kind": "magic"}}}, "this is no goal: check"),
        ("goal", {"add": GOAL | {"extra": 1}}, "this is no goal: extra"),
        ("goal", b'{"add": {"id": "\\ud800", "statement": "s", "check": {"kind": "file", "path": "x"}}}', ""),
        ("goal", {"drop": "nothing"}, "no active goal 'nothing'"),
        ("dance", {}, "there is no request 'dance', there are pause, resume, stop, say, goal, approve, status"),
        ("_init__", {}, "there is no request"),
    ],
)
async def test_a_malformed_request_is_refused_with_a_sentence(
    life: Life, start: Start, verb: str, body: Any, why: str
) -> None:
    """The reply says what is wrong, nothing is published for it, and the agent goes on."""
    running = await start()
    reply = await running.ask(verb, body)

    assert set(reply) - {"usage"} == {"error"}
    assert why in reply["error"]
    assert "\n" not in reply["error"]
    assert life.facts(MessageReceived, GoalSet, GoalDropped) == []
    assert (await running.ask("status"))["state"] == "running"


async def test_hostile_words_are_taken_as_they_are(life: Life, start: Start) -> None:
    """Escape sequences, direction marks and lone surrogates in a message harm no event."""
    running = await start()
    text = "\x1b[31m[/nope] \u202e \x00 " + "\\ud800"
    await running.ask("say", json.dumps({"text": text}).replace("\\\\ud800", "\\ud800").encode())

    assert life.facts(MessageReceived)[0].text == "\x1b[31m[/nope] \u202e \x00 \ufffd"


async def test_requests_and_cycles_do_not_disturb_each_other(life: Life, start: Start, until: Until) -> None:
    """Messages and goals by the dozen while cycles go by: each fact once, and a new start knows them all."""
    running = await start()
    for number in range(30):
        await running.ask("say", {"text": f"hello {number}"})
        await running.ask("goal", {"add": GOAL | {"id": f"g{number}"}})
    await running.ask("stop")
    await running.task
    async with MemoryBus(life.journal) as bus:
        again = await life.agent(bus)

    assert [waiting.text for waiting in again.memory.waiting] == [f"hello {n}" for n in range(30)]
    assert list(again.memory.goals) == [f"g{n}" for n in range(30)]
    assert len({fact.id for fact in life.facts()}) == len(life.facts())
