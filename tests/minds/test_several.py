"""Several minds as one: who is asked, who rests, who is asked again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config import MindSettings
from conch.errors import ModelError
from conch.minds import Completion, Mind, MindChain, MindFactory, Prompt, StepMinds
from conch.retry import MIND_REST
from conch_schemas import ExperienceRecorded, PromptMessage, Usage
from tests.minds.conftest import MakePrompt
from tests.minds.test_openai import FINE, giving, serving, whole

ASKED = Prompt("decide", "You are echo.", (PromptMessage(role="user", content="What now?"),), None)  # type: ignore[arg-type]
"""A question whose situation nobody reads here."""


@dataclass
class Steered:
    """A mind that replies with its name, or raises what it is told to."""

    kind: str
    error: ModelError | None = None
    model: str = "m"
    learns: bool = False
    asked: list[float] = field(default_factory=list)
    clock: Callable[[], float] = lambda: 0.0
    closed: bool = False

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(self.clock())
        if self.error is not None:
            raise self.error
        return Completion(self.kind, "stop", Usage(), self.model, 0.1)

    def learn(self, experience: ExperienceRecorded) -> None:
        raise AssertionError("it does not learn")

    async def close(self) -> None:
        self.closed = True


class Clock:
    """A clock that a test sets, in seconds."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def chain(clock: Clock, *minds: Steered) -> tuple[MindChain, list[str]]:
    told: list[str] = []
    for mind in minds:
        mind.clock = clock
    return MindChain(minds, clock=clock, tell=told.append), told


async def test_the_next_mind_replies_while_the_first_fails_and_the_first_is_taken_back() -> None:
    """The first rests 15 s, then it is asked again; each change is told once, in a sentence with the reason."""
    clock, first, second = Clock(), Steered("openai", ModelError("it is down")), Steered("reflex")
    minds, told = chain(clock, first, second)

    assert (minds.kind, (await minds.complete(ASKED)).text, minds.kind) == ("openai", "reflex", "reflex")
    clock.now = 14.9
    first.error = None
    assert (await minds.complete(ASKED)).text == "reflex"
    clock.now = 15.0
    assert (await minds.complete(ASKED)).text == "openai"

    assert first.asked == [0.0, 15.0]
    assert minds.kind == "openai"
    assert told == [
        "it is down; reflex (m) replies until the first mind works again",
        "openai (m) replies again",
    ]


@given(st.lists(st.tuples(st.floats(0, 400), st.booleans(), st.booleans()), max_size=40))
async def test_a_mind_that_fails_is_asked_again_within_a_bound_and_no_sooner(
    steps: list[tuple[float, bool, bool]],
) -> None:
    """However the minds come and go: a question has a reply if any mind could give one, a mind that failed n times in a
    row rests as the table says and never above 300 s, unless all of them rest."""
    clock, first, second = Clock(), Steered("a"), Steered("b")
    minds, _ = chain(clock, first, second)
    failures, again = {"a": 0, "b": 0}, {"a": 0.0, "b": 0.0}

    for seconds, first_works, second_works in steps:
        clock.now += seconds
        works = {"a": first_works, "b": second_works}
        first.error, second.error = (None if works[name] else ModelError(name) for name in "ab")
        awake = [name for name in "ab" if again[name] <= clock.now] or ["a", "b"]
        replies = next((name for name in awake if works[name]), None)
        for name in awake[: None if replies is None else awake.index(replies)]:
            failures[name] += 1
            rest = MIND_REST.after(failures[name])
            assert rest <= 300.0
            again[name] = clock.now + rest
        if replies is None:
            with pytest.raises(ModelError):
                await minds.complete(ASKED)
        else:
            failures[replies], again[replies] = 0, 0.0
            assert (await minds.complete(ASKED)).text == replies


async def test_an_error_of_all_says_what_each_said() -> None:
    """It is fatal where retrying helps none of them, and unreachable where none can be reached."""
    down = ModelError("a is down", unreachable=True, retry_after=7.0)
    clock, first, second = Clock(), Steered("a", down), Steered("b", ModelError("b refuses", fatal=True))
    minds, told = chain(clock, first, second)

    with pytest.raises(ModelError, match=r"^a is down; and the others: b refuses$") as failed:
        await minds.complete(ASKED)

    assert (failed.value.fatal, failed.value.unreachable, failed.value.retry_after) == (False, False, None)
    assert told == []
    first.error = ModelError("a refuses", fatal=True)
    with pytest.raises(ModelError) as failed:  # both rest: both are asked
        await minds.complete(ASKED)
    assert failed.value.fatal


async def test_a_long_retry_after_is_kept_to_within_the_bound() -> None:
    """An endpoint that asks for an hour rests for 300 s: a fallback costs rewards."""
    clock, first = Clock(), Steered("a", ModelError("later", retry_after=3600.0))
    minds, _ = chain(clock, first, Steered("b"))
    await minds.complete(ASKED)

    for clock.now in (299.0, 300.0):
        await minds.complete(ASKED)

    assert first.asked == [0.0, 300.0]


async def test_each_step_has_its_mind_and_all_are_closed() -> None:
    """A decision is asked of one, thoughts and reflections of the other; kind and model are the deciding one's."""
    thinks, decides = Steered("a", model="small"), Steered("b", model="large")
    minds = StepMinds(thinks, decides)

    said = [
        (await minds.complete(Prompt(step, "", (), ASKED.situation))).text for step in ("think", "decide", "reflect")
    ]
    await minds.close()

    assert said == ["a", "b", "a"]
    assert (minds.kind, minds.model) == ("b", "large")
    assert (thinks.closed, decides.closed) == (True, True)


def settings(**mind: Any) -> MindSettings:
    return MindSettings.model_validate(mind)


async def replies(mind: Mind, *prompts: Prompt) -> list[str]:
    return [(await mind.complete(prompt)).model for prompt in prompts]


async def test_the_factory_makes_what_the_settings_name(prompt: MakePrompt, tmp_path: Path) -> None:
    """A small model thinks, a large one at another address decides with its own key, the embedded mind stands by."""
    refusal = whole(401, '{"error": {"message": "no such key"}}')
    async with serving(giving(FINE)) as small, serving(FINE, refusal) as large:
        given = settings(
            kind="openai", base_url=small.url, model="small", api_key="sk-small",
            decide={"base_url": large.url, "model": "large", "api_key": "sk-large"}, fallbacks=[{"kind": "reflex"}],
        )  # fmt: skip
        async with MindFactory(given) as minds:
            mind = minds.make(seed=0, memory=tmp_path / "reflex.npz")
            models = await replies(mind, prompt("think"), prompt("decide"), prompt("think"), prompt("decide"))
            await mind.close()

    assert models == ["small", "large", "small", "reflex-linucb-2"]
    assert (mind.kind, mind.model, mind.learns) == ("reflex", "reflex-linucb-2", True)
    assert {"sk-small" in head for head, _ in small.requests} == {True}
    assert {"sk-large" in head for head, _ in large.requests} == {True}
    assert {body["model"] for _, body in large.requests} == {"large"}


async def test_an_agent_has_one_reflex_mind_whatever_asks_it(prompt: MakePrompt, tmp_path: Path) -> None:
    """It thinks, and stands by for the decision: two would write over what the other has learnt."""
    given = settings(kind="openai", base_url="http://127.0.0.1:9/v1", timeout=0.01, think={"kind": "reflex"},
                     fallbacks=[{"kind": "reflex"}])  # fmt: skip
    async with MindFactory(given) as minds:
        mind = minds.make(seed=0, memory=tmp_path / "reflex.npz")
        assert isinstance(mind, StepMinds)
        assert await replies(mind, prompt("think"), prompt("decide")) == ["reflex-linucb-2"] * 2
        assert isinstance(mind.decides, MindChain)
        assert mind.decides.minds[1] is mind.thinks
        await mind.close()
