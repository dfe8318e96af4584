"""`conch init`: make a home with its settings, and a workspace, filled with a sample project or as it is."""

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
    from conch.workspace import WorkspaceSample
    from conch_schemas import Goal


def init(
    directory: Annotated[Path | None, Parameter(help="The home to make; default: --home.")] = None,
    /,
    *,
    workspace: Annotated[Path | None, Parameter(help="Directory to work in; taken as it is without --sample.")] = None,
    sample: Annotated[
        str | None,
        Parameter(help="Sample project to fill the empty workspace with: tidepool, backlog or pantry."),
    ] = None,
    common: CommonOptions = COMMON,
) -> None:
    """Make a home: conch.yaml with every setting explained, a workspace, goals. A home that is there is left alone.

    The home's own workspace is filled with the sample tidepool; a directory of yours only where --sample asks for it.
    """
    if directory is not None:
        if common.home is not None:
            raise UsageError("the home is named twice: by DIR and by --home")
        common = dataclasses.replace(common, home=directory)
    home = common.where()
    new = not os.path.lexists(home.config_file)
    if new:
        make_home(home, workspace or _configured(common), sample=sample)
    elif sample is not None:
        raise UsageError(f"--sample {sample}: {home.path} is there already; name a new home")
    if common.json:
        from conch.views import HomeMade

        emit(HomeMade(home=str(home.path), made=new))
    elif new:
        say(f"made {home.path}: the settings are in conch.yaml; start with: conch run --home {home.path}")
    else:
        say(f"{home.path} is there already; nothing was changed")


def make_home(home: Home, workspace: Path | None, *, several: bool = False, sample: str | None = None) -> None:
    """Make the home, with conch.yaml and a workspace (`workspace`, else the home's own). Twice is once.

    The home's own workspace is filled with a sample project and has its goals; another directory stays as it is and
    has none, unless `sample` names one: then it must be empty. `several`: the agents will each fill a directory of
    their own in the workspace, so it stays as it is, and there are goals where they will. conch.yaml comes last and
    whole, so a home without one is not made yet; where there is one, it and the workspace are left alone. Raises
    HomeError, and UsageError where that sample cannot be laid out.
    """
    if os.path.lexists(home.path) and not os.path.isdir(home.path):
        raise HomeError(f"{home.path} is a file: name a directory as --home")
    from conch.config import commented
    from conch.workspace import TIDEPOOL, named_sample

    named = workspace.expanduser().absolute() if workspace is not None else None
    directory = named or home.workspace
    asked = named_sample(sample) if sample is not None else None
    if asked is not None and _holds_something(directory):
        raise UsageError(f"--sample {asked.name}: {directory} is not empty; a sample is laid out in an empty directory")
    home.make()
    if os.path.lexists(home.config_file):
        return
    laid_out = asked or (TIDEPOOL if directory.resolve() == home.workspace.resolve() else None)
    goals = _furnish(home, directory, laid_out, several=several)
    try:
        write_whole(home.config_file, commented(workspace=named, goals=goals))
    except OSError as error:
        raise HomeError(f"{home.config_file} cannot be written ({error.strerror})") from error


def _configured(common: CommonOptions) -> Path | None:
    """The workspace that the environment or a named file sets."""
    said = common.settings().workspace
    return Path(said) if said is not None else None


def _furnish(home: Home, directory: Path, sample: WorkspaceSample | None, *, several: bool) -> Sequence[Goal]:
    """Make the workspace; fill an empty one with the sample, and record that. The goals on it. It is empty again when
    that fails. Raises HomeError."""
    from conch.workspace import fill, record_filled, record_made

    filled = False
    try:
        made = not directory.exists()
        directory.mkdir(parents=True, exist_ok=True)
        if several:
            return sample.goals() if sample is not None else ()
        filled = sample is not None and not _holds_something(directory)
        if sample is not None and filled:
            record_filled(home.path, home.path, directory, sample)
            fill(directory, sample)
        if made or filled:
            record_made(home, directory)
    except OSError as error:
        if filled:
            with contextlib.suppress(OSError):
                _clear(directory)
        why = error.strerror or "not all of its files could be written"
        raise HomeError(f"the workspace {directory} cannot be filled ({why}): make room, or name another") from error
    return sample.goals() if sample is not None and filled else ()


def _holds_something(directory: Path) -> bool:
    """Whether there is an entry in the directory, or a file in its place."""
    return os.path.lexists(directory) and (not directory.is_dir() or any(directory.iterdir()))


def _clear(directory: Path) -> None:
    for entry in directory.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink(missing_ok=True)
