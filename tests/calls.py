"""Replies that call tools."""

from __future__ import annotations

from pydantic import JsonValue

from conch.actions import render
from conch_schemas import Action


def filesystem_call(operation: str, path: str, **args: JsonValue) -> str:
    """The reply that calls the tool `filesystem`."""
    given = {"operation": operation, "path": path, **args}
    return render(Action.model_validate({"kind": "TOOL", "valid": True, "tool": "filesystem", "args": given}))
