"""Every template is a valid call of the tools there are, whatever the situation holds."""

from __future__ import annotations

import random
import re
import shlex
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.actions import Registry, effect_of, parse, render
from conch.minds import RecentOutcome, Situation
from conch.minds.embedded.templates import DRAFTS, TEMPLATES, TemplateCall, TemplateSlots, fill_slots
from conch.tools import BUILTIN_TOOLS
from conch_schemas import Action, CommandCheck, FileCheck, Goal

REGISTRY = Registry(tool.spec for tool in BUILTIN_TOOLS)
TEXT = st.text(max_size=40)
Making = Callable[..., Situation]


OF_GOALS = (
    "read the file that a goal names",
    "stage the file that a goal names",
    "run a goal's check",
    "copy the lines that a goal's file lacks",
    "add up the columns that a goal names",
    "keep what the goal's tests say",
    "make the correction that a goal asks for",
)
"""The templates that a goal must give a value for."""


def made(name: str, situation: Situation) -> dict[str, str] | None:
    """The arguments that a template gives."""
    call = next(template for template in TEMPLATES if template.name == name).make(slots(situation))
    return None if call is None else call.args


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

    assert len(actions) >= len(TEMPLATES) - len(OF_GOALS) - 1
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


@pytest.mark.parametrize("name", OF_GOALS)
def test_without_a_goal_there_is_nothing_to_do_for_one(situation: Making, name: str) -> None:
    """What a goal does not say is not made up."""
    assert made(name, situation()) is None
    silent = Goal(id="g", statement="Be good.", check=FileCheck(path="PLAN.md"))
    assert made(name, situation(goals=(silent,))) is None


def test_a_correction_is_made_as_the_goal_spells_it(situation: Making) -> None:
    """Characters that mean more to sed stand for themselves."""
    statement = "In notes/tides.md, `a.b*[c]/$x` should read `d/&\\e`."
    asked = Goal(id="g", statement=statement, check=CommandCheck(command="true"))

    args = made("make the correction that a goal asks for", situation(goals=(asked,)))

    assert args is not None
    done = subprocess.run(
        args["command"].replace("-i -e", "-e").replace("notes/tides.md", "/dev/stdin"),
        shell=True, input="axb a.b*[c]/$x\n", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "axb d/&\\e\n"


@given(st.lists(TEXT, min_size=1, max_size=3), TEXT, TEXT)
def test_what_a_goal_says_stays_inside_its_argument(texts: list[str], path: str, statement: str) -> None:
    """Texts, paths and statements are quoted for the shell: the command is one of the grammar and runs nothing else."""
    check = FileCheck(path=path or "x", contains=tuple(texts))
    goal = Goal(id="g", statement=statement or "x", check=check)
    where = Situation(
        agent="echo", cycle=1, needs={}, pressing={}, need="rest", goals=(goal,), files=("a.csv", "a.py"),
        tools=REGISTRY.names,
    )  # fmt: skip

    args = made("copy the lines that a goal's file lacks", where)

    assert args is not None
    words = shlex.split(args["command"].partition("; do ")[0])
    assert words == ["for", "text", "in", *texts]
    call = TemplateCall("shell", args)
    assert parse(render(call.action()), REGISTRY).valid


def test_a_goals_check_is_run_as_it_stands(situation: Making) -> None:
    """Of a file there is none to run."""
    asked = Goal(id="g", statement="All pass.", check=CommandCheck(command="make check"))

    assert made("run a goal's check", situation(goals=(asked,))) == {"command": "make check"}
