"""The logs of a team's controller, as JSON Lines in the agent's directory.

`controller_decisions.jsonl`: `step, topology, x, action, epsilon, ms, switch {attempted, committed, epoch, error?},
topology_after?`. `controller_latency.jsonl`: `i, ms`. The rewards stand in `episodes/<task>/rewards.jsonl`, which the
consumer *progress* writes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from conch.log import get_logger
from conch.teams import DecisionRecord
from conch_schemas import JsonObject

log = get_logger(__name__)

DECISIONS, LATENCY = "controller_decisions.jsonl", "controller_latency.jsonl"
MOST_BYTES: Final = 16 * 2**20
"""Size limit of one log; a longer one is rotated, and the one before it removed."""
_TAIL: Final = 4096


class ControllerLogs:
    """Writes both logs of one team. A step that is there already is not written again; what cannot be written is
    logged once, and lost: the events have it."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._failed = directory, False

    def write(self, record: DecisionRecord) -> None:
        """Append a decision. Never raises OSError."""
        rows: dict[str, JsonObject] = {
            DECISIONS: decision_row(record),
            LATENCY: {"i": record.step, "ms": record.ms},
        }
        try:
            for name, row in rows.items():
                file = self._directory / name
                if _last_step(file) < record.step:
                    _append(file, json.dumps(row).encode() + b"\n")
        except OSError as error:
            if not self._failed:
                log.warning("team.log_unwritable", directory=str(self._directory), error=str(error))
            self._failed = True


def decision_row(record: DecisionRecord) -> JsonObject:
    """The row of a decision."""
    switch: JsonObject = {
        "attempted": record.attempted,
        "committed": record.committed,
        "epoch": record.epoch,
    }
    if record.error is not None:
        switch["error"] = record.error
    row: JsonObject = {
        "step": record.step,
        "topology": record.topology,
        "x": list(record.x),
        "action": record.action,
        "epsilon": record.epsilon,
        "ms": record.ms,
        "switch": switch,
    }
    if record.topology_after is not None:
        row["topology_after"] = record.topology_after
    return row


def _append(file: Path, line: bytes) -> None:
    if file.exists() and file.stat().st_size + len(line) > MOST_BYTES:
        file.replace(file.with_suffix(".1.jsonl"))
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        if os.write(handle, line) < len(line):
            raise OSError("there was no room for the whole line")
    finally:
        os.close(handle)


def _last_step(file: Path) -> int:
    """The step of the last whole row, with what a crash left of another one cut off; -1: there is none."""
    try:
        with file.open("rb+") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - _TAIL))
            tail = stream.read()
            whole = tail.rfind(b"\n") + 1
            if whole < len(tail):
                stream.truncate(size - len(tail) + whole)
            row = json.loads(tail[:whole].splitlines()[-1])
    except (FileNotFoundError, IndexError, ValueError):
        return -1
    step = row.get("step", row.get("i")) if isinstance(row, dict) else None
    return step if isinstance(step, int) else -1
