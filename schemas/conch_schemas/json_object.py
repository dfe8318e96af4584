"""The one type without a shape: a JSON object at the edge where it is parsed or written."""

from __future__ import annotations

from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object just parsed, or about to be written. What stays in the program has a type of its own."""
