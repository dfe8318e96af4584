"""An agent's lineage for the page and the API: from the store, the snapshots and the adapters of the home."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from conch.data import Manifest, read_manifest, snapshots_in
from conch.errors import ConchError
from conch.experience import AdapterAct, ExperienceReader
from conch.training import AdapterShelf, LineageState
from conch.views import LineageShown, gate_decisions, lineage_shown, read_lineage
from conch_services.dashboard.world import DashboardContext

LAST: Final = 4000
"""Acts that are looked at, the newest: 10 µs each."""
MOST_SETS: Final = 200
"""Snapshots whose manifests are read, the newest."""

ROUNDS: Final = "training"
"""Directory of the home with what is kept of each round."""

DataSets = list[tuple[str, Manifest | None]]
"""(name, manifest) of snapshots; None for one that was edited."""


async def lineage_document(world: DashboardContext, agent: str, round: str | None = None) -> LineageShown:
    """The lineage of an agent, with the round of this digest whole, else the newest. Raises StoreError."""

    def read(reader: ExperienceReader) -> tuple[LineageState, list[AdapterAct]]:
        state = read_lineage(reader, agent, round)
        return state, reader.charts.adapters(agent, LAST) if state.rounds else []

    state, acts = await world.read(read)
    chosen = state.round if round is None else state.of(round)
    adapter = None if chosen is None else chosen.adapter
    shelf, rounds = AdapterShelf(world.home.adapters), world.home.path / ROUNDS
    return lineage_shown(
        agent,
        state,
        acts,
        enabled=world.settings.training.enabled,
        round=round,
        replies={} if adapter is None else await asyncio.to_thread(shelf.replies, adapter),
        decisions=() if chosen is None else await asyncio.to_thread(gate_decisions, rounds, chosen.started.round),
        data_sets=await data_sets(world, MOST_SETS) if state.rounds else [],
    )


async def data_sets(world: DashboardContext, most: int) -> DataSets:
    """The newest snapshots in the home, the newest first."""

    def read() -> DataSets:
        newest = reversed(snapshots_in(world.home.path / "data")[-most:])
        return [(path.name, _manifest(path)) for path in newest]

    return await asyncio.to_thread(read)


def _manifest(path: Path) -> Manifest | None:
    try:
        return read_manifest(path)
    except ConchError:
        return None
