"""Guardrails in the cycle: what they forbid is blocked before anything is done."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from conch.tools import tool
from conch.values import Guardrail, Values
from conch_schemas import ActionDecided, ActionTaken, PolicySet

if TYPE_CHECKING:
    from tests.cycle.conftest import Life


WHY = "the guardrail no-launch forbids it: Nothing is launched."
VALUES = Values(
    values={"humility": "You may be mistaken."},
    guardrails=(Guardrail(name="no-launch", why="Nothing is launched.", skills=("launch",), says=("rocket",)),),
    digest="d" * 64,
)


@pytest.fixture
def launched(life: Life) -> Counter[str]:
    """What was launched; the agent wants to launch a rocket, then a kite."""
    counted = Counter[str]()

    @tool
    async def launch(what: str) -> str:
        """Launches something."""
        counted[what] += 1
        return "gone"

    life.add(launch)
    life.values = VALUES
    whats = ["a  Rocket", "a kite"]
    life.mind.decides = lambda situation: f'TOOL: launch(what="{whats[situation.cycle % 2]}")'
    return counted


async def test_what_a_guardrail_forbids_is_not_done(life: Life, launched: Counter[str]) -> None:
    """The intent says why, the outcome is `blocked`; what it does not forbid is done."""
    await life.run(2)

    assert launched == {"a kite": 1}
    assert [fact.guard for fact in life.facts(ActionDecided)] == [WHY, None]
    taken = life.facts(ActionTaken)
    assert [(fact.outcome.status, fact.outcome.error) for fact in taken] == [("blocked", WHY), ("success", None)]


@pytest.mark.parametrize("at", range(6))
async def test_a_crash_opens_no_way_around_it(life: Life, launched: Counter[str], at: int) -> None:
    """At whichever publish: it is blocked all the same, never `unknown`."""
    await life.crash(1, at, stored=True)
    await life.run(1)

    assert launched == {}
    assert [fact.outcome.status for fact in life.facts(ActionTaken)] == ["blocked"]


async def test_the_mind_is_told_what_holds(life: Life, launched: Counter[str]) -> None:
    """In the system prompt, which the policy says whole, with the digest, where the budget has room for it."""
    life.configured(mind={"prompt_tokens": 4000})
    await life.run(1)

    [policy] = life.facts(PolicySet)
    assert policy.values == "d" * 64
    assert "What you stand for:\n- humility: You may be mistaken.\n" in policy.system_prompt
    assert "What is never done (a decision against it is blocked):\n- Nothing is launched.\n" in policy.system_prompt
    assert {prompt.system for prompt in life.mind.asked} == {policy.system_prompt}


async def test_other_values_are_another_policy(life: Life) -> None:
    """Said at each start."""
    for digest in ("a", "b", "a"):
        life.values = Values(digest=digest * 64)
        await life.run(0)
        life.journal.ids.clear()

    assert [fact.values[0] for fact in life.facts(PolicySet)] == ["a", "b", "a"]
