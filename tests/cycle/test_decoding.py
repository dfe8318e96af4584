"""The record of a decision's decoding: the digest of the prompt, the key of the state, what the mind says of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from conch.cycle.decide import state_key
from conch.cycle.prompts.build import PromptLimits, deciding
from conch.minds import RecentOutcome, Situation
from conch_schemas import Action, ActionDecided, ActionTaken, Goal, PolicySet
from conch_schemas.goal import FileCheck

if TYPE_CHECKING:
    from tests.cycle.conftest import Life

STATE = Situation("echo", 3, {"curiosity": 0.5}, {"curiosity": 0.25}, "curiosity", tools=("shell", "git"))


async def test_a_decision_carries_the_digest_of_all_that_the_mind_was_sent(life: Life) -> None:
    """System prompt and messages as JSON without white space have the recorded SHA-256; the act repeats the block."""
    await life.run(1)
    [policy], [decided], [act] = life.facts(PolicySet), life.facts(ActionDecided), life.facts(ActionTaken)

    said = [("system", policy.system_prompt), *((one.role, one.content) for one in decided.messages)]
    sent = json.dumps(
        [{"content": content, "role": role} for role, content in said], ensure_ascii=False, separators=(",", ":")
    )
    assert decided.decoding is not None
    assert decided.decoding.prompt_sha256 == hashlib.sha256(sent.encode()).hexdigest()
    assert (decided.decoding.engine, decided.decoding.model) == ("fake", "fake-1")
    assert (decided.decoding.constraint, decided.decoding.propensity) == ("free", None)
    assert act.decoding == decided.decoding


def _goal(name: str) -> Goal:
    return Goal(id=name, statement=name, check=FileCheck(path="a"))


def _recent(status: str) -> RecentOutcome:
    return RecentOutcome(1, Action(kind="DO_NOTHING", valid=True, text=""), status, "")


@pytest.mark.parametrize(
    "other",
    [
        replace(STATE, need="excellence"),
        replace(STATE, goals=(_goal("a"),)),
        replace(STATE, tools=("shell",)),
        replace(STATE, recent=(_recent("error"),)),
    ],
)
def test_a_state_has_the_key_of_its_need_goals_tools_and_last_outcome(other: Situation) -> None:
    """Another need, goal, tool set or kind of the last outcome is another state."""
    assert state_key(other) != state_key(STATE)


def test_a_state_does_not_change_with_what_else_is_in_the_prompt() -> None:
    """Cycle, thought, levels, files, the order of tools and goals, and older outcomes do not change the key."""
    one = replace(STATE, goals=(_goal("a"), _goal("b")), recent=(_recent("error"), _recent("success")))
    other = replace(
        one,
        cycle=9,
        needs={"curiosity": 0.1},
        thought="I think.",
        files=("a",),
        tools=("git", "shell"),
        goals=(_goal("b"), _goal("a")),
        recent=(_recent("success"),),
    )

    assert deciding("s", one, PromptLimits(10)) != deciding("s", other, PromptLimits(10))
    assert state_key(other) == state_key(one)
