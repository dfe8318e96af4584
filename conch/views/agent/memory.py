"""The views of memories, for `conch memory … --json`, the API and the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from conch.views.base import View
from conch_schemas import ContradictoryMemories, MergedMemory

if TYPE_CHECKING:
    from conch.memory import Consolidation, RecalledMemory, StoredMemory


class MemorySource(View):
    """The act, or the message, that a memory comes from."""

    agent: str
    event: str
    """Id of the event."""
    cycle: int | None
    """None: of no cycle."""


class MemoryRow(View):
    """A memory."""

    id: str
    kind: Literal["episode", "note", "fact", "lesson", "message"]
    text: str
    importance: float
    """0 to 1."""
    time: str
    """Of its newest source."""
    sources: tuple[MemorySource, ...]
    """The first one, then the newest, 16 at most."""
    count: int
    """Sources that it had, also those that are not named any more."""
    contradicted_by: tuple[str, ...]
    """Ids of the memories that state something else of the same."""
    score: float | None = None
    """Of a search: relevance × recency × importance, at most 1; None where nothing was searched."""


class Memories(View):
    """Some memories of an agent, as `conch memory list | search | show --json` prints them."""

    schema_: Literal["conch.v1.memories"] = Field(default="conch.v1.memories", alias="schema")
    agent: str
    total: int
    """Memories that the agent has."""
    memories: tuple[MemoryRow, ...]
    """The newest first; of a search the best fit first."""


class MemoriesForgotten(View):
    """What `conch memory forget --json` prints."""

    schema_: Literal["conch.v1.memories_forgotten"] = Field(default="conch.v1.memories_forgotten", alias="schema")
    agent: str
    memories: tuple[str, ...]
    """Ids of the memories that are gone."""


class MemoriesConsolidated(View):
    """What `conch memory consolidate --json` prints."""

    schema_: Literal["conch.v1.memories_consolidated"] = Field(default="conch.v1.memories_consolidated", alias="schema")
    agent: str
    looked_at: int
    """Memories that were compared with older ones."""
    merged: tuple[MergedMemory, ...]
    contradictions: tuple[ContradictoryMemories, ...]


def memories_shown(agent: str, total: int, memories: Iterable[StoredMemory]) -> Memories:
    """The document of these memories."""
    return Memories(agent=agent, total=total, memories=tuple(_row(one) for one in memories))


def memories_found(agent: str, total: int, found: Iterable[RecalledMemory]) -> Memories:
    """The document of a search."""
    return Memories(agent=agent, total=total, memories=tuple(_row(one.memory, one.score) for one in found))


def memories_consolidated(agent: str, done: Sequence[Consolidation]) -> MemoriesConsolidated:
    """The document of some consolidations, one after the other."""
    return MemoriesConsolidated(
        agent=agent,
        looked_at=sum(one.looked_at for one in done),
        merged=tuple(merged for one in done for merged in one.merged),
        contradictions=tuple(named for one in done for named in one.contradictions),
    )


def _row(memory: StoredMemory, score: float | None = None) -> MemoryRow:
    return MemoryRow(
        id=memory.id,
        kind=memory.kind,
        text=memory.text,
        importance=round(memory.importance, 4),
        time=datetime.fromtimestamp(memory.at, UTC).isoformat(),
        sources=tuple(MemorySource(agent=one.agent, event=one.event, cycle=one.cycle) for one in memory.sources),
        count=memory.count,
        contradicted_by=memory.contradicted_by,
        score=None if score is None else round(score, 4),
    )
