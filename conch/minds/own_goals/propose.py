"""Templates of goals for the reflex mind: what its workspace lacks, with a check that a program decides. Pure.

A statement has no words of a file or a message, only names of files: what stands there cannot ask for anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import JsonValue

from conch.minds.protocol import Situation
from conch_schemas import Action

TOOL = "goal"
"""The tool that proposes a goal."""
EVERY, FIRST = 40, 20
"""Cycles from one proposal to the next, and the first one's: by then an agent has read some of its workspace. One act
of 40 at most is a proposal, however many are refused."""
HOURS = 24
"""Hours after which a goal that was proposed is dropped."""
JOURNAL = "journal.md"
"""The file that what was read is kept in."""
LINES = 3
"""Lines of a file that a note lacks, at most."""
SHORTEST, LONGEST = 12, 200
"""Characters of such a line."""

_PLAIN = re.compile(r"[\w./-]+")
_PROSE = (".md", ".txt", ".rst")


def proposals(situation: Situation) -> Iterator[Action]:
    """Calls of the tool `goal` that fit the situation; none in most cycles, none while a goal is open, and none where
    the agent may set no goal itself."""
    if not situation.may_propose or situation.goals or situation.cycle % EVERY != FIRST:
        return
    if (args := _lacking_note(situation)) is not None:
        yield Action(kind="TOOL", valid=True, tool=TOOL, args=args | {"hours": HOURS})


def _lacking_note(situation: Situation) -> dict[str, JsonValue] | None:
    """Lines of a text that was read lately, which the journal is to have."""
    for recent in reversed(situation.recent):
        path = recent.action.args.get("path")
        if recent.action.skill != "filesystem.read" or recent.status != "success" or not isinstance(path, str):
            continue
        lines = dict.fromkeys(line.strip() for line in recent.output.splitlines())
        fit = [line for line in lines if SHORTEST <= len(line) <= LONGEST and line.isprintable()]
        longest = sorted(fit, key=len, reverse=True)[:LINES]
        if path.endswith(_PROSE) and path != JOURNAL and _PLAIN.fullmatch(path) and longest:
            kept: list[JsonValue] = [line for line in fit if line in longest]
            said = f"The longest lines of {path} are kept in {JOURNAL}."
            return {"operation": "file", "statement": said, "path": JOURNAL, "contains": kept}
    return None
