"""`conch chat`: lines of a person in, answers with reward and mark out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.cli.chat import chat, works_words
from conch.cli.common import CommonOptions
from conch.errors import BusUnreachableError, NoAnswerError, UsageError
from conch.requests import AgentWorks, rated
from conch_schemas import (
    Action,
    AnsweredMessage,
    AnswerRated,
    Event,
    Mark,
    MarkWitnessed,
    MessageSent,
    RewardAssigned,
    decode,
    subject_filter,
)
from tests.witnessed import recorded

if TYPE_CHECKING:
    from conch.bus import Bus
    from tests.cli.conftest import InProgress, Publish
    from tests.conftest import MakeAct

Printed = Callable[[], str]
Write = Callable[[str], None]
HASH = "0" * 64
USED = "540 of 600 acts in the last hour (budget.acts_per_hour): paused until 09:12:40 UTC"


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """`typed(text)`: what the person writes, to its end."""
    opened = ExitStack()

    def write(text: str) -> None:
        file = tmp_path / "typed"
        file.write_text(text)
        monkeypatch.setattr(sys, "stdin", opened.enter_context(file.open()))

    with opened:
        yield write


class TalkingAgent:
    """Answers each message as a run does: an act, the answer, its mark, its reward."""

    def __init__(self, bus: Bus, publish: Publish, act: MakeAct, answer: str) -> None:
        self.bus, self.publish, self.act, self.text = bus, publish, act, answer
        self.told: list[dict[str, Any]] = []
        self.drafts: list[str] = []
        """What its mind has said of the open answer, one for each look; then the answer comes."""

    async def answer(self, subject: str, data: bytes) -> bytes:
        verb, body = subject.rsplit(".", 1)[-1], json.loads(data)
        if verb == "say":
            if "refuse" in body["text"]:
                return json.dumps({"error": "1000 messages wait"}).encode()
            self.told.append(body)
            if not self.drafts:
                await self.publish(self.bus, *self.facts())
            return json.dumps({"ok": True, "id": body["id"]}).encode()
        text = self.drafts.pop(0)
        if not self.drafts:
            await self.publish(self.bus, *self.facts())
        found = {"state": "running", "message": self.told[-1]["id"], "phase": "decide", "seconds": 1.0, "text": text}
        return json.dumps({"ok": True} | found).encode()

    def facts(self) -> list[Event]:
        """The facts of the turn: those of another act first, the mark before the answer."""
        body, cycle = self.told[-1], 2 * len(self.told)
        act = self.act(cycle)
        said = AnsweredMessage(id=body["id"], text=body["text"], session=body["session"])
        outcome = act.outcome.model_copy(update={"answered": body["id"]})
        act = act.model_copy(update={"outcome": outcome, "message": said})
        around: dict[str, Any] = {
            "source": act.source, "agent": act.agent, "cycle": cycle, "action_id": act.action_id
        }  # fmt: skip
        mark = Mark(
            id=f"k{cycle}", agent=act.agent, action_id=act.action_id, origin="echo", domain="action", stimulus="",
            response="", reasoning="", event=act.id, content=HASH, sequence=40 + cycle, previous=HASH, hash=HASH,
        )  # fmt: skip
        return [
            self.act(cycle - 1, action=Action(kind="TOOL", valid=True, tool="notes")),
            act,
            MarkWitnessed(id=f"w{cycle}", mark=mark, **around),
            MessageSent(id=f"s{cycle}", text=self.text, answers=body["id"], session=body["session"], **around),
            recorded(act),
        ]


async def test_a_line_is_answered_with_its_reward_and_its_mark(
    common: CommonOptions, in_progress: InProgress, printed: Printed, typed: Write, publish: Publish, act: MakeAct
) -> None:
    """Each line is a message of the session; below its answer stand reward, mark and cycle. Hostile text is safe."""
    typed("how is the tide?\n\nand now?\n/quit\nnever said\n")
    async with in_progress() as bus:
        agent = TalkingAgent(bus, publish, act, "low\x1b[2J tide")
        async with bus.serve("conch.ctl.echo.*", agent.answer):
            await chat(session="s1", common=common)

    assert [(one["text"], one["session"]) for one in agent.told] == [("how is the tide?", "s1"), ("and now?", "s1")]
    assert printed().splitlines() == [
        "low�[2J tide",
        "  reward +0.000 so far · mark 42 · cycle 2",
        "low�[2J tide",
        "  reward +0.000 so far · mark 44 · cycle 4",
    ]


async def test_steps_are_lines_of_json(
    common: CommonOptions, in_progress: InProgress, printed: Printed, typed: Write, publish: Publish, act: MakeAct
) -> None:
    """The message, what the agent does, the answer as it grows, other acts, the answer, its mark and its reward; a
    refusal is a line too, and the conversation goes on."""
    typed("refuse this\n/nonsense\nhello\n")
    async with in_progress() as bus:
        agent = TalkingAgent(bus, publish, act, "low tide")
        agent.drafts = ["", "low", "low ti"]
        async with bus.serve("conch.ctl.echo.*", agent.answer):
            await chat(session="s1", common=replace(common, json=True))

    lines = [json.loads(line) for line in printed().splitlines()]
    steps = [(line["step"], line["text"]) for line in lines if line["step"] != "works"]
    assert steps[0] == ("refused", "1000 messages wait")
    assert steps[1][1].startswith("there is no command /nonsense")
    assert steps[2:] == [
        *(("message", None), ("draft", "low"), ("draft", "low ti"), ("tool", "notes"), ("answer", "low tide")),
        *(("mark", None), ("reward", None)),
    ]
    assert {line["session"] for line in lines} == {"s1"}
    assert {line["schema"] for line in lines} == {"conch.v1.chat"}


async def test_ratings_are_facts_of_the_answer(
    common: CommonOptions, in_progress: InProgress, printed: Printed, typed: Write, publish: Publish, act: MakeAct
) -> None:
    """Praise and blame are a score of the act too; a correction keeps the right answer; before an answer there is
    nothing to rate; the same twice is once."""
    typed("/up\nhello\n/up\n/up\n/correct it is high\n/correct\n/stop enough of that\n")
    async with in_progress() as bus:
        agent = TalkingAgent(bus, publish, act, "low tide")
        async with bus.serve("conch.ctl.echo.*", agent.answer):
            await chat(session="s1", common=common)
        kinds = [subject_filter(AnswerRated), subject_filter(RewardAssigned)]
        facts = [decode(delivery.data) async for delivery in bus.read(kinds)]

    ratings = [(one.rating, one.text, one.session) for one in facts if isinstance(one, AnswerRated)]
    scores = [one.scores[0] for one in facts if isinstance(one, RewardAssigned)]
    shown = printed()
    assert ratings == [
        ("satisfied", "", "s1"), ("corrected", "it is high", "s1"), ("stop", "enough of that", "s1")
    ]  # fmt: skip
    assert {(one.component, one.value, one.scorer) for one in scores} == {("approval", 1.0, "human")}
    assert "there is no answer to rate" in shown
    assert "a correction needs the answer" in shown
    assert "  rated cycle 2: corrected" in shown


async def test_without_a_run_it_says_what_to_do(common: CommonOptions, typed: Write) -> None:
    """One sentence, and the exit code of a bus that cannot be reached."""
    typed("hello\n")
    with pytest.raises(BusUnreachableError, match=r"no run is in progress in .*: conch run starts one"):
        await chat(common=common)


@pytest.mark.parametrize("session", ["", "a b", "-x", "a" * 129, "\x1b[2J"])
async def test_a_session_with_another_name_is_refused(common: CommonOptions, session: str) -> None:
    """Before anything is asked of the person."""
    with pytest.raises(UsageError, match=r"--session .* letters, digits"):
        await chat(session=session, common=common)


def test_an_act_that_answered_nobody_is_not_rated(act: MakeAct) -> None:
    """A rating is of an answer."""
    with pytest.raises(UsageError, match="cycle 1 answered no message"):
        rated(act(), "satisfied", "")


async def test_a_pipe_says_on_stderr_what_is_waited_for(
    common: CommonOptions, in_progress: InProgress, typed: Write, publish: Publish, act: MakeAct,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The conversation's name, then the terminal's words, once for each change; stdout has the answer alone."""
    monkeypatch.setattr("conch.cli.chat.QUIET_SECONDS", 0.0)
    typed("hello\n")
    async with in_progress() as bus:
        agent = TalkingAgent(bus, publish, act, "low tide")
        agent.drafts = ["", "", ""]
        async with bus.serve("conch.ctl.echo.*", agent.answer):
            await chat(session="s1", common=common)

    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "low tide"
    assert err.splitlines() == ["conversation s1 with echo (conch chat --session s1 goes on with it)", "echo decides"]


@pytest.mark.parametrize(
    ("state", "why", "told"),
    [("budget", USED, "paused until 09:12:40 UTC"), ("paused", "by request", "conch resume lets it go on")],
)
async def test_a_pipe_does_not_wait_for_an_agent_that_stands_still(
    state: str, why: str, told: str, common: CommonOptions, in_progress: InProgress, typed: Write, publish: Publish,
    act: MakeAct, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A used-up budget is named with its end, a pause with what ends it, and the exit code is 1; the message stays with
    the agent."""
    monkeypatch.setattr("conch.cli.chat.PATIENCE_SECONDS", 0.0)
    typed("hello\n")

    class UsedUp(TalkingAgent):
        async def answer(self, subject: str, data: bytes) -> bytes:
            reply = json.loads(await super().answer(subject, data))
            return json.dumps(reply | {"state": state, "why": why}).encode()

    async with in_progress() as bus:
        agent = UsedUp(bus, publish, act, "low tide")
        agent.drafts = [""] * 100
        async with bus.serve("conch.ctl.echo.*", agent.answer):
            with pytest.raises(NoAnswerError, match=f"{told}; the message stays with it"):
                await chat(session="s1", common=common)

    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("state", "words"), [("paused", "conch resume"), ("approval", "conch approve list"), ("budget", "until 09:12")]
)
def test_an_agent_that_answers_nothing_is_said_to_wait(state: str, words: str) -> None:
    """With the command that helps, or the end of the pause."""
    assert words in works_words("echo", AgentWorks("", 0.0, state, "all is used: paused until 09:12 UTC"))
    assert words not in works_words("echo", AgentWorks("think", 1.0, "running"))
