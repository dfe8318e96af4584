"""The request to forget: a file of the home that says what is removed, until all of it is.

It is written before anything is removed, so that a removal that was cut short is finished later: by the next run, or by
the next `conch forget`. It holds the words themselves, and is gone at the end.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path
from typing import TypeVar

import psutil
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conch.errors import HomeError
from conch.forgetting.needle import Needle
from conch.home import Home, write_whole

M = TypeVar("M", bound=BaseModel)

REPORT = "forgotten.json"
"""File of the home with the counts of the last one: no words."""


class RemovalPlan(BaseModel):
    """What is removed, found before the first of it was: found again, it would be less. It holds no words."""

    model_config = ConfigDict(frozen=True)

    records: tuple[str, ...]
    """The events `person.forgotten`, in their wire form."""
    seqs: tuple[int, ...]
    """Sequences of the events to be erased on the stream."""
    values: dict[str, str] | None
    """The values that the bucket gets in place of all its values, as base64; None: others write to it, too."""


class ForgetRequest(BaseModel):
    """What a person asked for."""

    model_config = ConfigDict(frozen=True)

    id: str = Field(default_factory=lambda: str(uuid.uuid4()))
    needle: Needle
    agents: tuple[str, ...]
    """Names of the agents of which data is removed."""
    plan: RemovalPlan | None = None
    """None: not begun."""


class ForgetReport(BaseModel):
    """What was removed."""

    model_config = ConfigDict(frozen=True)

    id: str
    """Of the request."""
    acts: int
    events: int
    marks: int
    memories: int
    """Rows of the agents' memories, notes and other tables beside the store."""
    files: int
    """Files of which lines or values were removed."""
    left: tuple[str, ...]
    """Paths of the files of the home in which the words still stand."""
    server_keeps: bool
    """Whether the bus is a server that others use: it keeps earlier values of the bucket until it writes over them."""


def read_request(home: Home) -> ForgetRequest | None:
    """The request that is being carried out; None: there is none, or all of it is done and its file blank. Raises
    HomeError for a file that is none."""
    with contextlib.suppress(OSError):
        if not home.forget_file.read_bytes().strip():
            home.forget_file.unlink()
    return _read(home.forget_file, ForgetRequest)


def remove_unwritten(home: Home) -> None:
    """Remove what a killed process left of a request that it was writing."""
    for file in home.path.glob(f".{home.forget_file.name}.*"):
        pid = file.name.rpartition(".")[2]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            file.unlink(missing_ok=True)


def write_request(home: Home, request: ForgetRequest) -> None:
    """Write the request, on disk before this returns."""
    write_whole(home.forget_file, request.model_dump_json())


def close_request(home: Home, report: ForgetReport) -> None:
    """Write the report, then overwrite and remove the request: all of it is done."""
    write_whole(home.path / REPORT, report.model_dump_json())
    file = home.forget_file
    with file.open("r+b") as stream:
        stream.write(b" " * file.stat().st_size)
        stream.flush()
        os.fsync(stream.fileno())
    file.unlink()


def read_report(home: Home) -> ForgetReport | None:
    """The report of the last request; None: there was none."""
    return _read(home.path / REPORT, ForgetReport)


def _read(file: Path, kind: type[M]) -> M | None:
    try:
        return kind.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise HomeError(f"{file} cannot be read ({type(error).__name__}): move it away and ask again") from None
