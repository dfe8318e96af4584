"""An agent of several minds: its policy follows the one that replies, its costs are those of the counted tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from conch.config import MindSettings
from conch.cycle import model_retry
from conch.cycle.agent import prompt_limits
from conch.cycle.hosting import questions
from conch.cycle.hosting.questions import OpenQuestion, OpenQuestions
from conch.errors import ModelError
from conch.minds import Completion, MindChain, Prompt, ReplyProgress
from conch.processes.messages import MindAsked
from conch_schemas import ActionDecided, ActionTaken, Cost, CycleReflected, PolicySet, ThoughtFormed, Usage
from tests.cycle.conftest import FakeMind, Life

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.cycle.conftest import Start


class Named(FakeMind):
    """A fake mind of a kind of its own; `down` while it fails."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.down = kind, False

    async def complete(self, prompt: Prompt) -> Completion:
        if self.down:
            raise ModelError("it is down")
        return await super().complete(prompt)


async def test_the_policy_is_that_of_the_mind_that_replied(life: Life) -> None:
    """A fallback's acts stand under a digest of their own, which is announced before; so does the first one's return.
    An act of one mind never stands under the other's digest."""
    now = 0.0
    first, second = Named("openai"), Named("reflex")
    life.mind = MindChain([first, second], clock=lambda: now)  # type: ignore[assignment]

    await life.run(1)
    first.down = True
    await life.run(2)
    now, first.down = 20.0, False
    await life.run(3)

    announced = {one.policy: one.mind for one in life.facts(PolicySet)}
    assert [one.mind for one in life.facts(PolicySet)] == ["openai", *("openai", "reflex"), *("reflex", "openai")]
    for kind in (ThoughtFormed, ActionDecided, ActionTaken, CycleReflected):
        assert [announced[fact.policy] for fact in life.facts(kind)] == ["openai", "reflex", "openai"]
    assert [fact.decoding.engine for fact in life.facts(ActionTaken) if fact.decoding] == ["openai", "reflex", "openai"]
    order = [type(fact) for fact in life.facts(PolicySet, ThoughtFormed)]
    assert order == [PolicySet, ThoughtFormed, *[PolicySet, PolicySet, ThoughtFormed] * 2]  # one at each start


async def test_another_mind_that_thinks_is_another_policy(life: Life) -> None:
    """The digest covers both, and `policy.set` names the one that thinks."""
    await life.run(1)
    life.configured(mind={"think": {"kind": "openai", "model": "small"}})
    await life.run(1)

    plain, mixed = life.facts(PolicySet)
    assert (plain.thinks, mixed.thinks) == ("", "openai small")
    assert plain.policy != mixed.policy
    assert (plain.mind, plain.model) == (mixed.mind, mixed.model)


def priced(life: Life, *costs: float | None) -> None:
    """Have the mind's replies cost this, in turn."""
    left, usual = list(costs), life.mind.complete
    life.mind.usage = Usage(input_tokens=10, output_tokens=1)

    async def complete(prompt: Prompt) -> Completion:
        return replace(await usual(prompt), cost=left.pop(0))

    life.mind.complete = complete  # type: ignore[method-assign]


async def test_a_cycle_costs_what_its_thought_and_decision_cost(life: Life) -> None:
    """In the currency of the settings; where one of them is unknown, so is the sum. A reflection stands by itself."""
    life.configured(mind={"currency": "EUR"}, cycle={"reflect_every": 2})
    priced(life, 0.25, 0.5, 0.25, None, 0.125)

    await life.run(2)

    def eur(amount: float) -> Cost:
        return Cost(amount=amount, currency="EUR")

    assert [fact.cost for fact in life.facts(ThoughtFormed)] == [eur(0.25), eur(0.25)]
    assert [fact.cost for fact in life.facts(ActionDecided)] == [eur(0.5), None]
    assert [fact.cost for fact in life.facts(ActionTaken)] == [eur(0.75), None]
    assert [fact.cost for fact in life.facts(CycleReflected)] == [None, eur(0.125)]


async def test_a_cycle_of_two_currencies_has_no_known_cost(life: Life) -> None:
    """The settings were changed between its thought and its decision, while the agent was down: no sum is made up."""
    priced(life, 0.25, 0.5, 0.5)
    life.configured(mind={"currency": "EUR"})
    await life.crash(1, 2, stored=True)
    life.configured(mind={"currency": "USD"})
    await life.run(1)

    [thought], [decided], [act] = life.facts(ThoughtFormed), life.facts(ActionDecided), life.facts(ActionTaken)
    assert (thought.cost.currency, decided.cost.currency, act.cost) == ("EUR", "USD", None)


async def test_without_a_currency_no_cost_is_known(life: Life) -> None:
    """Not even that of a mind that says one: an amount of no currency is no amount."""
    priced(life, 1.0, 1.0)

    await life.run(1)

    assert [fact.cost for fact in life.facts(ActionTaken)] == [None]


async def test_the_status_tells_the_question_that_is_waited_for(
    life: Life, start: Start, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which step asks, for how long, how much has come; a question of a moment is not told, nor that a mind is silent
    whose words are coming."""
    monkeypatch.setattr(questions, "SILENT_SECONDS", 0.05)
    monkeypatch.setattr(model_retry, "SILENT_SECONDS", 0.01)
    seen: list[Any] = []
    usual = life.mind.complete

    async def slow(prompt: Prompt) -> Completion:
        if prompt.purpose == "decide" and not seen:
            assert prompt.progress is not None
            prompt.progress.characters = 30
            assert "asks" not in running.agent.status()
            await until(lambda: "asks" in running.agent.status())
            seen.append(running.agent.status())
        return await usual(prompt)

    life.mind.complete = slow  # type: ignore[method-assign]
    running = await start()
    await until(lambda: seen)

    [status] = seen
    assert (status["asks"]["phase"], status["asks"]["tokens"]) == ("decide", 10)
    assert status["asks"]["seconds"] >= 0.05
    assert status["mind"] == "fake fake-1"
    assert "mind" not in [state for state, _ in life.said]


def question(seconds: float, characters: int = 0) -> OpenQuestion:
    return OpenQuestion("think", ReplyProgress(characters), questions.monotonic() - seconds)


async def test_long_questions_are_reported_until_they_are_over(until: Until, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest one, with the number of agents that wait; short ones never; once all are over, that, once."""
    monkeypatch.setattr(questions, "REPORT_SECONDS", 0.01)
    monkeypatch.setattr(questions, "SILENT_SECONDS", 0.05)
    told: list[MindAsked] = []
    waiting = OpenQuestions(told.append)
    ask: dict[str, Callable[[OpenQuestion | None], None]] = {name: waiting.of(name) for name in ("a", "b", "c")}

    ask["a"](question(7.0))
    ask["b"](question(40.0, 33))
    ask["c"](question(-1000.0))
    await until(lambda: len(told) > 1)
    assert {(one.agent, one.phase, one.tokens, one.agents) for one in told} == {("b", "think", 11, 2)}
    ask["b"](None)
    await until(lambda: told[-1].agent == "a")
    assert told[-1].agents == 1
    ask["a"](None)
    assert (told[-1].agent, told[-1].agents) == ("", 0)
    assert [one.agents for one in told].count(0) == 1
    waiting.close()
    waiting.close()


async def test_a_mind_that_replies_at_once_is_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand questions, one timer, not a word."""
    told: list[MindAsked] = []
    waiting = OpenQuestions(told.append)
    for _ in range(1000):
        waiting.of("a")(question(0.0))
        waiting.of("a")(None)

    assert told == []
    waiting.close()


@pytest.mark.parametrize(
    ("mind", "budget", "is_read"),
    [
        ({}, 512, False),
        ({"kind": "openai"}, 8000, True),
        ({"kind": "openai", "fallbacks": [{"kind": "reflex"}]}, 8000, True),
        ({"kind": "openai", "fallbacks": [{"kind": "local"}]}, 8000, True),
        ({"kind": "openai", "fallbacks": [{"kind": "local", "context_window": 8192}]}, 4096, True),
        ({"fallbacks": [{"kind": "local", "context_window": 8192}]}, 512, True),
        ({"kind": "openai", "fallbacks": [{"model": "small", "prompt_tokens": 900}]}, 900, True),
        ({"kind": "openai", "decide": {"model": "small", "prompt_tokens": 900}}, 900, True),
        ({"fallbacks": [{"kind": "openai"}]}, 8000, True),
        ({"think": {"kind": "openai"}}, 8000, True),
    ],
)
def test_a_prompt_fits_the_minds_that_are_known_to_be_small(mind: dict[str, Any], budget: int, is_read: bool) -> None:
    """A fallback of unknown size makes no prompt shorter, one whose window is known takes the prompt whole; a mind that
    reads nothing sets no limit for one that does."""
    limits = prompt_limits(MindSettings.model_validate(mind))

    assert (limits.budget, limits.is_read) == (budget, is_read)
