"""The settings in force, as `conch config show --json` and the pages show them."""

from __future__ import annotations

from typing import Any

from conch.config import Settings
from conch.config.keys import arms, inside, is_model
from conch.config.load import LoadedSettings
from conch.config.mask import masked
from conch.config.source import KeyPath, dotted, leaves

BEGUN = "the start of the run"
"""Where a value came from that is read otherwise now."""


def config_shown(loaded: LoadedSettings) -> dict[str, Any]:
    """`conch.v1.config`: every setting with its secrets masked, and where each came from."""
    return {
        "schema": "conch.v1.config",
        "file": str(loaded.file) if loaded.file is not None else None,
        "settings": masked(loaded.settings.model_dump(mode="json")),
        "origins": loaded.origins(),
    }


def config_in_force(settings: Settings, loaded: LoadedSettings) -> dict[str, Any]:
    """The same of settings that a process began with, beside what would be read now: where the two differ, the value
    came from its command line, or what stands in the file was changed since."""
    shown = config_shown(loaded)
    now, begun = dict(leaves(shown["settings"])), masked(settings.model_dump(mode="json"))
    origins = shown["origins"]
    origins |= {dotted(path): BEGUN for path, value in leaves(begun) if path not in now or now[path] != value}
    return shown | {"settings": begun, "origins": origins}


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
