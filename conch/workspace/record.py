"""The home's own record of the workspaces that Conch made and filled: only these are brought new material."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from conch.errors import HomeError
from conch.home import Home
from conch.workspace.material import MaterialScript
from conch.workspace.samples import SAMPLES, TIDEPOOL, WorkspaceSample

RECORD: Final = "filled.json"
"""The record's file: in the home for the workspace of the only agent, in an agent's directory for its own."""


class FilledWorkspace(BaseModel):
    """A directory that was empty when Conch filled it."""

    model_config = ConfigDict(frozen=True)

    workspace: str
    """Relative to the home where it lies inside, so that a home can be moved; otherwise absolute."""
    script: str = TIDEPOOL.script
    """The class of its script, as module:class."""


def record_filled(home: Path, directory: Path, workspace: Path, sample: WorkspaceSample = TIDEPOOL) -> None:
    """Write the record that `workspace` is filled with the sample into `directory`, which is the home or an agent's in
    it, before it is filled.

    Whole or not at all, without fsync: of a thousand agents each has one. Raises OSError.
    """
    place = workspace.resolve()
    inside = place.is_relative_to(home.resolve())
    named = place.relative_to(home.resolve()) if inside else place
    directory.mkdir(parents=True, exist_ok=True)
    beside = directory / f".{RECORD}"
    written = FilledWorkspace(workspace=str(named), script=sample.script).model_dump_json()
    beside.write_text(f"{written}\n", encoding="utf-8")
    beside.replace(directory / RECORD)


def script_of(home: Path, directory: Path, workspace: Path) -> MaterialScript | None:
    """The script for `workspace`, where the record in `directory` says that Conch filled it, and the workspace still
    begins the file that its script is known by with the same line; otherwise None.

    Raises HomeError for a record that cannot be read, or a script that there is none of.
    """
    file = directory / RECORD
    try:
        found = FilledWorkspace.model_validate(json.loads(file.read_text(encoding="utf-8")))
        module, _, name = found.script.partition(":")
        script: MaterialScript = getattr(importlib.import_module(module), name)()
    except FileNotFoundError:
        return None
    except (OSError, ValueError, ValidationError, ImportError, AttributeError) as error:
        raise HomeError(f"{file} cannot be used ({error}): delete it, and no new material comes") from error
    if (home / found.workspace).resolve() != workspace.resolve():
        return None
    path, line = script.mark
    try:
        with (workspace / path).open(encoding="utf-8", errors="replace") as text:
            return script if text.readline(len(line) + 2).rstrip("\n") == line else None
    except OSError:
        return None


def sample_of(home: Path, directory: Path, workspace: Path) -> WorkspaceSample | None:
    """The sample whose script is the one for `workspace`, see `script_of`; None: there is none. Raises HomeError."""
    script = script_of(home, directory, workspace)
    name = f"{type(script).__module__}:{type(script).__qualname__}"
    return next((sample for sample in SAMPLES.values() if sample.script == name), None)


def sample_for_agents(home: Home, base: Path) -> WorkspaceSample | None:
    """The sample that the empty directories of several agents in `base` are filled with: the one that `base` itself was
    filled with on request, otherwise the first in the home's own workspace and none elsewhere.

    Raises HomeError.
    """
    asked = sample_of(home.path, home.path, base)
    return asked or (TIDEPOOL if base.resolve() == home.workspace.resolve() else None)
