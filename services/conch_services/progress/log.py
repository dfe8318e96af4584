"""The log of each episode, as JSON Lines: `agents/<agent>/episodes/<episode>/rewards.jsonl` in the home.

One row a step: `step` from 0, `delta_pass_rate` and `delta_tokens` since the step before, `phase_advance`,
`switch_committed`, `r_step` (the step's reward), and `terminal: true` on the last, which has the final bonus in its
`r_step`. Behind them, where the step was an act: its `cycle`, and the `test_pass_rate` after it, 0..1. A directory has
the episode's own name where that can be a file's name, else its digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from conch.home import Home
from conch.log import get_logger
from conch.processes import ConsumerReport, ConsumerWaits
from conch.rewards.progress import SCORER, EpisodeLogRow
from conch_schemas import JsonObject

log = get_logger(__name__)

FILE, BEFORE = "rewards.jsonl", "rewards.1.jsonl"
MOST_BYTES: Final = 4 * 1024 * 1024
"""Size limit of one log; a longer one is rotated, and the one before it removed."""
MOST_EPISODES: Final = 100
"""Logs of one agent; the one written longest ago goes first."""
_KNOWN: Final = 256
"""Episodes with a remembered last step."""
_TAIL: Final = 4096
"""Bytes at the end of a log in which its last row lies."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")


class EpisodeLogs:
    """The logs of all agents of a home. A row that is there already is not written again.

    What cannot be written (no room, no permission) is reported, once until it can be again, and lost; scores do not
    depend on it.
    """

    def __init__(self, home: Path, report: Callable[[ConsumerReport], None]) -> None:
        self._home, self._report = Home(home), report
        self._last: dict[Path, int] = {}
        """Directory -> the last step in its log; −1: none."""
        self._troubled: set[Path] = set()

    def write(self, agent: str, row: EpisodeLogRow) -> None:
        """Append `row` to its episode's log, unless that step or a later one is there. Never raises OSError."""
        directory = self._home.agent_dir(agent) / "episodes" / _directory(row.episode)
        try:
            if row.step <= self._last_step(directory):
                return
            _append(directory, json.dumps(_table(row)).encode() + b"\n")
        except OSError as error:
            self._last.pop(directory, None)
            self._lost(directory, error)
            return
        self._last[directory] = row.step
        if directory in self._troubled:
            self._troubled.clear()
            self._report(ConsumerWaits(consumer=SCORER, why=""))

    def _last_step(self, directory: Path) -> int:
        if directory not in self._last:
            if len(self._last) >= _KNOWN:
                del self._last[next(iter(self._last))]
            if not directory.is_dir():
                directory.mkdir(parents=True, mode=0o700)
                _make_room(directory.parent)
            _drop_torn_line(directory / FILE)
            found = (_last_row(directory / name) for name in (FILE, BEFORE))
            self._last[directory] = next((step for step in found if step is not None), -1)
        return self._last[directory]

    def _lost(self, directory: Path, error: OSError) -> None:
        if not self._troubled:
            why = f"{directory / FILE} cannot be written ({error.strerror or error}): its steps are not logged"
            log.warning("progress.log_unwritable", error=why)
            self._report(ConsumerWaits(consumer=SCORER, why=why))
        if len(self._troubled) < _KNOWN:
            self._troubled.add(directory)


def _directory(episode: str) -> str:
    if _PLAIN.fullmatch(episode):
        return episode
    return hashlib.sha256(episode.encode(errors="replace")).hexdigest()[:32]


def _table(row: EpisodeLogRow) -> JsonObject:
    tokens = row.delta_tokens
    table: JsonObject = {
        "step": row.step,
        "delta_pass_rate": row.delta_pass_rate,
        "delta_tokens": int(tokens) if tokens.is_integer() else tokens,
        "phase_advance": row.phase_advance,
        "switch_committed": row.switch_committed,
        "r_step": row.r_step,
    }
    if row.terminal:
        table["terminal"] = True
    if row.cycle is not None:
        table |= {"cycle": row.cycle, "test_pass_rate": row.test_pass_rate}
    return table


def _append(directory: Path, line: bytes) -> None:
    """Raises OSError where not all of the line was written: what was is cut off before the next one."""
    file = directory / FILE
    with contextlib.suppress(FileNotFoundError):
        if file.stat().st_size + len(line) > MOST_BYTES:
            file.replace(directory / BEFORE)
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        if os.write(handle, line) < len(line):
            raise OSError("there was no room for the whole line")
    finally:
        os.close(handle)


def _drop_torn_line(file: Path) -> None:
    """Cut off what a crash, or a full disk, left of a line."""
    with contextlib.suppress(FileNotFoundError), file.open("rb+") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - _TAIL))
        tail = stream.read()
        stream.truncate(size - len(tail) + tail.rfind(b"\n") + 1)


def _last_row(file: Path) -> int | None:
    """The step of the last row; None where there is no readable one."""
    try:
        with file.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - _TAIL))
            step = json.loads(stream.read().splitlines()[-1])["step"]
    except (FileNotFoundError, IndexError, ValueError, KeyError, TypeError):
        return None
    return step if isinstance(step, int) else None


def _make_room(episodes: Path) -> None:
    """Remove the logs written longest ago; a directory with something else in it stays."""
    there = sorted((found for found in episodes.iterdir() if found.is_dir()), key=lambda found: found.stat().st_mtime)
    for old in there[:-MOST_EPISODES]:
        for name in (FILE, BEFORE):
            (old / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            old.rmdir()
