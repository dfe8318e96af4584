"""Ground: the thought's claims checked against workspace, memory, tools and goals."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from conch.text import safe_text
from conch_schemas import Claim, Goal

MOST_CLAIMS = 12
_PATH = re.compile(
    r"(?<![\w/.-])(?:[\w.-]+/)+[\w.-]*[\w/]|(?<![\w/.-])[\w-]+(?:\.[\w-]+)*\.(?:[a-zA-Z][a-zA-Z0-9]{0,5})(?![\w/])"
)
_TOOL = re.compile(
    r"\b(?:the\s+)?tool\s+[`'\"]?([a-z_][a-z0-9_]*)|\b(?:use|using|with|run|call)\s+`([a-z_][a-z0-9_]*)`", re.I
)
_REMEMBER = re.compile(r"\bI (?:remember|recall|noted|know from my notes)(?: that)?\s+([^.!?\n]{3,200})", re.I)
_GOAL = re.compile(r"\bgoal\s+(?:of\s+|to\s+)?[`'\"“]([^`'\"”\n]{3,200})[`'\"”]", re.I)
_ABSENT = re.compile(r"\b(?:no|not|missing|without|absent|lacks?|gone|does\s*n.t exist|isn.t)\b", re.I)
_SENTENCE = re.compile(r"[^.!?\n]*(?:\.(?=\S)[^.!?\n]*)*")


class Memories(Protocol):
    """Where notes are looked up."""

    def recall(self, text: str, limit: int = 5) -> tuple[str, ...]:
        """The notes nearest to `text`, best first."""
        ...


@dataclass(frozen=True)
class Grounding:
    """What checking brought."""

    claims: tuple[Claim, ...]
    memory: tuple[str, ...]
    ms: float


def ground(thought: str, *, workspace: Path, notes: Memories, tools: Iterable[str], goals: Iterable[Goal]) -> Grounding:
    """Every claim of `thought` that can be checked, checked; and the notes that it calls to mind. Never raises for
    what the thought says."""
    began = time.perf_counter()
    text = thought[:8000]
    memory = notes.recall(text, 5)
    claims = [*_paths(text, workspace), *_tools(text, set(tools)), *_memories(text, notes), *_goals(text, goals)]
    return Grounding(tuple(claims[:MOST_CLAIMS]), memory, (time.perf_counter() - began) * 1000)


def _claim(words: str, about: Any, verdict: Any, evidence: str) -> Claim:
    return Claim(
        claim=safe_text(words, one_line=True)[:300],
        about=about,
        verdict=verdict,
        evidence=safe_text(evidence, one_line=True)[:300],
    )


def _around(text: str, start: int) -> str:
    """The sentence that the place is in."""
    for match in _SENTENCE.finditer(text):
        if match.start() <= start < match.end():
            return match.group().strip()
    return ""


def _paths(text: str, workspace: Path) -> list[Claim]:
    """A named file exists, unless its sentence says that it does not."""
    found, seen = [], set()
    for match in _PATH.finditer(text):
        name = match.group().rstrip("/")
        if name in seen or name.startswith("/") or ".." in name.split("/"):
            continue
        seen.add(name)
        sentence = _around(text, match.start())
        path = workspace / name
        try:
            there = path.exists() and path.resolve().is_relative_to(workspace.resolve())
        except (OSError, ValueError):
            found.append(_claim(sentence or name, "workspace", "unknown", f"{name} could not be looked at"))
            continue
        absent = bool(_ABSENT.search(sentence))
        what = "a directory" if there and path.is_dir() else "a file"
        evidence = f"{name} is {what} in the workspace" if there else f"{name} is not in the workspace"
        found.append(_claim(sentence or name, "workspace", "verified" if there != absent else "refuted", evidence))
    return found


def _tools(text: str, tools: set[str]) -> list[Claim]:
    found, seen = [], set()
    for match in _TOOL.finditer(text):
        name = (match.group(1) or match.group(2)).lower()
        if name in seen:
            continue
        seen.add(name)
        there = name in tools
        evidence = f"{name} is one of the tools" if there else f"the tools are {', '.join(sorted(tools))}"
        found.append(_claim(match.group(), "tool", "verified" if there else "refuted", evidence))
    return found


def _memories(text: str, notes: Memories) -> list[Claim]:
    """What the agent says it remembers stands in a note when the note has most of its words."""
    found = []
    for match in _REMEMBER.finditer(text):
        words = set(re.findall(r"\w{3,}", match.group(1).lower()))
        nearest = notes.recall(match.group(1), 1)
        share = len(words & set(re.findall(r"\w{3,}", nearest[0].lower()))) / len(words) if nearest and words else 0.0
        verdict = "verified" if share >= 0.6 else "unknown"
        evidence = f"the nearest note: {nearest[0]}" if nearest else "no note is near it"
        found.append(_claim(match.group(), "memory", verdict, evidence))
    return found


def _goals(text: str, goals: Iterable[Goal]) -> list[Claim]:
    active = [goal.statement for goal in goals]
    found = []
    for match in _GOAL.finditer(text):
        words = match.group(1).casefold()
        there = any(words in statement.casefold() or statement.casefold() in words for statement in active)
        evidence = "it is an active goal" if there else f"{len(active)} goals are active, none of them this"
        found.append(_claim(match.group(), "goal", "verified" if there else "refuted", evidence))
    return found
