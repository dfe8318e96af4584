"""`conch init`: make a home with its settings, and a workspace with a notebook to work on."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from conch.cli.common import CommonOptions, emit, say
from conch.cli.options import COMMON
from conch.errors import HomeError, UsageError
from conch.home import Home, write_whole

if TYPE_CHECKING:
    from conch_schemas import Goal


def init(
    directory: Annotated[Path | None, Parameter(help="The home to make; default: --home.")] = None,
    /,
    *,
    workspace: Annotated[Path | None, Parameter(help="Directory to work in; taken as it is unless empty.")] = None,
    common: CommonOptions = COMMON,
) -> None:
    """Make a home: conch.yaml with every setting explained, a workspace, goals. A home that is there is left alone."""
    if directory is not None:
        if common.home is not None:
            raise UsageError("the home is named twice: by DIR and by --home")
        common = dataclasses.replace(common, home=directory)
    home = common.where()
    new = not os.path.lexists(home.config_file)
    if new:
        make_home(home, workspace or _configured(common))
    if common.json:
        from conch.views import HomeMade

        emit(HomeMade(home=str(home.path), made=new))
    elif new:
        say(f"made {home.path}: the settings are in conch.yaml; start with: conch run --home {home.path}")
    else:
        say(f"{home.path} is there already; nothing was changed")


def make_home(home: Home, workspace: Path | None, *, several: bool = False) -> None:
    """Make the home, with conch.yaml and a filled workspace (`workspace`, else the home's own). Twice is once.

    A workspace with anything in it belongs to a person: it stays as it is, and no goals are set on it. `several`: the
    agents will each fill a directory of their own in it, so it stays as it is, and there are goals. conch.yaml comes
    last and whole, so a home without one is not made yet; where there is one, it and the workspace are left alone.
    Raises HomeError.
    """
    if os.path.lexists(home.path) and not os.path.isdir(home.path):
        raise HomeError(f"{home.path} is a file: name a directory as --home")
    home.make()
    if os.path.lexists(home.config_file):
        return
    from conch.config import commented
    from conch.workspace import default_goals

    named = workspace.expanduser().absolute() if workspace is not None else None
    goals = default_goals() if several else _furnish(home, named or home.workspace)
    try:
        write_whole(home.config_file, commented(workspace=named, goals=goals))
    except OSError as error:
        raise HomeError(f"{home.config_file} cannot be written ({error.strerror})") from error


def _configured(common: CommonOptions) -> Path | None:
    """The workspace that the environment or a named file sets."""
    said = common.settings().workspace
    return Path(said) if said is not None else None


def _furnish(home: Home, directory: Path) -> Sequence[Goal]:
    """Fill an empty workspace and record that; the goals on it. It is empty again when that fails. Raises HomeError."""
    from conch.workspace import default_goals, fill, record_filled, record_made

    empty = False
    try:
        directory.mkdir(parents=True, exist_ok=True)
        empty = not any(directory.iterdir())
        if empty:
            record_filled(home.path, home.path, directory)
            fill(directory)
            record_made(home, directory)
    except OSError as error:
        if empty:
            with contextlib.suppress(OSError):
                _clear(directory)
        why = error.strerror or "not all of its files could be written"
        raise HomeError(f"the workspace {directory} cannot be filled ({why}): make room, or name another") from error
    return default_goals() if empty else ()


def _clear(directory: Path) -> None:
    for entry in directory.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink(missing_ok=True)
