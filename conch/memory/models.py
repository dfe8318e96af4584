"""The values of the memory: a memory, its source acts, a memory as it is stored and as it is recalled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args
from uuid import NAMESPACE_URL, uuid5

MemoryKind = Literal["episode", "note", "fact", "lesson", "message"]
"""episode: an act and what came of it; note: by the tool notes; fact: found by checking; lesson: a reflection;
message: a person's words."""

KINDS: Final[tuple[MemoryKind, ...]] = get_args(MemoryKind)
STATED: Final[frozenset[MemoryKind]] = frozenset({"note", "fact"})
"""The kinds that state how something is: only two of these can contradict each other."""

MOST_TEXT: Final = 4_000
"""Most characters of a memory: as many as a note may have."""
MOST_SOURCES: Final = 16
"""Source acts that a memory names: the first one and the newest others."""


@dataclass(frozen=True)
class SourceAct:
    """The act, or the message, that a memory comes from."""

    agent: str
    event: str
    """Id of the event that it was read from."""
    cycle: int | None = None
    """Number of the cycle; None: of no cycle, such as a person's message."""


@dataclass(frozen=True)
class Memory:
    """A memory before it is stored."""

    id: str
    """Derived from the event: the same event gives the same id."""
    kind: MemoryKind
    text: str
    """1 to MOST_TEXT characters."""
    importance: float
    """0 to 1."""
    at: float
    """Time of the source act, seconds since the epoch."""
    source: SourceAct
    revision: int = 1
    """Revision of the source event: a later one replaces text and importance."""


@dataclass(frozen=True)
class StoredMemory:
    """A memory as it is stored, with the sources of those that were merged into it."""

    id: str
    kind: MemoryKind
    text: str
    importance: float
    """0 to 1: the highest of its sources."""
    at: float
    """Time of its newest source act, seconds since the epoch."""
    sources: tuple[SourceAct, ...]
    """The first one, then the newest, MOST_SOURCES at most."""
    count: int = 1
    """Source acts that it had, also those that are not named any more."""
    contradicted_by: tuple[str, ...] = ()
    """Ids of the memories that state something else of the same."""


@dataclass(frozen=True)
class RecalledMemory:
    """A memory that was recalled for a cue."""

    memory: StoredMemory
    score: float
    """relevance × recency × importance, each with its floor: above 0, at most 1."""
    relevance: float
    """0 to 1: 1 for the memory that fits the cue best."""


def memory_id(event: str, kind: MemoryKind, index: int = 0) -> str:
    """Id of a memory: derived from the id of its event, its kind and its place among the event's memories."""
    return str(uuid5(NAMESPACE_URL, f"conch:memory/{event}/{kind}/{index}"))
