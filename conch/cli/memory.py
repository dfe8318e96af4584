"""`conch memory list | search | show | forget | consolidate`: what an agent remembers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from conch.cli.common import QUOTED, CommonOptions, emit, quiet, say, table, tell
from conch.cli.options import COMMON, AgentName, Limit
from conch.cli.people_facts import agent_named
from conch.errors import ConchError, UsageError
from conch.memory import MEMORY_FILE, LongTermMemory, MemoryKind, StoredMemory, default_embedder
from conch.requests import forget_memories
from conch.text import safe_text

if TYPE_CHECKING:
    from conch.views import Memories, MemoryRow

app = App(name="memory", help="What the agent remembers: acts, notes, facts, lessons, messages, with their sources.")

SHORT_ID = 8
"""Characters of an id in a table; so many name a memory, where no other id begins so."""
MOST_ROUNDS = 10_000
"""Most consolidations of one command, of 64 memories each."""

Id = Annotated[str, Parameter(help="Id of a memory, or its beginning, as conch memory list shows it.")]


@app.command(name="list")
def list_(
    *,
    kind: Annotated[MemoryKind | None, Parameter(help="Memories of this kind alone.")] = None,
    limit: Limit = 20,
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """The last memories, oldest first."""
    from conch.views import memories_shown

    with _opened(common, agent) as (store, name):
        _show(common, memories_shown(name, len(store), reversed(store.newest(limit, kind))))


@app.command
def search(
    text: str,
    /,
    *,
    limit: Annotated[int, Parameter(help="Memories at most.")] = 10,
    agent: AgentName = None,
    common: CommonOptions = COMMON,
) -> None:
    """The memories that fit TEXT, as they are recalled for a prompt: by relevance, recency and importance.

    Parameters
    ----------
    text
        Words to look for.
    """
    from conch.views import memories_found

    with _opened(common, agent, by_sense=True) as (store, name):
        _show(common, memories_found(name, len(store), store.recall(text, limit, now=time.time())))


@app.command
def show(memory: Id, /, *, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """One memory with its sources, and what contradicts it."""
    from conch.views import memories_shown

    with _opened(common, agent) as (store, name):
        found = memories_shown(name, len(store), [_named(store, memory, name)])
    if common.json:
        emit(found)
        return
    (row,) = found.memories
    tell("\n".join(_lines(row)))


@app.command
def forget(*memories: Id, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """Delete memories for good, and the notes of the same text. The acts that they come from stay in the store."""
    if not memories:
        raise UsageError("name at least one memory: conch memory list shows their ids")
    with _opened(common, agent) as (store, name):
        found = {one.id: one for one in (_named(store, memory, name) for memory in memories)}
        forget_memories(common.existing(), name, store, list(found.values()))
    if common.json:
        from conch.views import MemoriesForgotten

        emit(MemoriesForgotten(agent=name, memories=tuple(found)))
    else:
        say(f"{len(found)} forgotten")


@app.command
def consolidate(*, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """Merge memories that say the same, and name those that contradict each other, until all were compared."""
    from conch.views import memories_consolidated

    with _opened(common, agent) as (store, name):
        done = [store.consolidate()]
        while done[-1].looked_at and len(done) < MOST_ROUNDS:
            done.append(store.consolidate())
    found = memories_consolidated(name, done)
    if common.json:
        emit(found)
        return
    say(f"{found.looked_at} compared, {sum(len(one.merged) for one in found.merged)} merged into others")
    for named in found.contradictions:
        say(f"contradiction ({named.why}): {named.one[:SHORT_ID]} and {named.other[:SHORT_ID]}")
        for text in named.texts:
            say(f"{QUOTED}{safe_text(text, one_line=True)}")


@contextmanager
def _opened(
    common: CommonOptions, agent: str | None, *, by_sense: bool = False
) -> Iterator[tuple[LongTermMemory, str]]:
    """The memory of the agent that is meant. `by_sense`: it is searched by sense too, where that is set and installed.
    Raises UsageError where one of several must be named."""
    home = common.existing()
    settings = common.settings()
    name = agent_named(home, settings, agent)
    quiet()
    store = LongTermMemory(
        home.agent_dir(name) / MEMORY_FILE,
        most=settings.memory.most,
        most_bytes=int(settings.memory.mib * 2**20),
        embedder=default_embedder() if by_sense and settings.memory.embeddings == "auto" else None,
    )
    try:
        yield store, name
    finally:
        store.close()


def _named(store: LongTermMemory, beginning: str, agent: str) -> StoredMemory:
    """The memory whose id begins so. Raises ConchError where there is none, or more than one."""
    found = store.find(beginning.lower())
    if len(found) == 1:
        return found[0]
    if found:
        raise ConchError(f"the ids of several memories of {agent} begin with {beginning!r}: name more of it")
    raise ConchError(f"{agent} has no memory {beginning!r}: conch memory list and search show their ids")


def _show(common: CommonOptions, found: Memories) -> None:
    if common.json:
        emit(found)
        return
    scored = any(row.score is not None for row in found.memories)
    columns = ("memory", *(("score",) if scored else ()), "kind", "cycle", "time", "text")
    table(columns, [_cells(row) for row in found.memories], wraps=["text"])


def _cells(row: MemoryRow) -> tuple[object, ...]:
    score = () if row.score is None else (f"{row.score:.3f}",)
    cycle = row.sources[-1].cycle if row.sources else None
    text = f"{row.text} (contradicted)" if row.contradicted_by else row.text
    return (row.id[:SHORT_ID], *score, row.kind, "-" if cycle is None else cycle, row.time[:16], text)


def _lines(row: MemoryRow) -> Iterator[str]:
    yield f"{row.kind} {row.id}"
    yield f"importance {row.importance:.2f}, {row.time}"
    yield from (f"{QUOTED}{line}" for line in row.text.splitlines())
    yield f"from {row.count} {'act' if row.count == 1 else 'acts'}:"
    for source in row.sources:
        of = "no cycle" if source.cycle is None else f"cycle {source.cycle}"
        yield f"  {of} of {source.agent}, event {source.event}"
    for other in row.contradicted_by:
        yield f"contradicted by {other}"
