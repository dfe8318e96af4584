"""The version of Conch that runs, and the versions that homes and stores name."""

from __future__ import annotations

import re
from typing import Final

_VERSION: Final = re.compile(r"[0-9][0-9A-Za-z.+!-]{0,63}")


def own_version() -> str:
    """The version that runs; empty where no package is installed, as in a plain source folder."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("conch-agent")
    except PackageNotFoundError:
        return ""


def read_version(text: object) -> str:
    """The version that a text of a file or of a row names; empty for any other value."""
    named = text.strip() if isinstance(text, str) else ""
    return named if _VERSION.fullmatch(named) else ""


def describe_writer(text: object, otherwise: str) -> tuple[str, str]:
    """(the version that wrote something newer, in words; what to do). `text` names the version; `otherwise` are the
    words where it names none, or this one, which cannot have written it."""
    writer, own = read_version(text), own_version()
    if writer in ("", own):
        return otherwise, "upgrade conch-agent"
    return f"conch {writer}", f"this is conch {own}, install that version" if own else "install that version"
