"""The API's reads from the agents' memories."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.exceptions import HTTPException
from starlette.responses import Response

from conch.memory import MEMORY_FILE, LongTermMemory, MemoryKind
from conch.views import Memories, memories_found, memories_shown
from conch_services.dashboard.api.asked import AgentQuery, Limit, Text, TheWorld, document, the_agent
from conch_services.dashboard.api.problems import responses
from conch_services.dashboard.world import DashboardContext

router = APIRouter()

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

    return document(await _read(world, name, found))


@router.get("/memories/{memory}", response_model=Memories, responses=responses(404, 409))
async def memory(world: TheWorld, memory: MemoryId, agent: AgentQuery = None) -> Response:
    """One memory with its sources and contradictions; 409 where several ids begin so."""
    name = await the_agent(world, agent)

    def found(store: LongTermMemory) -> Memories:
        return memories_shown(name, len(store), store.find(memory))

    shown = await _read(world, name, found)
    if not shown.memories:
        raise HTTPException(404, f"{name} has no such memory: /api/v1/memories has the last ones.")
    if len(shown.memories) > 1:
        raise HTTPException(409, "The ids of several memories begin so: name more of it.")
    return document(shown)


async def _read(world: DashboardContext, agent: str, work: Callable[[LongTermMemory], Memories]) -> Memories:
    """What `work` reads from the agent's memory, in a thread. Raises StoreError."""

    def read() -> Memories:
        store = LongTermMemory(world.home.agent_dir(agent) / MEMORY_FILE)
        try:
            return work(store)
        finally:
            store.close()

    return await asyncio.to_thread(read)
