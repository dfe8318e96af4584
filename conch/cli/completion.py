"""`conch completion install | show`: shell completion of commands and options, written by cyclopts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter
from cyclopts.completion import detect

from conch.cli.common import say
from conch.errors import HomeError, UsageError

app = App(name="completion", help="Completion of commands and options by bash, zsh or fish.")

Named = Literal["bash", "zsh", "fish"]
Shell = Annotated[
    Named | None, Parameter(name="--shell", help="The shell; by default the one that conch is called in.")
]


@app.command
def install(*, shell: Shell = None) -> None:
    """Write the completion script where the shell looks for it; bash and zsh also need a line in the file that they
    begin with. A second time writes the script anew, as after an update, and adds no second line."""
    from conch.cli.main import make_app

    found = _shell(shell)
    begins = {"bash": Path.home() / ".bashrc", "zsh": Path.home() / ".zshrc"}.get(found)
    try:
        before = _content(begins)
        script = make_app().install_completion(shell=found)
        changed = _content(begins) != before
    except OSError as error:
        what = error.filename or "the completion script"
        raise HomeError(
            f"{what} cannot be written ({error.strerror}): mend that, or see conch completion show"
        ) from None
    say(f"wrote {script}" + (f", and the line that loads it into {begins}" if changed else ""))
    say(f"it holds in new shells: exec {found}")


@app.command
def show(*, shell: Shell = None) -> None:
    """Print the completion script."""
    from conch.cli.main import make_app

    sys.stdout.write(make_app().generate_completion(prog_name="conch", shell=_shell(shell)))


def _shell(named: Named | None) -> Named:
    """The one that is named, else that of the caller. Raises UsageError where it is neither of the three."""
    if named is not None:
        return named
    try:
        found = detect.detect_shell()
    except detect.ShellDetectionError:
        found = None
    if found is None or found == "powershell":
        raise UsageError("which shell this is cannot be seen: name it (--shell bash, zsh or fish)")
    return found


def _content(file: Path | None) -> bytes:
    return file.read_bytes() if file is not None and file.exists() else b""
