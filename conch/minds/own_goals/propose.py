"""Templates of goals for the reflex mind: what its workspace lacks, with a check that a program decides. Pure.

A statement has no words of a file or a message, only names of files: what stands there cannot ask for anything.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator

from pydantic import JsonValue

from conch.minds.protocol import Situation
from conch_schemas import Action, TestsCheck

TOOL = "goal"
"""The tool that proposes a goal."""
EVERY, FIRST = 40, 20
"""Cycles from one proposal to the next, and the first one's: by then an agent has read some of its workspace. One act
of 40 at most is a proposal, however many are refused."""
HOURS = 24
"""Hours after which a goal that was proposed is dropped."""
ANSWERS, JOURNAL = "answers.md", "journal.md"
"""The files that questions and what was read are kept in."""
LINES = 3
"""Lines of a file that a note lacks, at most."""
SHORTEST, LONGEST = 12, 200
"""Characters of such a line."""

_TEST = re.compile(r"(?:test\w*|\w+_test)\.py")
_PLAIN = re.compile(r"[\w./-]+")
_PROSE = (".md", ".txt", ".rst")


def proposals(situation: Situation) -> Iterator[Action]:
    """Calls of the tool `goal` that fit the situation, in an order that changes from proposal to proposal; none in most
    cycles, and none where the agent may set no goal itself."""
    if not situation.may_propose or situation.cycle % EVERY != FIRST:
        return
    turn = situation.cycle // EVERY % len(_TEMPLATES)
    for template in (*_TEMPLATES[turn:], *_TEMPLATES[:turn]):
        if (args := template(situation)) is not None:
            yield Action(kind="TOOL", valid=True, tool=TOOL, args=args | {"hours": HOURS})


def _failing_tests(situation: Situation) -> dict[str, JsonValue] | None:
    """Tests of the workspace that no goal is about; whether they fail is for the tool to find out."""
    folders = [posixpath.dirname(file) for file in situation.files if _TEST.fullmatch(posixpath.basename(file))]
    if not folders or any(isinstance(goal.told_check, TestsCheck) for goal in situation.goals):
        return None
    folder = folders[0]
    if folder and not _PLAIN.fullmatch(folder):
        return None
    command = f"python3 -m unittest discover -s {shlex.quote(folder)}" if folder else "python3 -m unittest"
    return {"operation": "tests", "statement": f"All tests in {folder or 'the workspace'} pass.", "command": command}


def _unanswered_question(situation: Situation) -> dict[str, JsonValue] | None:
    """A question that a person asked and that waits, or that the last file ends a line with."""
    asked = [text for text in (situation.message, *situation.waiting) if text]
    read = situation.recent[-1].output.splitlines() if situation.recent else []
    for text in (*asked, *read):
        question = " ".join(text.split())
        if question.endswith("?") and SHORTEST <= len(question) <= LONGEST and question.isprintable():
            return {
                "operation": "file",
                "statement": f"A question that waits is in {ANSWERS}, with a line Answer: below it.",
                "path": ANSWERS,
                "contains": [question, "Answer:"],
            }
    return None


def _lacking_note(situation: Situation) -> dict[str, JsonValue] | None:
    """Lines of a text that was read lately, which the journal is to have."""
    for recent in reversed(situation.recent):
        path = recent.action.args.get("path")
        if recent.action.skill != "filesystem.read" or recent.status != "success" or not isinstance(path, str):
            continue
        lines = dict.fromkeys(line.strip() for line in recent.output.splitlines())
        fit = [line for line in lines if SHORTEST <= len(line) <= LONGEST and line.isprintable()]
        longest = sorted(fit, key=len, reverse=True)[:LINES]
        if path.endswith(_PROSE) and path not in (JOURNAL, ANSWERS) and _PLAIN.fullmatch(path) and longest:
            kept: list[JsonValue] = [line for line in fit if line in longest]
            said = f"The longest lines of {path} are kept in {JOURNAL}."
            return {"operation": "file", "statement": said, "path": JOURNAL, "contains": kept}
    return None


_TEMPLATES: tuple[Callable[[Situation], dict[str, JsonValue] | None], ...] = (
    _failing_tests,
    _unanswered_question,
    _lacking_note,
)
