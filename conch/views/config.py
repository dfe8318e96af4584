"""The settings in force, as `conch config show --json` and the pages show them."""

from __future__ import annotations

from typing import Any

from conch.config.load import Loaded
from conch.config.mask import masked


def config_shown(loaded: Loaded) -> dict[str, Any]:
    """`conch.v1.config`: every setting with its secrets masked, and where each came from."""
    return {
        "schema": "conch.v1.config",
        "file": str(loaded.file) if loaded.file is not None else None,
        "settings": masked(loaded.settings.model_dump(mode="json")),
        "origins": loaded.origins(),
    }
