"""The views of marks, for `conch mark list | show --json` and the pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from conch.experience import ChainReader
from conch.views.base import View
from conch_schemas import Mark


class Marks(View):
    """Some marks, as `conch mark list --json` prints them."""

    schema_: Literal["conch.v1.marks"] = Field(default="conch.v1.marks", alias="schema")
    marks: tuple[Mark, ...]
    """In the order of the chain."""


class Compliance(View):
    """What the scores by the constitution's principles come to."""

    total: float
    """Σ score × weight."""
    most: float
    """The total of seven perfect scores, 8.7."""
    band: Literal["perfect", "good", "concerning", "poor"]
    compliant: bool
    """Whether each principle is at 0.5 or above."""
    violations: tuple[str, ...]
    """The principles below 0.5."""

    @property
    def words(self) -> str:
        """`8.20 of 8.70, good, compliant`, or the principles that were violated in the place of the last word."""
        verdict = f"violates {', '.join(self.violations)}" if self.violations else "compliant"
        return f"{self.total:.2f} of {self.most:.2f}, {self.band}, {verdict}"


class MarkShown(View):
    """One mark, as `conch mark show --json` prints it."""

    schema_: Literal["conch.v1.mark"] = Field(default="conch.v1.mark", alias="schema")
    mark: Mark
    constitution: Compliance | None
    """What its scores by principle come to; None where it has none, or the act has nothing to judge by."""


def last_marks(chain: ChainReader, agent: str, limit: int) -> list[Mark]:
    """The last ones of an agent's chain, oldest first. Raises CheckError at a row that is no mark."""
    last = chain.last_mark(agent)
    return [] if last is None else list(chain.marks(agent, max(0, last - limit + 1)))[-limit:]


def marks_shown(marks: Sequence[Mark]) -> Marks:
    """Each mark whole."""
    return Marks(marks=tuple(marks))
