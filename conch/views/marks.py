"""Marks, as `conch mark list --json` and the pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conch.experience import ChainReader
from conch_schemas import Mark


def last_marks(chain: ChainReader, agent: str, limit: int) -> list[Mark]:
    """The last ones of an agent's chain, oldest first. Raises CheckError at a row that is no mark."""
    last = chain.last_mark(agent)
    return [] if last is None else list(chain.marks(agent, max(0, last - limit + 1)))[-limit:]


def marks_shown(marks: Sequence[Mark]) -> dict[str, Any]:
    """`conch.v1.marks`: each whole."""
    return {"schema": "conch.v1.marks", "marks": [mark.model_dump(mode="json") for mark in marks]}
