"""The reflex mind records the probability of each choice exactly, so that its log can be used to compare policies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.minds.embedded.features import GROUPS
from conch.minds.embedded.memory import BanditMemory, save
from conch.minds.reflex import ReflexMind

if TYPE_CHECKING:
    from tests.minds.conftest import MakePrompt

ALWAYS = (
    'TOOL: filesystem(operation="list", path=".")',
    'TOOL: git(operation="status")',
    'TOOL: git(operation="log")',
    "DO_NOTHING: a pause",
)
"""Replies that are among the candidates of every cycle."""
CYCLES = 200


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A memory in which all templates were tried, and git the least: its calls are preferred."""
    memory = BanditMemory()
    memory.tries[:, 0] = 1
    memory.uses[:] = [50 if group != "git" else 3 for group in GROUPS]
    path = tmp_path / "reflex.npz"
    save(memory, path)
    return path


async def chosen(mind: ReflexMind, prompt: MakePrompt, cycle: int = 7) -> tuple[str, float]:
    reply = await mind.complete(prompt(cycle=cycle))
    assert reply.decoding is not None
    assert reply.decoding.propensity is not None
    return reply.text, reply.decoding.propensity


@pytest.mark.parametrize("explore", ["ucb", "random"])
async def test_propensities_are_the_frequencies_of_choices(explore: str, file: Path, prompt: MakePrompt) -> None:
    """Weighted by 1 ÷ propensity, a reply that is always a candidate is chosen once a decision on average."""
    mind = ReflexMind(file, seed=1, explore="random" if explore == "random" else "ucb", epsilon=0.5)
    drawn = [await chosen(mind, prompt, cycle) for cycle in range(CYCLES)]

    weighted = sum(1 / propensity for text, propensity in drawn if text in ALWAYS)
    assert weighted / (CYCLES * len(ALWAYS)) == pytest.approx(1.0, abs=0.4)


async def test_without_a_floor_only_what_is_preferred_has_a_probability(file: Path, prompt: MakePrompt) -> None:
    """At epsilon 0 all preferred candidates have one probability; at 1 each has its share of all."""
    preferred = {(await chosen(ReflexMind(file, seed=3, epsilon=0.0), prompt))[1] for _ in range(3)}
    text, even = await chosen(ReflexMind(file, seed=3, epsilon=1.0), prompt)

    assert len(preferred) == 1
    assert even < 0.2, text


async def test_a_mind_that_is_asked_for_a_thought_has_no_propensity(file: Path, prompt: MakePrompt) -> None:
    """Thoughts and reflections are not chosen among candidates."""
    for purpose in ("think", "reflect"):
        reply = await ReflexMind(file, epsilon=0.5).complete(prompt(purpose))
        assert reply.decoding is not None
        assert reply.decoding.propensity is None
