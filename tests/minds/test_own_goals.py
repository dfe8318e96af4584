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
from conch_schemas import Action, Goal, TestsCheck
from tests.minds.conftest import NEEDS

if TYPE_CHECKING:
    from tests.minds.conftest import MakePrompt, MakeSituation

REGISTRY = Registry(tool.spec for tool in BUILTIN_TOOLS)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TIDES = "# Tides\nHigh water comes twice a day.\nLow water comes between.\nshort\nWhat makes the spring tide?\n"


def read(path: str = "notes/tides.md", output: str = TIDES) -> tuple[RecentOutcome, ...]:
    """An act that read a file."""
    args = {"operation": "read", "path": path}
    return (RecentOutcome(1, Action(kind="TOOL", valid=True, tool="filesystem", args=args), "success", output),)


def proposed(situation: Situation) -> list[dict[str, Any]]:
    return [action.args for action in proposals(situation)]


def test_each_template_names_what_the_workspace_lacks(situation: MakeSituation) -> None:
    """Tests that no goal is about, a question that waits, lines that the journal lacks: each with a check."""
    found = proposed(situation(cycle=FIRST, may_propose=True, files=("README.md", "tests/test_tide.py"), recent=read()))

    tests, question, note = found
    assert (tests["operation"], tests["command"]) == ("tests", "python3 -m unittest discover -s tests")
    assert (question["path"], question["contains"]) == ("answers.md", ["What makes the spring tide?", "Answer:"])
    assert (note["path"], note["contains"]) == (
        "journal.md",
        ["High water comes twice a day.", "Low water comes between.", "What makes the spring tide?"],
    )


def test_a_persons_question_comes_before_a_files(situation: MakeSituation) -> None:
    """Of the message that waits, or one behind it."""
    found = proposed(situation(cycle=FIRST, may_propose=True, message="Hello.", waiting=("When is high water?",)))

    assert found[0]["contains"] == ["When is high water?", "Answer:"]


@pytest.mark.parametrize("parts", [{"may_propose": False}, {"cycle": FIRST + 1}, {"cycle": 0}])
def test_it_proposes_seldom(situation: MakeSituation, parts: dict[str, Any]) -> None:
    """In one cycle of EVERY, and only where the agent may set a goal itself."""
    plain = {"cycle": FIRST + EVERY, "may_propose": True, "recent": read(), "files": ("test_x.py",)}

    assert proposed(situation(**plain))
    assert proposed(situation(**plain | parts)) == []


def test_tests_that_a_goal_is_about_are_not_proposed(situation: MakeSituation) -> None:
    """Whatever the goal's command is."""
    goal = Goal(id="t", statement="All tests pass.", check=TestsCheck())

    assert proposed(situation(cycle=FIRST, may_propose=True, files=("test_x.py",), goals=(goal,))) == []


@given(st.text(max_size=400), st.text(max_size=80), st.lists(st.text(max_size=30), max_size=4))
def test_no_words_of_a_file_are_in_a_statement(output: str, message: str, files: list[str]) -> None:
    """Whatever stands in files, messages and names: the statements are the mind's own, and every call describes a goal
    that is written and parsed as it was."""
    at = Situation("echo", FIRST, NEEDS, NEEDS, "curiosity", may_propose=True, recent=read(output=output),
                   message=message, files=tuple(files))  # fmt: skip
    for args in proposed(at):
        goal = goal_of_call(args, NOW)
        assert goal.statement.startswith(("All tests in ", "A question that waits", "The longest lines of notes/tides"))


async def test_the_mind_proposes_each_goal_once(prompt: MakePrompt, tmp_path: Path) -> None:
    """The reply is a call of the tool, with a propensity of 1; the next time it proposes another goal, or decides as
    ever."""
    mind = ReflexMind(tmp_path / "m.npz")
    parts = {"may_propose": True, "recent": read(), "tools": ("filesystem", "goal")}
    replies = [await mind.complete(prompt(cycle=FIRST + EVERY * number, **parts)) for number in range(3)]

    actions = [parse(reply.text, REGISTRY) for reply in replies]
    assert [action.tool for action in actions[:2]] == ["goal", "goal"]
    assert all(action.valid for action in actions)
    assert actions[2].tool != "goal"
    assert len({repr(action.args) for action in actions}) == 3
    assert [reply.decoding.propensity for reply in replies[:2] if reply.decoding is not None] == [1.0, 1.0]


async def test_a_mind_that_only_reads_proposes_nothing(prompt: MakePrompt, tmp_path: Path) -> None:
    """In a person's own directory it changes nothing, so it sets itself no goals there."""
    mind = ReflexMind(tmp_path / "m.npz", writes=False)
    reply = await mind.complete(prompt(cycle=FIRST, may_propose=True, recent=read(), files=("test_x.py",)))

    assert parse(reply.text, REGISTRY).tool != "goal"
