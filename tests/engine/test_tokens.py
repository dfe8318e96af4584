"""A prompt is counted by the served model's own tokenizer, as the engine itself counts it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conch.actions import Registry, parse
from conch.config import Settings
from conch.cycle.prompts.build import PromptLimits, system_prompt
from conch.cycle.prompts.counted import counted_prompt
from conch.engine import RunningEngine, TokenCounter
from conch.minds import MindFactory, RecentOutcome, Situation
from conch.tools import BUILTIN_TOOLS
from conch.values import Values
from conch.workspace import default_goals
from conch_schemas import Action

REGISTRY = Registry(tool.spec for tool in BUILTIN_TOOLS)
ACT = RecentOutcome(
    0, Action(kind="TOOL", valid=True, tool="shell", args={"command": "cat notes"}), "success", "",
    result="Limpets graze on the film of algae; at low tide each goes home to its scar.\n" * 100,
)  # fmt: skip
SITUATION = Situation(
    "echo", 0, {"curiosity": 0.5}, {"curiosity": 0.25}, "curiosity", goals=default_goals(), recent=(ACT,) * 3,
    files=("notes/kelp.md", "data/tides.csv"),
)  # fmt: skip


@pytest.mark.parametrize("budget", [512, 2000])
async def test_the_engine_reads_no_more_tokens_than_were_counted(asking: Settings, tmp_path: Path, budget: int) -> None:
    """And at most a tenth fewer: the count holds for the prompt with its chat template."""
    counter = TokenCounter(asking.mind.base_url, asking.mind.api_key)
    limits = PromptLimits(16, budget, counter=counter)
    system = system_prompt("echo", REGISTRY, Values(), budget, is_brief=limits.is_brief)

    prompt = await counted_prompt("decide", system, SITUATION, limits)
    async with MindFactory(asking.mind) as minds:
        reply = await minds.make(seed=1, memory=tmp_path).complete(prompt)
    await counter.close()

    assert prompt.counted == "tokenizer"
    assert 0.85 * prompt.tokens <= reply.usage.input_tokens <= prompt.tokens <= budget


async def test_the_model_stages_the_file_that_a_goal_names(asking: Settings, tmp_path: Path) -> None:
    """A task of the default workspace: a small model does it by its examples."""
    goals = tuple(goal for goal in default_goals() if goal.id == "commit-october")
    limits = PromptLimits(256, 512)
    system = system_prompt("echo", REGISTRY, Values(), 512, is_brief=True)
    prompt = replace(await counted_prompt("decide", system, replace(SITUATION, goals=goals), limits), registry=REGISTRY)
    async with MindFactory(asking.mind) as minds:
        replies = [await minds.make(seed=seed, memory=tmp_path).complete(prompt) for seed in range(5)]

    right = [parse(reply.text, REGISTRY).args.get("args") == "data/october.csv" for reply in replies]
    assert sum(right) >= 3, [reply.text for reply in replies]


async def test_the_counter_needs_the_key(engine: RunningEngine) -> None:
    """Without it the engine counts nothing, and the estimate holds."""
    assert engine.address.url is not None
    counter = TokenCounter(engine.address.url, None)
    assert await counter.counts(["a word"]) is None
    await counter.close()
