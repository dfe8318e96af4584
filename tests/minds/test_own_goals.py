"""Goals that the reflex mind proposes: from its workspace, seldom, and never where it may not write."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.actions import Registry, parse
from conch.minds import RecentOutcome, Situation
from conch.minds.own_goals.propose import EVERY, FIRST, proposals
from conch.minds.reflex import ReflexMind
from conch.tools import BUILTIN_TOOLS
from conch.tools.proposals.goal import goal_of_call
from conch_schemas import Action, FileCheck, Goal
from tests.minds.conftest import NEEDS

if TYPE_CHECKING:
    from tests.minds.conftest import MakePrompt, MakeSituation

REGISTRY = Registry(tool.spec for tool in BUILTIN_TOOLS)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
OPEN = Goal(id="open", statement="There is a plan.", check=FileCheck(path="PLAN.md"))
TIDES = "# Tides\nHigh water comes twice a day.\nLow water comes between.\nshort\nWhat makes the spring tide?\n"


def read(path: str = "notes/tides.md", output: str = TIDES) -> tuple[RecentOutcome, ...]:
    """An act that read a file."""
    args = {"operation": "read", "path": path}
    return (RecentOutcome(1, Action(kind="TOOL", valid=True, tool="filesystem", args=args), "success", output),)


def proposed(situation: Situation) -> list[dict[str, Any]]:
    return [action.args for action in proposals(situation)]


def test_a_note_is_proposed_that_the_mind_can_keep(situation: MakeSituation) -> None:
    """The longest lines of what was read, which the journal lacks, with a check."""
    [note] = proposed(situation(cycle=FIRST, may_propose=True, recent=read()))

    assert (note["path"], note["contains"]) == (
        "journal.md",
        ["High water comes twice a day.", "Low water comes between.", "What makes the spring tide?"],
    )


@pytest.mark.parametrize("parts", [{"may_propose": False}, {"cycle": FIRST + 1}, {"cycle": 0}, {"goals": (OPEN,)}])
def test_it_proposes_seldom(situation: MakeSituation, parts: dict[str, Any]) -> None:
    """In one cycle of EVERY, only where the agent may set a goal itself, and none while there is work to do."""
    plain = {"cycle": FIRST + EVERY, "may_propose": True, "recent": read()}

    assert proposed(situation(**plain))
    assert proposed(situation(**plain | parts)) == []


@given(st.text(max_size=400), st.text(max_size=80), st.lists(st.text(max_size=30), max_size=4))
def test_no_words_of_a_file_are_in_a_statement(output: str, message: str, files: list[str]) -> None:
    """Whatever stands in files, messages and names: the statements are the mind's own, and every call describes a goal
    that is written and parsed as it was."""
    at = Situation("echo", FIRST, NEEDS, NEEDS, "curiosity", may_propose=True, recent=read(output=output),
                   message=message, files=tuple(files))  # fmt: skip
    for args in proposed(at):
        goal = goal_of_call(args, NOW)
        assert goal.statement == "The longest lines of notes/tides.md are kept in journal.md."


async def test_the_mind_proposes_each_goal_once(prompt: MakePrompt, tmp_path: Path) -> None:
    """The reply is a call of the tool, with a propensity of 1; the next time it decides as ever."""
    mind = ReflexMind(tmp_path / "m.npz")
    parts = {"may_propose": True, "recent": read(), "tools": ("filesystem", "goal")}
    replies = [await mind.complete(prompt(cycle=FIRST + EVERY * number, **parts)) for number in range(2)]

    first, second = (parse(reply.text, REGISTRY) for reply in replies)
    assert first.valid
    assert (first.tool, second.tool == "goal") == ("goal", False)
    assert replies[0].decoding is not None
    assert replies[0].decoding.propensity == 1.0


async def test_a_mind_that_only_reads_proposes_nothing(prompt: MakePrompt, tmp_path: Path) -> None:
    """In a person's own directory it changes nothing, so it sets itself no goals there."""
    mind = ReflexMind(tmp_path / "m.npz", writes=False)
    reply = await mind.complete(prompt(cycle=FIRST, may_propose=True, recent=read(), files=("test_x.py",)))

    assert parse(reply.text, REGISTRY).tool != "goal"
