"""`RuleInfo`, the description of a rule, and the attribute of a function that holds its declaration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

_ATTRIBUTE: Final = "__conch__"


@dataclass(frozen=True)
class RuleInfo:
    """The description of a rule without its code: plain values, so that other processes and files can hold it.

    The same for a rule that `@rule` declares, a judge, and a component that is scored outside of Conch.
    """

    name: str
    """The component that it scores."""
    version: str = "1"
    """Part of a score's key."""
    weight: float = 0.0
    """The share of the total that it asks for, 0..1; 0: watched, not paid."""
    low: float = 0.0
    """The least value that it can give."""
    high: float = 1.0
    """The greatest value that it can give."""
    timeout: float | None = None
    """Seconds for one act; None: `rewards.rule_timeout`."""
    doc: str = ""
    """The docstring of its function."""
    held_out: bool = False
    """Never paid, never trained on."""
    stateful: bool = False
    """Whether it has a state of its own, one for each agent."""
    window: int | None = None
    """Acts that it is given at most, the one to be scored among them; None: that one by itself."""
    scorer: str | None = None
    """The name under which its scores are published; None: its own."""
    deadline: float | None = None
    """Seconds from the act after which its score is recorded as timeout; None: `rewards.deadline`."""
    origin: str = ""
    """Its source: a file's path, `group:entry point` of a package, or a key of the settings."""
    text: str | None = None
    """Of a file: its text at discovery, which is what runs. None: the file is read when it is loaded."""

    @property
    def range(self) -> tuple[float, float]:
        """(low, high)."""
        return self.low, self.high

    @property
    def consumer(self) -> str:
        """The name of the consumer that runs it."""
        return f"rule-{self.name}"


@dataclass(frozen=True)
class DeclaredRule:
    """A rule in the process that loaded its code."""

    info: RuleInfo
    function: Callable[..., Any]
    """Takes an act; with `state`, a state and an act, and returns (the state after it, the score); with a window, the
    last acts of the agent."""
    state: type[BaseModel] | None = None
    """The state's model; None: it has none."""

    @property
    def name(self) -> str:
        """The component that it scores."""
        return self.info.name


def declare_as(thing: object, declaration: object) -> None:
    """Leave on `thing` what it is declared as: a rule or a consumer. The last declaration counts."""
    setattr(thing, _ATTRIBUTE, declaration)


def declaration_of(thing: object) -> object | None:
    """The declaration of `thing`; None where it is not declared as anything."""
    return getattr(thing, _ATTRIBUTE, None)


def rule_of(thing: object) -> DeclaredRule | None:
    """The rule that `thing` is declared as with `@rule`; None where it is none."""
    declaration = declaration_of(thing)
    return declaration if isinstance(declaration, DeclaredRule) else None
