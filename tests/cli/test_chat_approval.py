"""`conch chat` while an act of the agent waits for the person's approval."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.cli.chat import chat
from conch.cli.chat_approval import decision_in
from conch.cli.common import CommonOptions
from conch.cycle.approvals.answer import Said, answer_to, timed_out
from conch.cycle.state.memory import AgentMemory
from conch.errors import UsageError
from conch_schemas import ActAsked, ActDenied, MessageSent, source_of
from tests.approving import asking

if TYPE_CHECKING:
    from conch.bus import Bus
    from tests.cli.conftest import InProgress, Life, Publish
    from tests.conftest import Until

Printed = Callable[[], str]


@dataclass
class Terminal:
    """A terminal that a person typed into before it was read."""

    master: int
    person: int
    written: bytes = b""

    @contextlib.contextmanager
    def attached(self) -> Iterator[None]:
        """stdin and stdout are this terminal."""
        with (
            os.fdopen(os.dup(self.person)) as stdin, os.fdopen(os.dup(self.person), "w") as stdout,
            pytest.MonkeyPatch.context() as patched,
        ):  # fmt: skip
            patched.setattr(sys, "stdin", stdin)
            patched.setattr(sys, "stdout", stdout)
            yield

    def type(self, text: str) -> None:
        """Lines of the person, read one by one."""
        os.write(self.master, text.encode())

    def shown(self) -> str:
        """All that stands on it."""
        os.set_blocking(self.master, False)
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.master, 65536):
                self.written += chunk
        return self.written.decode().replace("\r\n", "\n")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal that can erase no line."""
    master, person = os.openpty()
    monkeypatch.setenv("TERM", "dumb")
    yield Terminal(master, person)
    os.close(person)
    os.close(master)


@dataclass
class AskingAgent:
    """Wants to do an act that needs an approval, and answers the message once that is decided on."""

    bus: Bus
    publish: Publish
    life: Life
    late: bool = False
    """No decision came in time: the denial is published with the first look."""
    other: Said | None = None
    """What another person says first."""
    decided: list[tuple[Said, str]] = field(default_factory=list)
    message: dict[str, Any] = field(default_factory=dict)
    memory: AgentMemory = field(default_factory=AgentMemory)

    @property
    def asked(self) -> ActAsked:
        assert self.memory.asked is not None
        return self.memory.asked

    async def ask(self) -> None:
        thought, asked = asking("echo", self.life.uid, 1)
        self.memory = self.memory.model_copy(update={"asked": asked})
        await self.publish(self.bus, thought, asked)

    async def answer(self, subject: str, data: bytes) -> bytes:
        verb, body = subject.rsplit(".", 1)[-1], json.loads(data)
        if verb == "say":
            self.message = body
            if self.memory.asked is None:
                await self.ask()
            return json.dumps({"ok": True, "id": body["id"]}).encode()
        if verb == "approve":
            return json.dumps(await self.decide("deny" if body["deny"] else "approve", body["why"])).encode()
        if self.late and self.memory.answer is None:
            await self.settle(timed_out(self.asked))
        found = {"state": "approval", "message": self.message["id"], "phase": "", "seconds": 0.0, "text": ""}
        return json.dumps({"ok": True} | found).encode()

    async def decide(self, said: Said, why: str) -> dict[str, Any]:
        if self.other is not None and not self.decided:
            self.decided.append((self.other, ""))
            await self.settle(answer_to(self.memory, "echo", str(self.asked.action_id), self.other, "", _now()))
        try:
            decision = answer_to(self.memory, "echo", str(self.asked.action_id), said, why, _now())
        except UsageError as error:
            return {"error": str(error)}
        self.decided.append((said, why))
        await self.settle(decision)
        return {"ok": True}

    async def settle(self, decision: Any) -> None:
        self.memory = self.memory.model_copy(update={"answer": decision})
        sent = MessageSent(
            id="s1", text="It is done." if not isinstance(decision, ActDenied) else "I may not.", cycle=2,
            answers=self.message["id"], session=self.message["session"], source=source_of("echo", self.life.uid),
            agent="echo", action_id=decision.action_id,
        )  # fmt: skip
        await self.publish(self.bus, decision, sent)


def _now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No reward and no mark comes: they are waited for no longer than a moment."""
    monkeypatch.setattr("conch.requests.chat.SCORED_SECONDS", 0.05)


@pytest.mark.parametrize(
    ("typed", "decided", "answer"),
    [
        ("maybe\ny I looked at it\n", ("approve", "I looked at it"), "It is done."),
        ("n, not today\n", ("deny", "not today"), "I may not."),
    ],
)
async def test_the_person_decides_in_the_conversation(
    common: CommonOptions, in_progress: InProgress, terminal: Terminal, publish: Publish, life: Life,
    typed: str, decided: tuple[Said, str], answer: str,
) -> None:  # fmt: skip
    """Call and rule are shown; y or n with a reason decides, another line is asked again. Then the answer comes."""
    terminal.type(f"launch it\n{typed}/quit\n")
    async with in_progress() as bus:
        agent = AskingAgent(bus, publish, life)
        async with bus.serve("conch.ctl.echo.*", agent.answer):
            with terminal.attached():
                await chat(session="s1", common=common)

    shown = terminal.shown()
    assert agent.decided == [decided]
    assert "echo waits for your approval until " in shown
    assert "shell make launch" in shown
    assert "tools.policy (rule 1) asks for an approval of shell" in shown
    assert shown.count("approve it? y or n") == (2 if "maybe" in typed else 1)
    assert f"is {'approved' if decided[0] == 'approve' else 'denied'}: {decided[1]}" in shown
    assert answer in shown


async def test_of_two_decisions_the_first_counts_and_the_person_is_told(
    common: CommonOptions, in_progress: InProgress, terminal: Terminal, publish: Publish, life: Life
) -> None:
    """A denial by another person comes before this one's approval."""
    terminal.type("launch it\ny\n/quit\n")
    async with in_progress() as bus:
        agent = AskingAgent(bus, publish, life, other="deny")
        async with bus.serve("conch.ctl.echo.*", agent.answer):
            with terminal.attached():
                await chat(session="s1", common=common)

    shown = terminal.shown()
    assert agent.decided == [("deny", "")]
    assert " is denied" in shown
    assert "I may not." in shown


async def test_a_question_ends_with_the_time_of_the_act(
    common: CommonOptions, in_progress: InProgress, terminal: Terminal, publish: Publish, life: Life,
    until: Until,
) -> None:  # fmt: skip
    """No line is read for it any more: the next one is a message or a command again."""
    async with in_progress() as bus:
        agent = AskingAgent(bus, publish, life, late=True)
        await agent.ask()
        terminal.type("launch it\n")
        async with bus.serve("conch.ctl.echo.*", agent.answer):
            with terminal.attached():
                talking = asyncio.create_task(chat(session="s1", common=common))
                await until(lambda: "cycle 2" in terminal.shown())
                terminal.type("/quit\n")
                await talking

    shown = terminal.shown()
    assert agent.decided == []
    assert "is denied: no person approved it within 3600 s" in shown
    assert "I may not." in shown


async def test_a_pipe_names_the_command_that_decides(
    common: CommonOptions, in_progress: InProgress, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, publish: Publish, life: Life,
) -> None:  # fmt: skip
    """On stderr, once; stdout has the answer alone."""
    file = tmp_path / "typed"
    file.write_text("launch it\n")
    async with in_progress() as bus:
        agent = AskingAgent(bus, publish, life, late=True)
        async with bus.serve("conch.ctl.echo.*", agent.answer):
            with file.open() as typed:
                monkeypatch.setattr(sys, "stdin", typed)
                await chat(session="s1", common=common)

    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "I may not."
    assert err.count("echo waits for your approval until") == 1
    assert f"conch approve {str(agent.asked.action_id)[:8]}" in err
    assert "is denied: no person" in err


async def test_the_act_and_its_decision_are_lines_of_json(
    common: CommonOptions, in_progress: InProgress, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, publish: Publish, life: Life,
) -> None:  # fmt: skip
    """With the id that `conch approve` takes, the call, the rule and the time; then the decision and whose it is."""
    file = tmp_path / "typed"
    file.write_text("launch it\n")
    async with in_progress() as bus:
        agent = AskingAgent(bus, publish, life, late=True)
        async with bus.serve("conch.ctl.echo.*", agent.answer):
            with file.open() as typed:
                monkeypatch.setattr(sys, "stdin", typed)
                await chat(session="s1", common=replace(common, json=True))

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    asked, decided = (next(line for line in lines if line["step"] == step) for step in ("approval", "decided"))
    assert (asked["id"], asked["text"]) == (str(agent.asked.action_id)[:8], "shell make launch")
    assert "tools.policy" in asked["why"]
    assert (decided["id"], decided["decision"], decided["by"]) == (asked["id"], "denied", "timeout")


@given(st.sampled_from(["y", "yes", "n", "no"]), st.sampled_from(["", ",", ":"]), st.text("abc xyz", max_size=20))
def test_an_answer_is_its_first_word(word: str, mark: str, reason: str) -> None:
    """In any case; what follows is the reason. Any other line is no answer."""
    said = "approve" if word[0] == "y" else "deny"
    assert decision_in(f" {word.upper()}{mark} {reason} ") == (said, reason.strip())
    assert decision_in(f"x{word} {reason}") is None
