"""The prompt for a small model: one task, two examples of its kind, one question a cycle. Pure.

A model of 135 million parameters completes a pattern and does not plan. So the task is chosen here, from the person's
message, the goals and their checks, or the files; the model writes the call. Any action remains possible, an idle one
too.

Measured on SmolLM2-135M by `ops/bench mind`, temperature 0.3, tasks of the default workspace: 17 of 18 calls were right
with examples as turns of the conversation, 7 of 18 with rewards and lessons before the task: it repeats the worst act,
too. They have no place in this form. With examples in the system prompt instead, a trial had no right call.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from conch.actions import Registry
from conch.cycle.prompts.examples import TaskKind
from conch.cycle.prompts.question import goals_by_weight
from conch.minds import RoleTurn, Situation
from conch_schemas import FileCheck, Goal, TestsCheck

TEXTS_AT_ONCE, TEXTS_ADDED = 8, 4
"""Most texts of a check that a task names, for a new file and for one that is there: of more, some are forgotten."""
TEXT = 120
"""Most characters of such a text."""
STATEMENT, MESSAGE = 240, 400
"""Most characters of a goal's statement and of a person's message."""
ROLE_TEXT = 160
"""Most characters of a role's prompt, and of a message to it."""
MESSAGES_HEARD = 2
"""Messages to a role that it is shown, the last ones."""
FILES_AT_ONCE = 3
"""Files that a task lets the model choose from."""
TURNS = 2
"""Tasks on one goal in a row: what a first act began, such as a commit, a second one ends."""
RESTS = 3
"""With no goal open, one task in so many is to rest."""


@dataclass(frozen=True)
class BriefTask:
    """What a small model is asked to do in one cycle."""

    kind: TaskKind
    lines: tuple[str, ...]
    """Each begins with a word of this module's own, and has no line end in it."""

    @property
    def text(self) -> str:
        """The lines as the model reads them."""
        return "\n".join(self.lines)


def turn_lines(turn: RoleTurn | None) -> tuple[str, ...]:
    """What the role that has the turn is for, and the last messages to it, before the task; empty where the agent is no
    team. At most 160 tokens or so."""
    if turn is None:
        return ()
    heard = turn.messages[-MESSAGES_HEARD:]
    said = (f"The {sender} says: {_flat(text, ROLE_TEXT)}" for sender, text in heard)
    return (f"You are the {turn.role}: {_flat(turn.prompt, ROLE_TEXT)}", *said)


def brief_system(agent: str, tools: Registry) -> str:
    """The system prompt beside a task: the forms of a reply and the tools by their arguments' names. Part of the
    policy."""
    listed = "; ".join(
        f"{spec.name}({', '.join(_argument(argument.name, argument.choices) for argument in spec.arguments)})"
        for spec in tools.specs
    )
    return (
        f"You are {agent}, an agent that works on files. Answer with one action: "
        f'TOOL: name(argument="value"), DO_NOTHING: reason, or REFLECT: topic.\nTools: {listed}.'
    )


def _argument(name: str, choices: Sequence[str]) -> str:
    return f"{name}={'|'.join(choices)}" if choices else name


def task_of(situation: Situation) -> BriefTask:
    """The task of a cycle: a person's message; else a goal, the one that matters most first and each in its turn, as a
    small model may never reach the first one; without an open goal a look at the files, or rest."""
    if situation.message is not None:
        return BriefTask("reply", (f"A person says: {_flat(situation.message, MESSAGE)}",))
    turn, goals = situation.cycle, goals_by_weight(situation)
    rounds, begin = divmod(turn // TURNS, max(1, len(goals)))
    for goal in (*goals[begin:], *goals[:begin]):
        task = _of_goal(goal, rounds * TURNS + turn % TURNS, situation)
        if task.kind != "run" or not _failed(task, situation):
            return task
    if not goals and turn % RESTS == RESTS - 1:
        return BriefTask("rest", ("No goal is open and nobody waits.", "Rest"))
    return _of_files(turn if goals else turn - turn // RESTS, situation)


def _of_goal(goal: Goal, turn: int, situation: Situation) -> BriefTask:
    """The task that a goal's check sets."""
    check, says = goal.told_check, f"Goal: {_flat(goal.statement, STATEMENT)}"
    if isinstance(check, FileCheck):
        return _of_file(check, says, turn, situation)
    if " should read " in goal.statement:
        return BriefTask("correct", (says,))
    if not isinstance(check, TestsCheck) and "commit" in goal.statement.lower():
        staged = _staged(situation)
        return BriefTask("commit", (says, f"Done: {staged}")) if staged else BriefTask("stage", (says,))
    if check is None:
        return _of_files(turn, situation, says)
    return BriefTask("run", (f"Run {_flat(check.command, TEXT)}",))


def _of_file(check: FileCheck, says: str, turn: int, situation: Situation) -> BriefTask:
    path = _flat(check.path, TEXT)
    texts = (check.equals,) if check.equals is not None else check.contains
    if not texts:
        return BriefTask("begin", (says, f"Write the file {path}"))
    if check.equals is not None or check.path not in situation.files:
        return BriefTask("write", (f"Write the file {path} with {_listed(texts[:TEXTS_AT_ONCE])}",))
    begin = turn * TEXTS_ADDED % len(texts)
    return BriefTask("add to", (f"Add to the file {path} {_listed(texts[begin : begin + TEXTS_ADDED])}",))


def _failed(task: BriefTask, situation: Situation) -> bool:
    """Whether the command of a task to run it is among the last acts, without success: it would fail again."""
    return any(
        act.status != "success" and task.text == f"Run {_flat(str(act.action.args.get('command', '')), TEXT)}"
        for act in situation.recent
    )


def _staged(situation: Situation) -> str:
    """The last `git add` that no commit has followed, as a command; empty where there is none."""
    for act in reversed(situation.recent):
        operation = act.action.args.get("operation") if act.action.tool == "git" else None
        if act.status == "success" and operation == "commit":
            return ""
        if act.status == "success" and operation == "add":
            return f"git add {_flat(str(act.action.args.get('args', '')), TEXT)}"
    return ""


def _of_files(turn: int, situation: Situation, why: str | None = None) -> BriefTask:
    """A task on some of the workspace's files, the next ones every time. `why`: the line that it begins with; None: the
    most pressing need."""
    need, files = why or f"Need: {situation.need}", situation.files
    if not files:
        return BriefTask("list", (need, "List the folder ."))
    kind: TaskKind = ("look at", "search", "look at", "history", "look at", "list")[turn % 6]
    first = turn * FILES_AT_ONCE % len(files)
    chosen = [_flat(name, TEXT) for name in (*files[first:], *files[:first])[:FILES_AT_ONCE]]
    if kind == "look at":
        return BriefTask(kind, (need, f"Read one of the files {', '.join(chosen)}"))
    if kind == "search":
        return BriefTask(kind, (need, f"Find a word in the file {chosen[0]}"))
    if kind == "history":
        return BriefTask(kind, (need, f"See what was changed in the file {chosen[0]}"))
    return BriefTask(kind, (need, f"List the folder {posixpath.dirname(chosen[0]) or '.'}"))


def asked(task: str) -> str:
    """A task as a question."""
    return f"{task}\nAction:"


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(json.dumps(_flat(text, TEXT), ensure_ascii=False) for text in texts)


def _flat(text: str, most: int) -> str:
    """`text` on one line, in at most `most` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 2]} …"
