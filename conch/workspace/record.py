"""The home's own record of the workspaces that Conch made and filled: only these are brought new material."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from conch.errors import HomeError
from conch.workspace.material import MaterialScript

RECORD: Final = "filled.json"
"""The record's file: in the home for the workspace of the only agent, in an agent's directory for its own."""
NOTEBOOK: Final = "conch.workspace.tidepool:TidepoolScript"


class FilledWorkspace(BaseModel):
    """A directory that was empty when Conch filled it."""

    model_config = ConfigDict(frozen=True)

    workspace: str
    """Relative to the home where it lies inside, so that a home can be moved; otherwise absolute."""
    script: str = NOTEBOOK
    """The class of its script, as module:class."""


def record_filled(home: Path, directory: Path, workspace: Path) -> None:
    """Write the record of `workspace` into `directory`, which is the home or an agent's in it, before it is filled.

    Whole or not at all, without fsync: of a thousand agents each has one. Raises OSError.
    """
    place = workspace.resolve()
    inside = place.is_relative_to(home.resolve())
    named = place.relative_to(home.resolve()) if inside else place
    directory.mkdir(parents=True, exist_ok=True)
    beside = directory / f".{RECORD}"
    beside.write_text(FilledWorkspace(workspace=str(named)).model_dump_json() + "\n", encoding="utf-8")
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
