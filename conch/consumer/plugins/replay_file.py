"""Reads recorded acts from a file of JSON Lines, for replay through a rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conch.errors import UsageError
from conch.files import open_plain
from conch_schemas import MAX_EVENT_BYTES, ActionTaken, ContractViolationError, decode, encode

LINE_BYTES = 4 * MAX_EVENT_BYTES
"""Longest line, in bytes: a character of two bytes may be an escape of six, with blanks between all of them."""


def recorded_acts(file: Path) -> list[ActionTaken]:
    """The acts of a file, in its order; facts of other kinds and empty lines are passed over.

    A line is an event as it travels, or one as `conch bus tail --json` prints it. Raises UsageError, naming the line,
    for one that is neither, or larger than an event can be; for a file that cannot be read, or has no act.
    """
    acts = []
    try:
        with open_plain(file) as stream:
            for number, line in enumerate(iter(lambda: stream.readline(LINE_BYTES + 1), b""), start=1):
                event = _event(line, f"{file} line {number}") if line.strip() else None
                if isinstance(event, ActionTaken):
                    acts.append(event)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    if acts:
        return acts
    raise UsageError(f"{file} has no action.taken: conch bus tail --kind action.taken --after 0 --json prints some")


def _event(line: bytes, place: str) -> object:
    if len(line) > LINE_BYTES:
        raise UsageError(f"{place} is longer than {LINE_BYTES:,} bytes: an event has at most {MAX_EVENT_BYTES:,}")
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place} is no JSON ({error})") from None
    told = value.get("event", value) if isinstance(value, dict) else value
    try:
        event = decode(json.dumps(told).encode())
        encode(event)
    except (ContractViolationError, UnicodeEncodeError) as error:
        raise UsageError(f"{place} is no event: {error}") from None
    return event
