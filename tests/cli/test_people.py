"""What people say to the agent: with a run in progress it is asked, without one the fact is put on the stream."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from conch.cli import goal, talk
from conch.cli.common import CommonOptions, open_bus
from conch.cli.people_facts import agent_named
from conch.config import Settings
from conch.cycle.state.recover import RecoveryStart, recover
from conch.errors import BusUnreachableError, ConchError, NoAnswerError, UsageError
from conch.home import Home
from conch.requests.goals import goal_id
from conch_schemas import CommandCheck, FileCheck, GoalSet, TestsCheck, decode, subject_filter

if TYPE_CHECKING:
    from tests.cli.conftest import InProgress


Printed = Callable[[], str]
WEST = timezone(-timedelta(hours=10))
"""A time zone in which the last hours of the year 9999 are in the next year by UTC."""


class FakeAgent:
    """Answers requests as the running agent does, and remembers them."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.reply: dict[str, Any] = {"ok": True}

    async def answer(self, subject: str, data: bytes) -> bytes:
        self.asked.append((subject, json.loads(data)))
        return json.dumps(self.reply).encode()


async def test_a_message_without_a_run_waits_for_the_agent(home: Home, common: CommonOptions, printed: Printed) -> None:
    """`tell` without a run puts the message on the stream, where the agent finds it when it starts."""
    await talk.tell("how is\x00 the tide?", common=replace(common, json=True))

    told = json.loads(printed())
    async with open_bus(home, Settings()) as bus:
        found = await recover(bus, "echo", RecoveryStart(home.agentuid("echo")))
    assert [(one.id, one.text) for one in found.memory.waiting] == [(told["id"], "how is\x00 the tide?")]
    assert told["running"] is False


async def test_a_message_during_a_run_is_handed_to_the_agent(
    common: CommonOptions, in_progress: InProgress, printed: Printed
) -> None:
    """`tell` during a run asks the agent and says its id of the message."""
    agent = FakeAgent()
    agent.reply = {"ok": True, "id": "m1"}
    async with in_progress() as bus, bus.serve("conch.ctl.echo.*", agent.answer):
        await talk.tell("hello", common=replace(common, json=True))

    [(subject, body)] = agent.asked
    assert subject == "conch.ctl.echo.say"
    assert (body["text"], body["sender"]) == ("hello", "user")
    told = json.loads(printed())
    assert told == {
        "schema": "conch.v1.told", "id": "m1", "running": True, "answer": None, "state": None, "why": None
    }  # fmt: skip


class WaitingAgent(FakeAgent):
    """Takes a message, and stays in a state in which it answers nothing."""

    def __init__(self, before: str, state: str, why: str) -> None:
        super().__init__()
        self.before, self.state, self.why = before, state, why

    async def answer(self, subject: str, data: bytes) -> bytes:
        verb = subject.rsplit(".", 1)[-1]
        self.asked.append((subject, json.loads(data)))
        if verb == "say":
            return json.dumps({"ok": True, "id": "m1", "state": self.before}).encode()
        return json.dumps({"ok": True, "agent": "echo", "state": self.state, "why": self.why}).encode()


USED = "540 of 600 acts in the last hour (budget.acts_per_hour): paused until 2026-11-24 09:12:40 UTC"


async def test_a_message_to_an_agent_that_is_paused_by_its_budget_names_the_limit_and_its_end(
    common: CommonOptions, in_progress: InProgress, printed: Printed
) -> None:
    """`tell` does not leave a person waiting without a word."""
    agent = WaitingAgent("budget", "budget", USED)
    async with in_progress() as bus, bus.serve("conch.ctl.echo.*", agent.answer):
        await talk.tell("hello", common=common)
        await talk.tell("hello", common=replace(common, json=True))

    first, second = printed().splitlines()
    assert first == f"told; echo is paused by its budget: {USED}"
    assert json.loads(second) == {
        "schema": "conch.v1.told", "id": "m1", "running": True, "answer": None, "state": "budget", "why": USED
    }  # fmt: skip


async def test_a_message_to_a_sleeping_agent_wakes_it(
    common: CommonOptions, in_progress: InProgress, printed: Printed
) -> None:
    """`tell` says so."""
    agent = WaitingAgent("asleep", "running", "")
    async with in_progress() as bus, bus.serve("conch.ctl.echo.*", agent.answer):
        await talk.tell("hello", common=common)

    assert printed() == "told, and it wakes for it (--wait 30 waits for the answer)\n"


@pytest.mark.parametrize(
    ("state", "why", "words"),
    [("budget", USED, f": echo is paused by its budget: {USED};"), ("running", "", "; the message stays with it")],
)
async def test_no_answer_in_time_is_exit_code_1(
    state: str, why: str, words: str, common: CommonOptions, in_progress: InProgress, printed: Printed
) -> None:
    """With what the agent waits for; the message stays with it."""
    agent = WaitingAgent(state, state, why)
    async with in_progress() as bus, bus.serve("conch.ctl.echo.*", agent.answer):
        with pytest.raises(NoAnswerError) as late:
            await talk.tell("hello", wait=0.1, common=replace(common, json=True))

    assert late.value.exit_code == 1
    assert str(late.value).startswith("no answer within 0.1 s")
    assert words in str(late.value)
    told = json.loads(printed())
    assert (told["answer"], told["state"], told["why"]) == (None, state, why)


async def test_an_empty_message_is_refused(common: CommonOptions) -> None:
    """A message without words is a usage error."""
    with pytest.raises(UsageError, match="needs a text"):
        await talk.tell(" \n", common=common)


async def test_pause_and_resume_reach_the_agent(
    common: CommonOptions, in_progress: InProgress, printed: Printed
) -> None:
    """The agent's switches are requests to it."""
    agent = FakeAgent()
    async with in_progress() as bus, bus.serve("conch.ctl.echo.*", agent.answer):
        await talk.pause(common=common)
        await talk.resume(common=common)

    assert [subject for subject, _ in agent.asked] == ["conch.ctl.echo.pause", "conch.ctl.echo.resume"]
    assert printed() == "paused\nrunning\n"


async def test_stop_waits_for_the_end_of_the_run(
    common: CommonOptions, in_progress: InProgress, printed: Printed
) -> None:
    """`stop` asks the agent and comes back when the home is free for the next run."""
    asked = asyncio.Event()

    async def answer(_: str, __: bytes) -> bytes:
        asked.set()
        return b'{"ok":true}'

    async with in_progress() as bus, bus.serve("conch.ctl.echo.stop", answer):
        stopping = asyncio.create_task(talk.stop(common=common))
        await asked.wait()
        await asyncio.wait({stopping}, timeout=0.2)
        waited = not stopping.done()
    await stopping

    assert waited
    assert printed() == "stopped\n"


@pytest.mark.parametrize("verb", ["pause", "stop"])
def test_without_a_run_there_is_nobody_to_switch(
    home: Home, conch: Callable[..., subprocess.CompletedProcess[str]], verb: str
) -> None:
    """Without a run the switches are exit status 3 and say how to start one."""
    result = conch(verb)

    assert (result.returncode, result.stdout) == (3, "")
    assert "no run is in progress" in result.stderr


async def test_an_agent_that_does_not_answer_is_said(common: CommonOptions, in_progress: InProgress) -> None:
    """A run whose agent is down is told apart from no run."""
    async with in_progress():
        with pytest.raises(BusUnreachableError, match="echo does not answer"):
            await talk.pause(common=common)


async def test_a_goal_without_a_run_is_set_listed_and_dropped(
    home: Home, common: CommonOptions, printed: Printed
) -> None:
    """Goals are facts: set without a run, listed from the stream, dropped once."""
    as_json = replace(common, json=True)
    await goal.add("Write a journal of the tides", file="journal.md", contains=["tide"], priority=0.7, common=as_json)
    name = json.loads(printed())["goal"]
    await goal.list_(common=as_json)
    [row] = json.loads(printed())["goals"]
    await goal.drop(name, common=common)
    assert printed() == f"{name} dropped\n"
    await goal.list_(common=as_json)

    assert row["id"] == name
    assert name.startswith("write-a-journal-of-")
    assert (row["check"]["contains"], row["priority"], row["best"]) == (["tide"], 0.7, None)
    assert json.loads(printed()) == {"schema": "conch.v1.goals", "goals": []}
    with pytest.raises(ConchError, match="no active goal"):
        await goal.drop(name, common=common)
    await goal.list_(common=common)
    assert "0 active; those that are over: conch ui, page Needs & drives" in printed()


async def test_a_goal_with_a_hidden_check_is_set_and_listed(
    home: Home, common: CommonOptions, printed: Printed
) -> None:
    """`--hidden` stands in the event; people see the check, and that it is hidden."""
    as_json = replace(common, json=True)

    await goal.add("Name the comet", file="answer.md", contains=["Halley"], hidden=True, common=as_json)
    printed()
    await goal.list_(common=as_json)
    [row] = json.loads(printed())["goals"]
    await goal.list_(common=common)

    assert (row["hidden"], row["check"]["contains"]) == (True, ["Halley"])
    assert "hidden: answer.md has Halley" in " ".join(printed().split())
    async with open_bus(home, Settings()) as bus:
        [event] = [decode(delivery.data) async for delivery in bus.read([subject_filter(GoalSet)])]
    assert isinstance(event, GoalSet)
    assert event.goal.hidden


async def test_a_goal_during_a_run_is_handed_to_the_agent(
    common: CommonOptions, in_progress: InProgress, printed: Printed
) -> None:
    """During a run the agent sets and drops goals itself, and its refusal is a failure."""
    agent = FakeAgent()
    async with in_progress() as bus, bus.serve("conch.ctl.echo.*", agent.answer):
        await goal.add("All tests pass", tests="python3 -m unittest", common=common)
        agent.reply = {"error": "there is no active goal x", "usage": True}
        with pytest.raises(ConchError, match="no active goal x") as refusal:
            await goal.drop("x", common=common)

    assert refusal.value.exit_code == 2
    assert agent.asked[0][1]["add"]["check"] == {"kind": "tests", "command": "python3 -m unittest"}
    assert agent.asked[1] == ("conch.ctl.echo.goal", {"drop": "x"})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "exactly one check"),
        ({"command": "true", "tests": "pytest"}, "exactly one check"),
        ({"tests": "pytest", "exit_status": 1}, "--exit-status goes with --command"),
        ({"command": "true", "contains": ["a"]}, "go with --file"),
        ({"file": "../secret"}, "inside the workspace"),
        ({"file": "/etc/passwd"}, "inside the workspace"),
        ({"command": " "}, "not an empty text"),
        ({"command": "true", "priority": 1.5}, "priority"),
    ],
)
async def test_a_goal_that_cannot_be_checked_is_refused(common: CommonOptions, options: Any, sentence: str) -> None:
    """A goal has one check with its own options, decided before anything is published."""
    with pytest.raises(UsageError, match=sentence):
        await goal.add("something", **options, common=common)


def test_checks_are_said_in_words() -> None:
    """Each kind of check reads as a sentence."""
    assert goal.check_words(CommandCheck(command="make")) == "make exits with 0"
    assert goal.check_words(FileCheck(path="a")) == "a exists"
    assert goal.check_words(FileCheck(path="a", contains=("x", "y"))) == "a has x, y"
    assert goal.check_words(TestsCheck()) == "tests pass: python3 -m unittest"
    assert goal.check_words(TestsCheck(), hidden=True) == "hidden: tests pass: python3 -m unittest"


def test_the_same_goal_can_be_set_again() -> None:
    """Two goals of the same words have different ids, made of small letters, digits and hyphens."""
    first, second = goal_id("Été: read [/nope]"), goal_id("Été: read [/nope]")

    assert first != second
    assert first.startswith("ete-read-nope-")


def test_an_agent_of_another_home_is_refused(home: Home) -> None:
    """A name that the home does not know is a usage error and makes no agent."""
    with pytest.raises(UsageError, match="no agent 'other'"):
        agent_named(home, Settings(), "other")
    assert not home.agent_dir("other").exists()


async def test_a_goal_has_a_deadline_and_a_whole(home: Home, common: CommonOptions, printed: Printed) -> None:
    """A part names an active goal; a deadline that has passed, or a whole that is not there, is refused."""
    await goal.add("Be whole", file="whole", common=replace(common, json=True))
    whole = json.loads(printed())["goal"]
    later = datetime(2999, 1, 1, tzinfo=UTC)
    await goal.add("Be a part", file="part", deadline=later, parent=whole, common=replace(common, json=True))
    part = json.loads(printed())["goal"]
    with pytest.raises(UsageError, match=r"the deadline 2020-.* has passed"):
        await goal.add("Too late", file="x", deadline=datetime(2020, 1, 1, tzinfo=UTC), common=common)
    with pytest.raises(UsageError, match="beyond the calendar"):
        await goal.add("Never", file="x", deadline=datetime(9999, 12, 31, 23, tzinfo=WEST), common=common)
    with pytest.raises(ConchError, match="there is no active goal 'nothing' to be a part of"):
        await goal.add("Of nothing", file="x", parent="nothing", common=common)

    async with open_bus(home, Settings()) as bus:
        found = await recover(bus, "echo", RecoveryStart(home.agentuid("echo")))
    assert list(found.memory.goals) == [whole, part]
    assert (found.memory.goals[part].goal.parent, found.memory.goals[part].goal.deadline) == (whole, later)
