"""`conch values show | new | sign`: the constitution and guardrails of a home."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from conch.cli.common import CommonOptions, emit, say, tell
from conch.cli.options import COMMON
from conch.errors import UsageError
from conch.home import write_whole
from conch.trusted import keys_directory
from conch.values import BUILTIN, in_force, read_values

app = App(name="values", help="What the agent stands for and never does; the file of it is signed.")


@app.command
def show(*, common: CommonOptions = COMMON) -> None:
    """The values and guardrails that the next run goes by, and their digest, which stands in every mark."""
    settings = common.settings().values
    values = in_force(settings)
    if common.json:
        from conch.views import ValuesShown

        emit(ValuesShown(file=settings.file, key=settings.key, **vars(values)))
        return
    tell(f"{settings.file or 'those that Conch brings'}, digest {values.digest}")
    for name, meaning in values.values.items():
        tell(f"  {name}: {meaning}")
    for one in values.guardrails:
        says = f" that says {' | '.join(one.says)}" if one.says else ""
        tell(f"  never, {one.name}: {one.why} ({', '.join(one.skills)}{says})")


@app.command
def new(file: Path, /, *, common: CommonOptions = COMMON) -> None:
    """Write the values that Conch brings into a new file, to be edited and then signed.

    Parameters
    ----------
    file
        The file to write; one that is there is left alone.
    """
    if os.path.lexists(file):
        raise UsageError(f"{file} is there already: name a new file, or edit that one and sign it")
    try:
        write_whole(file, BUILTIN.read_text(encoding="utf-8"), 0o644)
    except OSError as error:
        raise UsageError(f"{file} cannot be written ({error.strerror}): name another file") from None
    if common.json:
        from conch.views import ValuesWritten

        emit(ValuesWritten(file=str(file)))
    else:
        say(f"wrote {file}: edit it, then: conch values sign {file}")


@app.command
def sign(
    file: Path,
    /,
    *,
    key: Annotated[Path | None, Parameter(help="The secret key, made where there is none; not in the home.")] = None,
    common: CommonOptions = COMMON,
) -> None:
    """Sign a file of values as it is now, and print what conch.yaml has to say of it. Runs take it from their start on.

    Parameters
    ----------
    file
        The file; its signature is written beside it.
    """
    from conch.values import sign, signature_of

    values = read_values(file)
    secret = key or _secret()
    public = sign(file, secret)
    if common.json:
        from conch.views import ValuesSigned

        whole, signature = str(file.absolute()), str(signature_of(file.absolute()))
        emit(ValuesSigned(file=whole, signature=signature, secret=str(secret), key=public, digest=values.digest))
        return
    say(f"signed {file} with {secret}; in conch.yaml:")
    tell(f"values:\n  file: {file.absolute()}\n  key: {public}")


def _secret() -> Path:
    """The path of a person's own secret key, by the XDG base directories."""
    return keys_directory() / "values.key"
