"""The API's requests about the agents' memories."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence, Sized
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path
from starlette.exceptions import HTTPException
from starlette.responses import Response

from conch.memory import MEMORY_FILE, LongTermMemory, MemoryKind
from conch.requests import forget_memories
from conch.views import Memories, MemoriesForgotten, memories_found, memories_shown
from conch_services.dashboard.api.asked import AgentQuery, Limit, Text, TheWorld, document, the_agent
from conch_services.dashboard.api.problems import responses
from conch_services.dashboard.world import DashboardContext

router = APIRouter()
T = TypeVar("T")

MemoryId = Annotated[str, Path(pattern="^[0-9a-f-]{4,36}$", description="Its id, or the beginning of that.")]


@router.get("/memories", response_model=Memories, responses=responses(404))
async def memories(
    world: TheWorld, agent: AgentQuery = None, kind: MemoryKind | None = None, text: Text = None, limit: Limit = 20
) -> Response:
    """The last memories, oldest first; with `text`, those of any kind that fit its words, the best first."""
    name = await the_agent(world, agent)

    def found(store: LongTermMemory) -> Memories:
        if text is not None:
            return memories_found(name, len(store), store.recall(text, limit, now=time.time()))
        return memories_shown(name, len(store), reversed(store.newest(limit, kind)))

    return document(await memory_read(world, name, found))


@router.get("/memories/{memory}", response_model=Memories, responses=responses(404, 409))
async def memory(world: TheWorld, memory: MemoryId, agent: AgentQuery = None) -> Response:
    """One memory with its sources and contradictions; 409 where several ids begin so."""
    name = await the_agent(world, agent)

    def found(store: LongTermMemory) -> Memories:
        return memories_shown(name, len(store), store.find(memory))

    shown = await memory_read(world, name, found)
    _only(name, shown.memories)
    return document(shown)


@router.delete("/memories/{memory}", response_model=MemoriesForgotten, responses=responses(404, 409))
async def forget(world: TheWorld, memory: MemoryId, agent: AgentQuery = None) -> Response:
    """Forget one memory for good, with the notes of the same text; the acts that it comes from stay. 409 where several
    ids begin so."""
    name = await the_agent(world, agent)

    def gone(store: LongTermMemory) -> Sequence[str]:
        found = store.find(memory)
        if len(found) == 1:
            forget_memories(world.home, name, store, found)
        return [one.id for one in found]

    ids = await memory_read(world, name, gone)
    _only(name, ids)
    return document(MemoriesForgotten(agent=name, memories=tuple(ids)))


def _only(agent: str, found: Sized) -> None:
    """Answers 404 where no memory is found, 409 where several are."""
    if not len(found):
        raise HTTPException(404, f"{agent} has no such memory: /api/v1/memories has the last ones.")
    if len(found) > 1:
        raise HTTPException(409, "The ids of several memories begin so: name more of it.")


async def memory_read(world: DashboardContext, agent: str, work: Callable[[LongTermMemory], T]) -> T:
    """What `work` reads from the agent's memory, in a thread. Raises StoreError."""

    def read() -> T:
        store = LongTermMemory(world.home.agent_dir(agent) / MEMORY_FILE)
        try:
            return work(store)
        finally:
            store.close()

    return await asyncio.to_thread(read)
