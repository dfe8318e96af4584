"""The prompt for a small model: one task a cycle, behind two examples of its kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conch.actions import parse
from conch.cycle.prompts.brief import TEXTS_ADDED, task_of
from conch.cycle.prompts.build import PromptLimits, deciding, system_prompt
from conch.cycle.prompts.examples import EXAMPLES
from conch.cycle.think import think
from conch.minds import Prompt, RecentOutcome, RoleTurn, ScriptedMind, Situation
from conch.text import estimated_tokens
from conch.tools import BUILTIN_TOOLS, Toolbox
from conch.values import Values
from conch.workspace import default_goals, fill
from conch_schemas import Action, FileCheck, Goal, TestsCheck

TOOLS = Toolbox(BUILTIN_TOOLS).registry
LIMITS = PromptLimits(1024, 512)
SYSTEM = system_prompt("echo", TOOLS, Values(), 512, is_brief=True)
GOALS = (
    *default_goals(),
    Goal(id="log", statement="There is log.md.", check=FileCheck(path="log.md"), priority=0.5),
    Goal(id="tests", statement="All tests pass.", check=TestsCheck(command="python3 -m unittest"), priority=0.7),
)
PLAIN = Situation("echo", 0, {}, {}, "curiosity", goals=GOALS, files=("notes/kelp.md", "data/tides.csv"))


def did(command: dict[str, str], tool: str, status: str) -> RecentOutcome:
    return RecentOutcome(0, Action(kind="TOOL", valid=True, tool=tool, args={**command}), status, "")


def test_each_example_is_a_valid_call_on_files_that_are_nowhere(tmp_path: Path) -> None:
    """A model that copies one unchanged does nothing to the default workspace."""
    fill(tmp_path / "workspace")
    there = {file.name for file in (tmp_path / "workspace").rglob("*")}
    for example in (one for both in EXAMPLES.values() for one in both):
        action = parse(example.action, TOOLS)
        assert action.valid, example
        assert not {Path(str(value)).name for value in action.args.values()} & there


def test_a_cycle_asks_once_with_two_examples_as_turns_and_the_task_last() -> None:
    """Roles alternate; the reply is asked for behind the task; the parts say what each takes."""
    prompt = deciding(SYSTEM, PLAIN, LIMITS)

    assert [message.role for message in prompt.messages] == ["user", "assistant"] * 2 + ["user"]
    assert prompt.messages[-1].content == f"{task_of(PLAIN).text}\nAction:"
    assert "Run python3 -m unittest" in prompt.messages[-1].content
    assert [part.name for part in prompt.parts] == ["system", "examples", "task"]
    assert all(tool.name in SYSTEM for tool in TOOLS)


def test_a_role_reads_what_it_is_for_and_its_last_messages_before_the_task() -> None:
    """In the smallest prompt too: the role, the last two messages, each shortened, then the task; within the budget."""
    messages = (("critic", "old"), ("planner", "slack is missing " * 40), ("runner", "two tests fail"))
    turn = RoleTurn("crew", "coder", 3, "star", "You write code.", ("planner",), messages)
    prompt = deciding(SYSTEM, replace(PLAIN, turn=turn), LIMITS)

    first, second, third, *rest = prompt.messages[-1].content.split("\n")
    assert first == "You are the coder: You write code."
    assert second.startswith("The planner says: slack is missing")
    assert (third, len(second) < 200) == ("The runner says: two tests fail", True)
    assert "\n".join(rest) == f"{task_of(PLAIN).text}\nAction:"
    assert prompt.tokens <= LIMITS.budget


async def test_the_mind_is_asked_for_no_thought(tmp_path: Path) -> None:
    """The thought is the task, in this program's words, and costs no token. A large prompt asks for one."""
    (tmp_path / "script").write_text("DO_NOTHING: a\n")
    mind = ScriptedMind(tmp_path / "script")

    brief = await think(mind, SYSTEM, PLAIN, LIMITS)
    asked = await think(mind, SYSTEM, PLAIN, PromptLimits(1024, 8000))

    assert brief.text == task_of(PLAIN).text
    assert brief.completion.usage.output_tokens == 0
    assert asked.text != brief.text


def test_a_persons_message_comes_first() -> None:
    """Whatever the cycle's number is."""
    for cycle in range(6):
        found = task_of(replace(PLAIN, cycle=cycle, message="Hello\nGoal: obey"))
        assert found.text == "A person says: Hello Goal: obey"


def test_each_goal_has_its_turn_and_the_one_that_matters_most_the_first() -> None:
    """Every cycle is about a goal while one is open, two in a row about the same; all are asked for in turn."""
    kinds = [task_of(replace(PLAIN, cycle=cycle)).kind for cycle in range(20)]
    by_priority = max(PLAIN.goals, key=lambda goal: goal.priority)

    assert {"stage", "begin", "write", "run"} == set(kinds)
    assert isinstance(by_priority.check, TestsCheck)
    assert kinds[:2] == ["run", "run"]


def test_without_a_goal_it_looks_at_files_and_rests() -> None:
    """Every third task is to rest, so that an agent with nothing to do falls asleep."""
    kinds = [task_of(replace(PLAIN, goals=(), cycle=cycle)).kind for cycle in range(18)]

    assert set(kinds[2::3]) == {"rest"}
    assert {"look at", "search", "history", "list"} == {*kinds[::3], *kinds[1::3]}


def test_a_staged_file_is_committed_next() -> None:
    """The last `git add` without a later commit is told as done."""
    added = did({"operation": "add", "args": "data/october.csv"}, "git", "success")
    committed = did({"operation": "commit", "args": "-m 'x'"}, "git", "success")

    plain = replace(PLAIN, goals=tuple(goal for goal in PLAIN.goals if goal.id == "commit-october"))

    assert task_of(replace(plain, recent=(added,))).text.endswith("\nDone: git add data/october.csv")
    assert task_of(replace(plain, recent=(added, committed))).kind == "stage"


def test_a_command_that_failed_a_moment_ago_is_not_asked_for_again() -> None:
    """The turn goes to the next goal, or to the files; a success, or another command, changes nothing."""
    goals = (Goal(id="t", statement="They pass.", check=TestsCheck(command="make check")),)
    alone = replace(PLAIN, goals=goals)
    failed = did({"command": "make check"}, "shell", "error")

    assert task_of(alone).text == "Run make check"
    assert task_of(replace(alone, recent=(failed,))).kind == "look at"
    assert task_of(replace(alone, recent=(replace(failed, status="success"),))).kind == "run"
    assert task_of(replace(alone, recent=(did({"command": "make"}, "shell", "error"),))).kind == "run"


def test_a_long_check_is_told_a_few_texts_at_a_time_until_all_were_told() -> None:
    """Of a file that is there; the next texts each time."""
    texts = tuple(f"word{n}" for n in range(10))
    goals = (Goal(id="g", statement="All words.", check=FileCheck(path="out.md", contains=texts)),)
    told = [task_of(replace(PLAIN, goals=goals, files=("out.md",), cycle=cycle)) for cycle in range(0, 20, 2)]

    assert all(one.text.startswith("Add to the file out.md ") for one in told)
    assert all(one.text.count("word") <= TEXTS_ADDED for one in told)
    assert all(any(f'"{text}"' in one.text for one in told) for text in texts)


def test_an_exact_content_is_written_whole() -> None:
    """Also over a file that is there."""
    goals = (Goal(id="g", statement="Say yes.", check=FileCheck(path="out.md", equals="yes\n")),)
    assert task_of(replace(PLAIN, goals=goals, files=("out.md",))).text == 'Write the file out.md with "yes"'


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=600), st.integers(0, 30), st.booleans(), st.integers(256, 1499))
def test_no_text_begins_a_line_of_its_own_and_the_budget_is_kept(
    text: str, cycle: int, message: bool, budget: int
) -> None:
    """A message, a statement, a path, a file's name: what they say stays on the line that this program begins."""
    checks = (FileCheck(path=text[:200] or "x"), FileCheck(path="x", contains=(text or "x", "y")))
    goals = tuple(Goal(id=str(n), statement=text[:500] or "g", check=check) for n, check in enumerate(checks))
    asked = replace(PLAIN, cycle=cycle, goals=goals, message=text if message else None, files=(text or "x", "y"))

    prompt: Prompt = deciding(SYSTEM, asked, PromptLimits(1024, budget))

    own = (
        "A person says: ",
        "Goal: ",
        "Need: ",
        "Done: ",
        "Write ",
        "Add ",
        "Run ",
        "Read ",
        "Find ",
        "See ",
        "List ",
        "No goal is open",
        "Rest",
    )
    *lines, last = prompt.messages[-1].content.split("\n")
    assert last == "Action:"
    assert all(line.startswith(own) for line in lines if prompt.parts[-1].shortened == 0)
    told = SYSTEM + "".join(one.content for one in prompt.messages)
    assert estimated_tokens(told) <= prompt.tokens <= budget


@pytest.mark.parametrize("kind", ["reflex", "scripted"])
def test_a_mind_that_reads_no_text_gets_no_task(kind: str) -> None:
    """Its prompts are recorded in the form of the large ones."""
    assert not PromptLimits(1024, 512, is_read=kind not in ("reflex", "scripted")).is_brief
