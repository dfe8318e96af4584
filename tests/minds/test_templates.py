"""Every template is a valid call of the tools there are, serves a goal or looks, and writes no words of its own."""

from __future__ import annotations

import random
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.actions import Registry, effect_of, parse, render
from conch.minds import RecentOutcome, Situation
from conch.minds.embedded.features import GROUPS
from conch.minds.embedded.templates import (
    GOALS_AT_ONCE,
    LINES_AT_ONCE,
    TEMPLATES,
    TemplateCall,
    TemplateSlots,
    fill_slots,
    fill_templates,
    goal_kind,
)
from conch.tools import BUILTIN_TOOLS
from conch_schemas import Action, CommandCheck, FileCheck, Goal, TestsCheck

REGISTRY = Registry(tool.spec for tool in BUILTIN_TOOLS)
TEXT = st.text(max_size=40)
Making = Callable[..., Situation]
EVERY = frozenset(GROUPS)

PLAN = Goal(id="g", statement="A plan.", check=FileCheck(path="PLAN.md"))


def made(name: str, situation: Situation) -> dict[str, str] | None:
    """The arguments that a template gives for the first goal, or for none."""
    template = next(template for template in TEMPLATES if template.name == name)
    gaps = slots(situation)
    if template.plain is not None:
        call = template.plain(gaps)
    else:
        assert template.of_goal is not None
        call = template.of_goal(gaps.goals[0]) if gaps.goals else None
    return None if call is None else call.args


def slots(situation: Situation, seed: int = 0, last: str | None = None) -> TemplateSlots:
    return fill_slots(situation, random.Random(seed), last)


def all_calls(situation: Situation, seed: int = 0) -> list[TemplateCall]:
    return [one.call for one in fill_templates(slots(situation, seed), EVERY, writes=True, commits=True)]


def hostile(files: list[str], said: str, statement: str) -> Situation:
    goal = Goal(id="g", statement=statement or "x", check=FileCheck(path=said or "x", contains=(said or "x",)))
    last = RecentOutcome(1, Action(kind="DO_NOTHING", valid=True, text=""), "none", said)
    return Situation(
        agent="echo", cycle=2, needs={said: 0.5}, pressing={}, need=said, goals=(goal,), message=said,
        recent=(last,), files=tuple(files), tools=REGISTRY.names,
    )  # fmt: skip


@given(st.lists(TEXT, max_size=3), TEXT, TEXT, st.integers(0, 9))
def test_every_reply_is_valid(files: list[str], said: str, statement: str, seed: int) -> None:
    """File names, goals and messages are anybody's: quoted, they stay inside their argument."""
    for call in all_calls(hostile(files, said, statement), seed):
        read = parse(render(call.action()), REGISTRY)
        assert read.valid, read.reason


def test_no_template_stands_twice() -> None:
    """Each has a name of its own, what is learnt is kept by it; and one way to make its call."""
    assert len({template.name for template in TEMPLATES}) == len(TEMPLATES)
    assert all((template.of_goal is None) is not (template.plain is None) for template in TEMPLATES)
    assert {template.group for template in TEMPLATES} == EVERY


def test_what_is_written_stands_in_the_goal_or_the_workspace(situation: Making) -> None:
    """Draws change nothing but which of the workspace's files and folders is looked at: no word is made up."""
    goal = Goal(
        id="g",
        statement="out/sums.csv has the sums of data/a.csv.",
        check=FileCheck(path="out/sums.csv", contains=("zinnia",)),
    )
    asked = situation(goals=(goal,), files=("data/a.csv", "notes/b.md"))

    first, other = all_calls(asked, 1), all_calls(asked, 2)

    assert [call for call in first if call not in other] == [
        call for call in first if call.args.get("path") in ("data/a.csv", "notes/b.md", "data", "notes")
        and call not in other
    ]  # fmt: skip


def test_only_a_person_who_waits_is_answered(situation: Making) -> None:
    """Without a message there is nothing to reply to; with one the answer says what it is from."""
    args = made("answer", situation(message="How are the limpets today?"))

    assert made("answer", situation()) is None
    assert args is not None
    assert "not a language model" in args["text"]


def test_a_goals_file_is_begun_only_where_there_is_none(situation: Making) -> None:
    """Writing replaces the whole of a file, so what is there is left alone. What is written is the file's name as a
    heading; a table has none."""
    table = Goal(id="t", statement="A table.", check=FileCheck(path="sums.csv", contains=("1",)))

    assert made("begin a goal's file", situation(goals=(table,))) is None
    assert made("begin a goal's file", situation(goals=(PLAN,))) == {
        "operation": "write",
        "path": "PLAN.md",
        "content": "# Plan\n",
    }
    assert made("begin a goal's file", situation(goals=(PLAN,), files=("PLAN.md",))) is None


def test_a_template_that_changes_the_workspace_says_so(situation: Making) -> None:
    """Every call of an operation that is declared to change it, but for shell commands that only read."""
    goals = (
        Goal(id="f", statement="x.md has the sums of a.csv.", check=FileCheck(path="x.md", contains=("x",))),
        Goal(id="t", statement="y.md has what a.py says.", check=FileCheck(path="y.md", contains=("y",))),
        Goal(id="c", statement="In a.csv, `x` should read `y`.", check=CommandCheck(command="true")),
    )
    asked = situation(goals=goals, files=("a.csv", "a.py", "x.md"))
    reading = re.compile(r"^(head|wc|diff)\b(?!.*(>|tee))")
    offered = fill_templates(slots(asked), EVERY, writes=True, commits=True)
    offered += fill_templates(slots(situation(message="well?")), EVERY, writes=True, commits=True)

    assert {TEMPLATES[one.template].name for one in offered} == {template.name for template in TEMPLATES}
    for number, call, _ in offered:
        only_reads = effect_of(call.action()) != "workspace" or bool(reading.match(call.args.get("command", "")))
        assert TEMPLATES[number].changes is not only_reads, TEMPLATES[number].name
        assert TEMPLATES[number].group == call.kind


def test_without_a_goal_it_looks_or_rests(situation: Making) -> None:
    """What a goal does not say is not made up."""
    without = fill_templates(slots(situation()), EVERY, writes=True, commits=True)

    assert {TEMPLATES[one.template].name for one in without} == {
        "list everything", "list a folder", "read a file", "see what changed", "see the history", "stage everything",
        "rest",
    }  # fmt: skip


@pytest.mark.parametrize(("writes", "commits"), [(False, True), (True, False), (False, False)])
def test_what_it_may_not_do_is_not_offered(situation: Making, writes: bool, commits: bool) -> None:
    """In a person's own directory it only looks; it commits only in a sample project."""
    offered = fill_templates(slots(situation(goals=(PLAN,))), EVERY, writes=writes, commits=commits)

    templates = [TEMPLATES[one.template] for one in offered]
    assert len(templates) > 4
    assert writes or not any(template.changes for template in templates)
    assert (writes and commits) or not any(template.commits for template in templates)


def test_of_a_thousand_goals_some_are_considered(situation: Making) -> None:
    """Each as likely as another, and the one that it worked on last always: a decision stays cheap."""
    goals = tuple(Goal(id=f"g{n}", statement=f"{n}.", check=FileCheck(path=f"{n}.md")) for n in range(1000))
    asked = situation(goals=goals)

    drawn = [{goal.id for goal in slots(asked, seed, "g7").goals} for seed in range(50)]

    assert all(len(ids) == GOALS_AT_ONCE and "g7" in ids for ids in drawn)
    assert len(set().union(*drawn)) > 50
    assert {goal.id for goal in slots(asked, 1, "over").goals} <= {goal.id for goal in goals}


@pytest.mark.parametrize(
    ("statement", "check", "kind"),
    [
        ("out.csv has the sums of a.csv.", FileCheck(path="out.csv"), "table"),
        ("out.md has what b.py says.", FileCheck(path="out.md"), "program"),
        ("out.md has the headings of c.md.", FileCheck(path="out.md"), "prose"),
        ("There is out.md.", FileCheck(path="out.md"), "file"),
        ("a.csv is committed.", CommandCheck(command="true"), "command"),
        ("All pass.", TestsCheck(), "tests"),
    ],
)
def test_a_goals_kind_follows_from_what_it_says(statement: str, check: Any, kind: str) -> None:
    """From its check, and the files that its statement names."""
    assert goal_kind(Goal(id="g", statement=statement, check=check), ("a.csv", "b.py", "c.md")) == kind


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
    words = shlex.split(args["command"].partition("; do ")[0].removeprefix("lines=0; "))
    assert words == ["for", "text", "in", *texts]
    call = TemplateCall("shell", args)
    assert parse(render(call.action()), REGISTRY).valid


def test_lines_that_a_goals_file_lacks_are_copied_some_at_a_time(situation: Making, tmp_path: Path) -> None:
    """Each once, in the order of the goal; a text that stands nowhere does not keep the others back."""
    (tmp_path / "notes").mkdir()
    lines = [f"- pebble {n}\n" for n in range(LINES_AT_ONCE + 3)]
    (tmp_path / "notes" / "tides.md").write_text("".join(lines))
    texts = ("nowhere", *(f"pebble {n}" for n in range(LINES_AT_ONCE + 3)))
    asked = Goal(id="g", statement="All pebbles.", check=FileCheck(path="all.md", contains=texts))
    args = made("copy the lines that a goal's file lacks", situation(goals=(asked,)))
    assert args is not None

    sizes = []
    for _ in range(3):
        subprocess.run(args["command"], shell=True, cwd=tmp_path, check=False)
        sizes.append(len((tmp_path / "all.md").read_text().splitlines()))

    assert sizes == [LINES_AT_ONCE, LINES_AT_ONCE + 3, LINES_AT_ONCE + 3]
    assert (tmp_path / "all.md").read_text() == "".join(lines)


def test_a_goals_check_is_run_as_it_stands(situation: Making) -> None:
    """Of a file there is none to run."""
    asked = Goal(id="g", statement="All pass.", check=CommandCheck(command="make check"))

    assert made("run a goal's check", situation(goals=(asked,))) == {"command": "make check"}
    assert made("run a goal's check", situation(goals=(PLAN,))) is None
