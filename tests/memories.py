"""Memories of numbered acts, made by hand."""

from __future__ import annotations

from typing import Protocol
from uuid import NAMESPACE_URL, uuid5

from conch.memory import Memory, MemoryKind, SourceAct, importance_of, memory_id


class MakeMemory(Protocol):
    """Makes a memory of a numbered act."""

    def __call__(
        self, text: str, kind: MemoryKind = "note", number: int = 0, *, at: float = 0.0, revision: int = 1
    ) -> Memory: ...


def made(text: str, kind: MemoryKind = "note", number: int = 0, *, at: float = 0.0, revision: int = 1) -> Memory:
    event = str(uuid5(NAMESPACE_URL, f"act/{number}"))
    source = SourceAct("echo", event, number)
    return Memory(memory_id(event, kind), kind, text, importance_of(kind), at, source, revision)
