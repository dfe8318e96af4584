"""Every template is a valid call of the tools there are, whatever the situation holds."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.actions import Registry, effect_of, parse, render
from conch.minds import RecentOutcome, Situation
from conch.minds.templates import DRAFTS, TEMPLATES, TemplateSlots, fill_slots
from conch.tools import BUILTIN_TOOLS
from conch_schemas import Action, FileCheck, Goal

REGISTRY = Registry(tool.spec for tool in BUILTIN_TOOLS)
TEXT = st.text(max_size=40)
Making = Callable[..., Situation]


def slots(situation: Situation, seed: int = 0) -> TemplateSlots:
    return fill_slots(situation, ("tide", "limpet"), random.Random(seed))


def hostile(files: list[str], said: str, statement: str) -> Situation:
    goal = Goal(id="g", statement=statement or "x", check=FileCheck(path=said or "x"))
    last = RecentOutcome(1, Action(kind="DO_NOTHING", valid=True, text=""), "none", said)
    return Situation(
        agent="echo", cycle=2, needs={said: 0.5}, pressing={}, need=said, goals=(goal,), message=said,
        recent=(last,), files=tuple(files), tools=REGISTRY.names,
    )  # fmt: skip


@given(st.lists(TEXT, max_size=3), TEXT, TEXT, st.integers(0, 9))
def test_every_reply_is_valid(files: list[str], said: str, statement: str, seed: int) -> None:
    """File names, goals, messages and outputs are anybody's: quoted, they stay inside their argument."""
    gaps = slots(hostile(files, said, statement), seed)

    actions = [call.action() for template in TEMPLATES if (call := template.make(gaps))]

    assert len(actions) >= len(TEMPLATES) - 1
    for action in actions:
        read = parse(render(action), REGISTRY)
        assert read.valid, read.reason


def test_no_template_stands_twice() -> None:
    """Each has a name of its own: what is learnt is kept by it."""
    assert len({template.name for template in TEMPLATES}) == len(TEMPLATES)


def test_only_a_person_who_waits_is_answered(situation: Making) -> None:
    """Without a message there is nothing to reply to; with one the answer says what it is from."""
    answer = next(template for template in TEMPLATES if template.name == "answer")

    call = answer.make(slots(situation(message="How are the limpets today?")))

    assert answer.make(slots(situation())) is None
    assert call is not None
    assert "not a language model" in call.args["text"]


@pytest.mark.parametrize("name", ["delete a draft", "rename a draft", "write a draft"])
def test_only_drafts_are_written_over_or_removed(situation: Making, name: str) -> None:
    """A person's files are read and added to, never replaced."""
    template = next(template for template in TEMPLATES if template.name == name)

    for seed in range(30):
        call = template.make(slots(situation(), seed))
        assert call is not None
        assert f"{DRAFTS}/" in (call.args.get("path") or call.args["command"])


def test_a_goals_file_is_begun_only_where_there_is_none(situation: Making) -> None:
    """Writing replaces the whole of a file, so what is there is left alone."""
    begin = next(template for template in TEMPLATES if template.name == "begin the goal's file")
    goal: dict[str, Any] = {"goals": (Goal(id="g", statement="A plan.", check=FileCheck(path="PLAN.md")),)}

    assert begin.make(slots(situation(**goal))) is not None
    assert begin.make(slots(situation(**goal, files=("PLAN.md",)))) is None


def test_a_template_that_changes_the_workspace_says_so(situation: Making) -> None:
    """Every call of an operation that is declared to change it, but for shell commands that only read and git's list of
    branches."""
    gaps = slots(situation(goals=(Goal(id="g", statement="A plan.", check=FileCheck(path="PLAN.md")),)))
    reading = re.compile(r"^(head|tail|sed -n|paste|wc|sort|grep|cut|awk|diff|date)\b(?!.*(>|tee))")

    for template in TEMPLATES:
        call = template.make(gaps)
        if call is not None:
            only_reads = effect_of(call.action()) != "workspace" or bool(reading.match(call.args.get("command", "")))
            assert template.changes is not (only_reads or call.args.get("operation") == "branch"), template.name
