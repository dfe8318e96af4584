"""Recorded acts, read from a file of JSON Lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conch.errors import UsageError
from conch_schemas import ActionTaken, ContractViolationError, decode


def recorded_acts(file: Path) -> list[ActionTaken]:
    """The acts of a file, in its order; facts of other kinds and empty lines are passed over.

    A line is an event as it travels, or one as `conch bus tail --json` prints it. Raises UsageError, naming the line,
    for one that is neither; for a file that cannot be read, or has no act.
    """
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    events = [_event(line, f"{file} line {number}") for number, line in enumerate(lines, start=1) if line.strip()]
    if acts := [event for event in events if isinstance(event, ActionTaken)]:
        return acts
    raise UsageError(f"{file} has no action.taken: conch bus tail --kind action.taken --after 0 --json prints some")


def _event(line: bytes, place: str) -> object:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place} is no JSON ({error})") from None
    told = value.get("event", value) if isinstance(value, dict) else value
    try:
        return decode(json.dumps(told).encode())
    except (ContractViolationError, UnicodeEncodeError) as error:
        raise UsageError(f"{place} is no event: {error}") from None
