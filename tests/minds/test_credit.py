"""Credit over the steps of a task: what led to a reward is worth some of it, however late it came."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.minds.embedded.credit import STEPS, known_rewards, task_return
from conch.minds.embedded.memory import load
from conch.minds.embedded.templates import TEMPLATES
from conch.minds.reflex import ReflexMind
from conch_schemas import FileCheck, Goal
from tests.minds.test_reflex import experience

if TYPE_CHECKING:
    from tests.minds.conftest import MakePrompt

REWARD = st.floats(-1, 1)
PLAN = Goal(id="plan", statement="There is a plan.", check=FileCheck(path="PLAN.md"))


@given(st.lists(REWARD, min_size=1, max_size=12), REWARD)
def test_without_a_discount_the_reward_alone_counts(rewards: list[float], mean: float) -> None:
    """It is a contextual bandit."""
    assert task_return(rewards, mean, 0.0) == rewards[0]


@given(st.lists(REWARD, min_size=1, max_size=12), REWARD, st.floats(0, 1))
def test_credit_is_bounded_and_never_takes_from_the_own_reward(
    rewards: list[float], mean: float, discount: float
) -> None:
    """A task may be left at each step; what lies STEPS decisions away changes nothing."""
    credit = task_return(rewards, mean, discount)

    assert rewards[0] <= credit + 1e-9
    assert credit <= rewards[0] + sum(max(0.0, reward - mean) for reward in rewards[1:STEPS]) + 1e-9
    assert credit == task_return(rewards[:STEPS], mean, discount)


def test_a_step_is_worth_what_it_leads_to() -> None:
    """Above the mean of an act, discounted; a detour between costs what an act earns."""
    assert task_return([-0.05, 0.8], 0.2) == pytest.approx(-0.05 + 0.99 * 0.6)
    assert task_return([-0.05, 0.0, 0.8], 0.2) == pytest.approx(-0.05 + 0.99 * (-0.2 + 0.99 * 0.6))
    assert task_return([-0.05, -0.5, -0.5, 0.8], 0.2) == -0.05


def test_what_is_not_known_yet_ends_what_counts() -> None:
    """Rewards come in any order; those behind a gap wait for it."""
    assert known_rewards([0.1, 0.2, None, 0.9]) == [0.1, 0.2]
    assert known_rewards([0.0] * 20) == [0.0] * STEPS


async def credits(mind: ReflexMind, prompt: MakePrompt, order: list[int]) -> list[float]:
    """What is learnt for three decisions for one goal whose rewards, 0.1, 0.2 and 0.9, come in this order."""
    raws = [(await mind.complete(prompt(cycle=cycle, goals=(PLAN,)))).text for cycle in range(1, 4)]
    for place in order:
        mind.learn(experience(place + 1, raws[place], (0.1, 0.2, 0.9)[place]))
    mind.learn(experience(3, raws[2], 0.5, revision=2))
    return [mind._memory.decisions[cycle].credit for cycle in range(1, 4)]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
async def test_late_rewards_are_credited_to_what_led_to_them(
    tmp_path: Path, prompt: MakePrompt, monkeypatch: pytest.MonkeyPatch, order: list[int]
) -> None:
    """In whatever order they come, and as they are corrected."""
    monkeypatch.setattr("conch.minds.reflex.mean_after", lambda mean, reward: 0.0)
    begins = next(n for n, template in enumerate(TEMPLATES) if template.name == "begin a goal's file")
    monkeypatch.setattr(
        "conch.minds.reflex._untried", lambda _, choices: [n for n, one in enumerate(choices) if one.template == begins]
    )
    assert await credits(ReflexMind(tmp_path / "a.npz"), prompt, order) == pytest.approx(
        [0.1 + 0.99 * (0.2 + 0.99 * 0.5), 0.2 + 0.99 * 0.5, 0.5]
    )
    assert await credits(ReflexMind(tmp_path / "b.npz", discount=0.0), prompt, order) == [0.1, 0.2, 0.5]


async def test_credit_is_given_after_a_restart_too(tmp_path: Path, prompt: MakePrompt) -> None:
    """Steps of a task and their rewards are stored with the rest."""
    mind = ReflexMind(tmp_path / "a.npz")
    await credits(mind, prompt, [0, 1, 2])
    await mind.close()

    kept, now = load(tmp_path / "a.npz"), mind._memory

    assert [(d.goal, d.reward, d.credit) for d in kept.decisions.values()] == [
        (d.goal, d.reward, d.credit) for d in now.decisions.values()
    ]
    assert kept.mean == now.mean
