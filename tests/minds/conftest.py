"""A situation to ask minds in."""

from __future__ import annotations

from typing import Any, Protocol

import pytest

from conch.minds import Prompt, Purpose, Situation
from conch_schemas import PromptMessage

NEEDS = {"sustainability": 0.7, "reliability": 0.7, "curiosity": 0.5, "excellence": 0.6}
TOOLS = ("filesystem", "git", "notes", "reply", "shell")


class MakeSituation(Protocol):
    """Makes situations."""

    def __call__(self, **parts: Any) -> Situation:
        """Keywords replace its parts."""


class MakePrompt(Protocol):
    """Makes prompts."""

    def __call__(self, purpose: Purpose = "decide", **parts: Any) -> Prompt:
        """Keywords replace parts of its situation."""


@pytest.fixture
def situation() -> MakeSituation:
    """Make a situation; keywords replace its parts."""

    def make(**parts: Any) -> Situation:
        pressing = {name: 0.25 * (1.5 - level) for name, level in NEEDS.items()}
        plain: dict[str, Any] = {"agent": "echo", "cycle": 1, "needs": NEEDS, "pressing": pressing, "need": "curiosity"}
        return Situation(**{**plain, "files": ("README.md", "notes/tides.md"), "tools": TOOLS, **parts})

    return make


@pytest.fixture
def prompt(situation: MakeSituation) -> MakePrompt:
    """Make a prompt of a purpose; keywords replace parts of the situation."""

    def make(purpose: Purpose = "decide", **parts: Any) -> Prompt:
        asked = (PromptMessage(role="user", content="What now?"),)
        return Prompt(purpose=purpose, system="You are echo.", messages=asked, situation=situation(**parts))

    return make
