"""The view of the settings in force, for `conch config show --json` and the pages."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from conch.config import KeyPath, LoadedSettings, Settings, arms, dotted, inside, is_model, leaves, masked
from conch.views.base import View
from conch.views.run.installed import RegisteredPlugin
from conch_schemas import JsonObject

BEGUN = "the start of the run"
"""The origin of a value that would be read otherwise now."""


class Config(View):
    """The settings in force, as `conch config show --json` prints them."""

    schema_: Literal["conch.v1.config"] = Field(default="conch.v1.config", alias="schema")
    file: str | None
    """None: there is none, and the defaults are in force."""
    settings: JsonObject
    """As in conch.yaml; secrets are masked."""
    origins: dict[str, str]
    """The origin of each setting, by its dotted key."""
    waiting: tuple[str, ...] = ()
    """Keys that are kept and have no effect yet: none in this version."""


class ConfigValidated(View):
    """The result of `conch config validate --json`."""

    schema_: Literal["conch.v1.config_validated"] = Field(default="conch.v1.config_validated", alias="schema")
    file: str | None
    valid: Literal[True]
    """A file that is not valid ends the command with exit status 2."""
    plugins: tuple[RegisteredPlugin, ...] = ()
    """The minds and tools that installed packages register."""


def config_shown(loaded: LoadedSettings) -> Config:
    """Every setting with its secrets masked, and where each came from."""
    return Config(
        file=str(loaded.file) if loaded.file is not None else None,
        settings=masked(loaded.settings.model_dump(mode="json")),
        origins=loaded.origins(),
    )


def config_in_force(settings: Settings, loaded: LoadedSettings) -> Config:
    """The settings that a process began with, beside what would be read now: where the two differ, the value came from
    its command line, or the file was changed since."""
    shown = config_shown(loaded)
    now, begun = dict(leaves(shown.settings)), masked(settings.model_dump(mode="json"))
    changed = {dotted(path): BEGUN for path, value in leaves(begun) if path not in now or now[path] != value}
    return Config(file=shown.file, settings=begun, origins=shown.origins | changed)


def about(path: KeyPath) -> str:
    """The sentence on the setting at this key path, as a new conch.yaml has it; of a name that is free, that on what
    holds it."""
    kind: Any = Settings
    said = ""
    for part in path:
        fields = [arm.model_fields[str(part)] for arm in arms(kind) if is_model(arm) and part in arm.model_fields]
        said = next((field.description for field in fields if field.description), said)
        kind = inside(kind, part)
    return said
