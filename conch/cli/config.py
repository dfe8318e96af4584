"""`conch config show | validate | schema`: the settings in force, their check, and their JSON schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from conch.cli.common import CommonOptions, emit, say, write_json
from conch.cli.options import COMMON
from conch.cli.streams import takes_unicode

app = App(name="config", help="The settings: what is in force and why, whether a file is right.")


@app.command
def show(*, common: CommonOptions = COMMON) -> None:
    """Every setting in force and where it came from; secrets are masked."""
    from conch.config import dotted, leaves, read
    from conch.views import config_shown

    found = config_shown(read(common.config, common.where(), {}))
    if common.json:
        emit(found)
        return
    shown = [(dotted(path), json.dumps(value, ensure_ascii=False)) for path, value in leaves(found.settings)]
    for key, value in shown:
        say(f"{key}: {value}  # {found.origins[key]}")


@app.command
def validate(
    file: Annotated[Path | None, Parameter(help="The file; default: the one that a run would read.")] = None,
    /,
    *,
    common: CommonOptions = COMMON,
) -> None:
    """Say whether the file, with the environment over it, is right; exit status 2 and what is wrong where it is not."""
    from conch.config import read
    from conch.minds import refuse_minds
    from conch.rewards import check_table
    from conch.text import safe_text
    from conch.views import ConfigValidated, registered

    loaded = read(file or common.config, common.where(), {})
    check_table(loaded.settings.rewards.weights)
    refuse_minds(loaded.settings.mind)
    found, plugins = loaded.file, registered()
    if common.json:
        emit(ConfigValidated(file=str(found) if found is not None else None, valid=True, plugins=plugins))
        return
    for one in plugins:
        say(safe_text(f"set aside: {one.origin}: {one.why}" if one.why else f"{one.origin}: {one.what}"))
    if found is not None:
        say(f"{found} is right as it stands; whether what it names is there and fits: conch doctor")
    else:
        say(f"there is no {common.where().config_file}: the defaults are in force")


@app.command
def schema(*, common: CommonOptions = COMMON) -> None:
    """JSON Schema of conch.yaml, for editors (`# yaml-language-server: $schema=FILE` as the file's first line)."""
    from conch.config import Settings

    text = Settings.model_json_schema() | {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    if common.json:
        write_json(_with_empty_sections(text))
    else:
        say(json.dumps(_with_empty_sections(text), ensure_ascii=not takes_unicode(), indent=2))


def _with_empty_sections(node: Any) -> Any:
    """The schema, with empty sections allowed: the file may have a section's name alone."""
    if isinstance(node, list):
        return [_with_empty_sections(part) for part in node]
    if not isinstance(node, dict):
        return node
    held = {key: _with_empty_sections(part) for key, part in node.items()}
    for name, part in held.get("properties", {}).items():
        if "$ref" in part:
            reference = {"$ref": part.pop("$ref")}
            held["properties"][name] = {"anyOf": [reference, {"type": "null"}], **part}
    return held
