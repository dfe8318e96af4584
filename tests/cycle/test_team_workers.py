"""Roles whose minds are workers on the bus: asked, lost, started again, and passed when none answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.bus import MemoryBus
from conch.config import OneMindSettings
from conch.cycle.team import workers
from conch.cycle.team.workers import RoleSilentError, RoleWorker, WorkerMind
from conch.errors import ModelError
from conch.minds import Completion, Prompt, RoleTurn, Situation
from conch.tools import tell
from conch_schemas import ActionTaken, PromptMessage, TeamMessage, TeamPassed, Usage, role_subject
from tests.cycle.test_team import form

if TYPE_CHECKING:
    from tests.cycle.conftest import Life, Start

SUBJECT = role_subject("crew", "coder")
TURN = RoleTurn("crew", "coder", 3, "star", "You write code.", ("planner",), (("planner", "mend it"),), turns=2)
PROMPT = Prompt(
    "decide",
    "system",
    (PromptMessage(role="user", content="what now?"),),
    Situation("crew", 7, needs={}, pressing={}, need="", turn=TURN),
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between two tries and two looks are short."""
    monkeypatch.setattr(workers, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(workers, "PRESENCE_SECONDS", 0.02)


class Replies:
    """A mind that replies by a function of the prompt, or waits for ever where that returns nothing."""

    kind, model, learns = "openai", "small-1", False

    def __init__(self, says: Callable[[Prompt], str | None]) -> None:
        self.says, self.asked, self.open = says, list[Prompt](), asyncio.Event()

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(prompt)
        said = self.says(prompt)
        if said is None:
            self.open.set()
            await asyncio.Event().wait()
        return Completion(said or "", "stop", Usage(output_tokens=5), self.model, 1.0)

    def learn(self, experience: object) -> None: ...

    async def close(self) -> None: ...


def asking(bus: MemoryBus, seconds: float = 30.0) -> WorkerMind:
    """The team's side."""
    return WorkerMind(bus, "crew", "coder", OneMindSettings(kind="openai", model="small"), seconds)


async def test_a_worker_gets_the_whole_prompt_and_its_reply_is_the_roles() -> None:
    """System prompt, messages, turn; the mind is made for as many turns as the role had."""
    made, mind = list[int](), Replies(lambda _: "DO_NOTHING: resting")
    worker = RoleWorker(lambda turns: (made.append(turns), mind)[1])
    async with MemoryBus() as bus, bus.serve(SUBJECT, worker.answer):
        reply = await asking(bus).complete(PROMPT)

    assert (reply.text, reply.usage.output_tokens, reply.model) == ("DO_NOTHING: resting", 5, "small-1")
    [asked] = mind.asked
    assert (asked.system, asked.messages, asked.situation.turn) == (PROMPT.system, PROMPT.messages, TURN)
    assert made == [2]


async def test_the_question_of_a_worker_that_dies_goes_to_the_next_one() -> None:
    """The first worker has the question and is gone; the turn goes on with the one that is started then."""
    stuck, sound = Replies(lambda _: None), Replies(lambda _: "REFLECT: mended")
    async with MemoryBus() as bus, asyncio.TaskGroup() as group:
        dying = AsyncExitStack()
        first = RoleWorker(lambda _: stuck)
        await dying.enter_async_context(bus.serve(SUBJECT, first.answer))
        asked = group.create_task(asking(bus).complete(PROMPT))
        await stuck.open.wait()
        await first.close()
        await dying.aclose()
        async with bus.serve(SUBJECT, RoleWorker(lambda _: sound).answer):
            reply = await asked

    assert reply.text == "REFLECT: mended"


async def test_a_role_without_a_worker_is_silent_after_its_turn() -> None:
    """The error names the role and the limit; so it is with a worker whose mind fails."""

    def fails(_: Prompt) -> str:
        raise ModelError("the endpoint is away")

    async with MemoryBus() as bus:
        with pytest.raises(RoleSilentError, match=r"no worker of the role coder answered within 0\.1 s"):
            await asking(bus, 0.1).complete(PROMPT)
        async with bus.serve(SUBJECT, RoleWorker(lambda _: Replies(fails)).answer):
            with pytest.raises(RoleSilentError, match="the endpoint is away"):
                await asking(bus, 0.1).complete(PROMPT)


async def test_a_worker_whose_reply_is_none_is_silent() -> None:
    """Of another version, or no worker at all: one sentence, and the turn passes."""

    async def garbage(_: str, data: bytes) -> bytes:
        return b"{}" if not data else b'{"completion": "yes"}'

    async with MemoryBus() as bus, bus.serve(SUBJECT, garbage):
        with pytest.raises(RoleSilentError) as silent:
            await asking(bus, 0.1).complete(PROMPT)

    assert str(silent.value).endswith(
        "(the worker of the role coder: its reply cannot be read, start it with the version of the team)"
    )


async def test_a_newer_question_ends_one_that_was_given_up() -> None:
    """The worker is not held by a question that nobody waits for any more."""
    mind = Replies(lambda prompt: None if prompt.purpose == "think" else "REFLECT: new")
    worker = RoleWorker(lambda _: mind)
    async with MemoryBus() as bus, bus.serve(SUBJECT, worker.answer):
        with pytest.raises(RoleSilentError):
            await asking(bus, 0.2).complete(Prompt("think", "system", (), PROMPT.situation))
        reply = await asking(bus).complete(PROMPT)

    assert reply.text == "REFLECT: new"


@pytest.fixture
def team(life: Life, tmp_path: Path) -> Life:
    """A chain of planner and coder, told by its planner."""
    (tmp_path / "crew").mkdir()
    life.tools.append(tell)
    form(life, tmp_path / "crew", topology="star", controller={"kind": "fixed"}, roles={"critic": None})
    return life


async def test_the_turn_of_a_silent_role_passes_and_comes_back(team: Life) -> None:
    """While the coder is silent the others have its turns, each step is made once, and its message waits; then it reads
    that."""
    away = True

    def decides(situation: Situation) -> str:
        turn = situation.turn
        assert turn is not None
        if turn.role == "coder" and away:
            raise RoleSilentError("no worker of the role coder answered within 1 s")
        to = "coder" if turn.role == "planner" else "planner"
        return f'TOOL: tell(to="{to}", text="step {turn.step}")'

    team.mind.decides = decides
    await team.run(4)
    passed = team.facts(TeamPassed)
    away = False
    await team.run(8)

    acts = [act.team for act in team.facts(ActionTaken)]
    assert passed
    assert {one.role for one in passed} == {"coder"}
    assert team.facts(TeamPassed) == passed
    assert [turn.step for turn in acts] == list(range(8))
    assert "coder" not in [turn.role for turn in acts[:4]]
    assert "coder" in [turn.role for turn in acts[4:]]
    read = [prompt.situation.turn for prompt in team.mind.asked if prompt.purpose == "decide"]
    [first, *_] = [turn for turn in read[-4:] if turn is not None and turn.role == "coder"]
    assert ("planner", "step 0") in first.messages
    assert len({one.id for one in team.facts(TeamMessage)}) == len(team.facts(TeamMessage))


async def test_a_team_whose_roles_are_all_silent_waits(team: Life, start: Start) -> None:
    """Each was passed, then the agent says that no role answers; nothing is acted."""

    def silent(situation: Situation) -> str:
        assert situation.turn is not None
        raise RoleSilentError(f"no worker of the role {situation.turn.role} answered within 1 s")

    team.mind.decides = silent
    running = await start(None)
    while running.agent.control.state != "mind":
        await running.idle()

    assert {one.role for one in team.facts(TeamPassed)} == {"coder", "planner", "runner"}
    assert "no role of the team echo answers" in running.agent.control.why
    assert team.facts(ActionTaken) == []
