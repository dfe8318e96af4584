"""A decision to ask minds for."""

from __future__ import annotations

from conch.actions import Registry
from conch.minds import Prompt, Situation
from conch.tools import BUILTIN_TOOLS
from conch_schemas import PromptMessage

REGISTRY = Registry(tool.spec for tool in BUILTIN_TOOLS)


def decision(cycle: int = 1) -> Prompt:
    """A decision on the built-in tools."""
    asked = PromptMessage(role="user", content="Decide. Answer with one action in the grammar, nothing else.")
    return Prompt("decide", "You are echo.", (asked,), Situation("echo", cycle, {}, {}, "curiosity"), registry=REGISTRY)
