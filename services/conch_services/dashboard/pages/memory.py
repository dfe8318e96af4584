"""`/memory`: what the agent remembers, searched and listed; one memory with its sources and contradictions."""

from __future__ import annotations

import time
from typing import get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.memory import LongTermMemory, MemoryKind, StoredMemory
from conch.views import Memories, MemoryRow, memories_found, memories_shown
from conch_services.dashboard.api.memories import memory_read
from conch_services.dashboard.asking import QueryResult, asked, number_of
from conch_services.dashboard.page import agent_of, page
from conch_services.dashboard.ranges.window import CycleWindow, range_asked
from conch_services.dashboard.story.verdicts import memory_verdict

SHOWN = 20
"""Memories of a page."""
MOST_SKIPPED = 10_000
"""Memories that may stand before those of a page; beyond it words and ranges find one."""
LONGEST_TEXT = 500
"""Most characters of a search; the rest is left out."""
RANKED = 500
"""Memories that fit the words of a search, of which those of a range are taken."""
SHORT_ID = 8
"""Characters of an id that a link shows."""
KINDS: tuple[MemoryKind, ...] = get_args(MemoryKind)


async def memories(request: Request) -> Response:
    """The last memories, the newest first, or those of `?kind=`; with `?text=` those that fit it, the best first; of
    the range of the address those with an act in it. `?skip=` of them stand on the pages before."""
    agent, query = await agent_of(request), request.query_params
    text = query.get("text", "").strip()[:LONGEST_TEXT]
    kind = next((one for one in KINDS if one == query.get("kind")), None)

    looked_for: QueryResult[CycleWindow | None] = await asked(range_asked(request, agent))
    window = looked_for.found
    skip = min(number_of(request, "skip"), MOST_SKIPPED)
    is_more = False

    def found(store: LongTermMemory) -> Memories:
        nonlocal is_more
        cycles = None if window is None else (window.first, window.last)
        if not text:
            newest = store.newest(skip + SHOWN + 1, kind, cycles)
            is_more = len(newest) > skip + SHOWN
            return memories_shown(agent, len(store), newest[skip : skip + SHOWN])
        fits = store.recall(text, RANKED, now=time.time())
        within = [one for one in fits if window is None or _is_within(one.memory, window)]
        is_more = len(within) > skip + SHOWN
        return memories_found(agent, len(store), within[skip : skip + SHOWN])

    looked = await asked(memory_read(request.app.state.world, agent, found))
    said = None if looked.found is None else memory_verdict(looked.found, text)
    told = {
        "verdict_said": said,
        "found": looked.found,
        "text": text,
        "kind": kind,
        "kinds": KINDS,
        "why": looked.why or looked_for.why,
        "window": window,
        "skip": skip,
        "most": SHOWN,
        "is_more": is_more,
    }
    return await page(
        request,
        "memory.html",
        told | {"after": request.app.state.world.hub.last, "broken": looked.broken or looked_for.broken},
    )


def _is_within(memory: StoredMemory, window: CycleWindow) -> bool:
    return any(source.cycle is not None and window.has(source.cycle) for source in memory.sources)


async def memory(request: Request) -> Response:
    """One memory, whole, with its sources and those that contradict it."""
    agent, id = await agent_of(request), str(request.path_params["memory"])

    def found(store: LongTermMemory) -> Memories:
        one: tuple[StoredMemory, ...] = store.find(id, 1)
        others = [other for against in (one[0].contradicted_by if one else ()) for other in store.find(against, 1)]
        return memories_shown(agent, len(store), [*one, *others])

    looked = await asked(memory_read(request.app.state.world, agent, found))
    rows: tuple[MemoryRow, ...] = looked.found.memories if looked.found is not None else ()
    told: dict[str, object] = {"row": rows[0] if rows else None, "against": rows[1:], "short": SHORT_ID}
    told |= {"why": looked.why, "broken": looked.broken, "after": request.app.state.world.hub.last}
    return await page(request, "memory_one.html", told, 503 if looked.broken else 200 if rows else 404)


ROUTES = [Route("/memory", memories), Route("/memory/{memory:str}", memory)]
