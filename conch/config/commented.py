"""The text of a new conch.yaml: every key with its sentence and default, written from the model itself."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from conch.config.keys import is_model
from conch.config.model import Settings
from conch_schemas import Goal

WIDTH = 100

_HEAD = """\
# The settings of Conch. What is commented out is the default: take the # away and change it.
# The environment comes before this file (CONCH_MIND__MODEL is mind.model), the command line before both.
# `conch config show` says what is in force and why; `conch config validate` reads this file.
"""


def commented(*, workspace: Path | None = None, goals: Sequence[Goal] = ()) -> str:
    """A whole file: all keys commented out, less the `workspace` and the `goals` that are given.

    Prose is behind `# `, a key behind `#` alone. Read as it is it gives the defaults; with every `#` before a key
    taken away, too.
    """
    given: dict[str, Any] = {}
    if workspace is not None:
        given["workspace"] = str(workspace)
    if goals:
        given["goals"] = [goal.model_dump(mode="json", exclude_none=True) for goal in goals]
    return "\n".join([_HEAD, *_section(Settings, given, "")])


def _section(model: type[BaseModel], given: dict[str, Any], indent: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        prose = f"{indent}# "
        yield from textwrap.wrap(field.description or "", WIDTH, initial_indent=prose, subsequent_indent=prose)
        default = field.get_default(call_default_factory=True)
        if is_model(field.annotation):
            yield f"{indent}{name}:"
            yield from _section(field.annotation, {}, f"{indent}  ")
        elif name in given:
            yield _yaml({name: given[name]})
        elif default is None:
            yield f"{indent}#{name}:"
        else:
            yield textwrap.indent(_yaml({name: list(default) if default == () else default}), f"{indent}#")
        if not indent:
            yield ""


def _yaml(values: dict[str, Any]) -> str:
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=WIDTH).rstrip("\n")
