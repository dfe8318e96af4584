"""The held-out decisions of a gate: recorded prompts with their workspaces, in states that no row of train has.

They are copied out of the agent's snapshots, which are kept for a number of cycles only: a gate that is asked again
reads the same ones.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Final

from conch.cycle.decide import prompt_digest
from conch.data import survey_of
from conch.errors import CheckError, ContractError, ToolError
from conch.experience import ExperienceReader
from conch.forks import RecordedCycle
from conch.home import Home, write_whole
from conch.snapshots import SNAPSHOTS, RecordedDecision, SnapshotShelf
from conch_schemas import ActionTaken, ExperienceRecorded, decode, wire_form

CYCLES: Final = "cycles.jsonl"
"""A line for each held-out decision: its act and its experience as they are on the stream, a tab between them. Written
last."""


def eval_share(reader: ExperienceReader, home: Home, agent: str, shares: Collection[float], wanted: int) -> float:
    """The first of the shares with which at least so many kept decisions are in held-out states; else the last one.
    Raises StoreError."""
    found = [one.decoding.state_key for one in _acts(reader, home, agent).values() if one.decoding is not None]
    share = 0.0
    for share in shares:
        survey = survey_of(reader.examples.marks(), share)
        if sum(survey.split(key) == "eval" for key in found) >= wanted:
            break
    return share


def freeze_held_out(
    reader: ExperienceReader, home: Home, agent: str, trained: Collection[str], most: int, into: Path
) -> int:
    """Copy the newest kept decisions in states that are not `trained` on to the directory `into`, at most so many, each
    prompt once; how many there are. A second call replaces them. Raises OSError, StoreError."""
    shelf = SnapshotShelf(home.agent_dir(agent) / SNAPSHOTS)
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    lines, prompts = list[str](), set[str]()
    for cycle, act in sorted(_acts(reader, home, agent).items(), reverse=True):
        experience = reader.cycles.get(agent, cycle)
        if len(lines) == most:
            break
        if experience is None or act.decoding is None or act.decoding.state_key in trained:
            continue
        with contextlib.suppress(ToolError, OSError, ValueError):  # damaged, or removed meanwhile
            decision = shelf.find(cycle)
            if decision is None or not decision.tree or (digest := prompt_digest(decision.prompt())) in prompts:
                continue
            _copy(shelf, SnapshotShelf(into), cycle, decision)
            prompts.add(digest)
            lines.append(f"{wire_form(act).decode()}\t{wire_form(experience).decode()}")
    write_whole(into / CYCLES, "".join(line + "\n" for line in lines))
    return len(lines)


def held_out_cycles(agent: str, folder: Path) -> list[RecordedCycle]:
    """The held-out decisions in a directory, the newest first. Raises CheckError where it is not whole."""
    shelf = SnapshotShelf(folder)
    try:
        return [_recorded(agent, line, shelf) for line in (folder / CYCLES).read_bytes().split(b"\n") if line]
    except FileNotFoundError:
        raise CheckError(f"{folder} has no held-out decisions: begin the round again") from None
    except (OSError, ValueError, ToolError, ContractError) as error:
        raise CheckError(f"the held-out decisions in {folder} cannot be read: begin the round again") from error


def _recorded(agent: str, line: bytes, shelf: SnapshotShelf) -> RecordedCycle:
    act, experience = map(decode, line.split(b"\t"))
    if not isinstance(act, ActionTaken) or not isinstance(experience, ExperienceRecorded) or act.cycle is None:
        raise CheckError(f"{shelf.folder / CYCLES} has a line that is no act: begin the round again")
    return RecordedCycle(agent, act.cycle, act, experience, shelf, shelf.find(act.cycle))


def _acts(reader: ExperienceReader, home: Home, agent: str) -> dict[int, ActionTaken]:
    """The acts of the kept decisions by cycle."""
    shelf = SnapshotShelf(home.agent_dir(agent) / SNAPSHOTS)
    found = ((cycle, reader.cycles.act(agent, cycle)) for cycle in shelf.cycles())
    return {cycle: act for cycle, act in found if act is not None}


def _copy(source: SnapshotShelf, target: SnapshotShelf, cycle: int, decision: RecordedDecision) -> None:
    for digest in {entry.content for entry in source.tree(decision.tree).values() if stat.S_ISREG(entry.mode)}:
        _link(source.objects / digest[:2] / digest[2:], target.objects / digest[:2] / digest[2:])
    _link(source.trees / decision.tree, target.trees / decision.tree)
    record = source.cycles()[cycle]
    _link(record, target.records / record.name)


def _link(source: Path, target: Path) -> None:
    """The same content under another name: by a link where both are on one file system, as they are never changed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        return
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
