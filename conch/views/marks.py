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


class MarkShown(View):
    """One mark, as `conch mark show --json` prints it."""

    schema_: Literal["conch.v1.mark"] = Field(default="conch.v1.mark", alias="schema")
    mark: Mark


def last_marks(chain: ChainReader, agent: str, limit: int) -> list[Mark]:
    """The last ones of an agent's chain, oldest first. Raises CheckError at a row that is no mark."""
    last = chain.last_mark(agent)
    return [] if last is None else list(chain.marks(agent, max(0, last - limit + 1)))[-limit:]


def marks_shown(marks: Sequence[Mark]) -> Marks:
    """Each mark whole."""
    return Marks(marks=tuple(marks))
