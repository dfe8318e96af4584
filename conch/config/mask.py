"""Masks secrets in values that are shown."""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "***"

_USER_INFO = re.compile(r"(?<=://)\S*@")
"""Greedy: a password that was not percent-encoded may hold `/` and `@`."""


def masked(value: Any) -> Any:
    """`value` with the user information (before the @) of every address in its texts masked."""
    if isinstance(value, str):
        return _USER_INFO.sub(f"{HIDDEN}@", value)
    if isinstance(value, dict):
        return {key: masked(part) for key, part in value.items()}
    return [masked(part) for part in value] if isinstance(value, list) else value
