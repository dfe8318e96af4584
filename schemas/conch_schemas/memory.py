"""The event of a consolidation of the agent's memory."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from conch_schemas.envelope import Event, Value


class MergedMemory(Value):
    """A memory that others were merged into, as they say the same."""

    memory: str
    """Id of the memory that stays."""
    text: str
    """Its beginning."""
    merged: tuple[str, ...]
    """Ids of those that were merged into it."""
    sources: tuple[str, ...]
    """Ids of the events that it comes from: the first one, then the newest."""


class ContradictoryMemories(Value):
    """Two memories that state different things of the same. Both stay."""

    one: str
    """Id of the earlier one."""
    other: str
    """Id of the later one."""
    texts: tuple[str, str]
    """Their beginnings."""
    why: Literal["one denies it", "other numbers", "another value"]


class MemoryConsolidated(Event):
    """New memories were compared with the older ones: duplicates were merged, contradictions named."""

    TYPE: ClassVar = "memory.consolidated"
    type: Literal["conch.v1.memory.consolidated"] = "conch.v1.memory.consolidated"
    looked_at: int = Field(ge=0)
    """Memories that were compared."""
    merged: tuple[MergedMemory, ...] = ()
    contradictions: tuple[ContradictoryMemories, ...] = ()
