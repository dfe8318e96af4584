"""The ground step: checks the thought's claims against workspace, notes, tools, goals and sensors."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

from conch.cycle.grounding.claims import claim, sentence
from conch.cycle.grounding.readings import readings
from conch.minds import SensorValue
from conch.text import cut
from conch_schemas import Claim, Goal

MOST_CLAIMS = 12
THOUGHT_READ = 8000
"""Characters of a thought that are searched for claims."""
NOTE_BYTES = 4096
"""Most bytes of a recalled note, encoded: all of them fit an event beside the rest."""
_MOST_NAMES = 100

_PATH = re.compile(
    r"(?<![\w/.~-])(?:~?/(?:[\w.-]+/)*[\w.-]*\w|(?:[\w.-]+/)+(?:[\w.-]*\w)?)"  # /etc/hosts, notes/x.md, notes/, ../x
    r"|(?<![\w/.~-])[\w-]+(?:\.[\w-]+)*\.[a-zA-Z][a-zA-Z0-9]{0,5}(?![\w/])"  # README.md
)
_FILE_TYPE = re.compile(
    r"\.(?:md|txt|rst|pyi?|js|ts|html|css|jsonl?|ya?ml|toml|ini|cfg|[ct]sv|xml|sql|db|log|lock|sh|c|h|cpp|rs|go|java|"
    r"png|jpe?g|gif|svg|pdf|ipynb|zip|gz|tar)$",
    re.I,
)
_FILE_WORD = re.compile(r"\b(?:files?|director(?:y|ies)|folders?|paths?)\b", re.I)
_MAKING = re.compile(r"\b(?:creat|writ|mak|add|sav|generat|draft|put)\w*\b|\bnew\b", re.I)
_NO_BEFORE = re.compile(
    r"\b(?:no|without|lacks?|missing|(?:not|n[’']t)\s+(?:have|see|find|contain))"
    r"(?:\s+(?:such|an?|any|the|file|directory|folder|named|called|at))*\s*[`'\"“]?$",
    re.I,
)
_NOT_AFTER = re.compile(
    r"^[`'\"”]?\s*(?:(?:file|directory|folder)\s+)?(?:(?:does|did)(?:\s+not|n[’']t)\s+(?:yet\s+)?exist|"
    r"(?:is|was)\s+(?:still\s+)?(?:missing|gone|absent|deleted|not\s+(?:there|found|here)|nowhere)|"
    r"isn[’']t\s+(?:there|here))",
    re.I,
)
_TOOL = re.compile(
    r"\btool\s+(?:[`'\"]([a-z_][a-z0-9_]{0,60})[`'\"]|([a-z_][a-z0-9_]{0,60}))"
    r"|\b(?:use|using|with|run|call)\s+`([a-z_][a-z0-9_]{0,60})`",
    re.I,
)
_NO_TOOL = re.compile(r"\b(?:no|without an?|not have an?|n[’']t have an?)\s+$", re.I)
_NO_TOOL_NAME = re.compile(
    r"that|which|to|for|is|was|are|and|or|can|will|would|could|should|might|may|calls?|i|it|in|of|on|with|from|has|does|"
    r"do|outputs?|results?|a|an|the|names?|use|list|kit|box|itself|here|there"
)
_REMEMBER = re.compile(r"\bI (?:remember|recall|noted|know from my notes)(?: that)?\s+([^.!?\n]{3,200})", re.I)
_WORDS = re.compile(r"\w{3,}")
_GOAL = re.compile(r"\bgoal\s+(?:of\s+|to\s+)?[`'\"“]([^`'\"”\n]{3,200})[`'\"”]", re.I)


class NoteLookup(Protocol):
    """Where recalled notes are looked up."""

    def recall(self, text: str, limit: int = 5) -> tuple[str, ...]:
        """The notes nearest to `text`, best first."""
        ...


@dataclass(frozen=True)
class GroundingResult:
    """The checked claims and the recalled notes."""

    claims: tuple[Claim, ...]
    memory: tuple[str, ...]
    ms: float


def ground(
    thought: str,
    *,
    workspace: Path,
    notes: NoteLookup,
    tools: Iterable[str],
    goals: Iterable[Goal],
    senses: Iterable[SensorValue] = (),
) -> GroundingResult:
    """The verifiable claims of `thought` with their verdicts, MOST_CLAIMS at most; and the notes nearest to it.

    Nothing outside the workspace is looked at. No thought makes it raise; linear in its length.
    """
    began = time.perf_counter()
    text = thought[:THOUGHT_READ]
    memory = tuple(cut(note, NOTE_BYTES).text for note in notes.recall(text, 5))
    kinds = (
        _paths(text, workspace),
        _tools(text, set(tools)),
        _memories(text, notes),
        _goals(text, tuple(goals)),
        readings(text, tuple(senses)),
    )
    claims = [claim for kind in kinds for claim in islice(kind, MOST_CLAIMS)]
    return GroundingResult(tuple(claims[:MOST_CLAIMS]), memory, (time.perf_counter() - began) * 1000)


def _paths(text: str, workspace: Path) -> Iterator[Claim]:
    """Claims that a named file exists, or does not; a file that is still to be made is no claim yet."""
    seen: set[str] = set()
    for match in islice(_PATH.finditer(text), _MOST_NAMES):
        name = match.group()
        if name in seen:
            continue
        seen.add(name)
        before, after = sentence(text, match)
        words = f"{before}{name}{after}".strip()
        if name.startswith(("/", "~")) or ".." in name.split("/"):
            yield claim(words, "workspace", "unknown", f"{name} lies outside the workspace: not looked at")
            continue
        there = _there(workspace, name)
        if there is None:
            yield claim(words, "workspace", "unknown", f"{name} could not be looked at")
            continue
        if there == "" and not _names_a_file(name, words):
            continue
        absent = bool(_NO_BEFORE.search(before) or _NOT_AFTER.search(after))
        evidence = f"{name} is {there} in the workspace" if there else f"{name} is not in the workspace"
        making = not there and not absent and _MAKING.search(before)
        verdict = "unknown" if making else "verified" if bool(there) != absent else "refuted"
        yield claim(words, "workspace", verdict, evidence + (" yet" if making else ""))


def _there(workspace: Path, name: str) -> str | None:
    """`a file`, `a directory`, empty where there is none; None where it is not known. A link that leads out of the
    workspace does not count."""
    path = workspace / name
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(workspace)):
        return ""
    try:
        return "a directory" if stat.S_ISDIR(path.stat().st_mode) else "a file"
    except OSError as error:
        return "" if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP) else None


def _names_a_file(name: str, words: str) -> bool:
    """Whether a missing name was meant as a file at all: `and/or`, `e.g` and `asyncio.run` were not."""
    return bool(_FILE_TYPE.search(name)) or name.endswith("/") or ("/" in name and bool(_FILE_WORD.search(words)))


def _tools(text: str, tools: set[str]) -> Iterator[Claim]:
    seen: set[str] = set()
    for match in islice(_TOOL.finditer(text), _MOST_NAMES):
        name = (match.group(1) or match.group(2) or match.group(3)).lower()
        if name in seen or (match.group(2) and name not in tools and _NO_TOOL_NAME.fullmatch(name)):
            continue
        seen.add(name)
        there = name in tools
        absent = bool(_NO_TOOL.search(text[max(0, match.start() - 30) : match.start()]))
        evidence = f"{name} is one of the tools" if there else f"the tools are {', '.join(sorted(tools))}"
        yield claim(match.group(), "tool", "verified" if there != absent else "refuted", evidence)


def _memories(text: str, notes: NoteLookup) -> Iterator[Claim]:
    """Claims of what the agent remembers: one holds when a note has most of its words."""
    for match in _REMEMBER.finditer(text):
        words = set(_WORDS.findall(match.group(1).lower()))
        nearest = notes.recall(match.group(1), 1)
        share = len(words & set(_WORDS.findall(nearest[0].lower()))) / len(words) if nearest and words else 0.0
        evidence = f"the nearest note: {nearest[0]}" if nearest else "no note is near it"
        yield claim(match.group(), "memory", "verified" if share >= 0.6 else "unknown", evidence)


def _goals(text: str, goals: tuple[Goal, ...]) -> Iterator[Claim]:
    active = [goal.statement.casefold() for goal in goals]
    for match in _GOAL.finditer(text):
        words = match.group(1).casefold()
        there = any(words in statement or statement in words for statement in active)
        evidence = "it is an active goal" if there else f"{len(active)} goals are active, none of them this"
        yield claim(match.group(), "goal", "verified" if there else "refuted", evidence)
