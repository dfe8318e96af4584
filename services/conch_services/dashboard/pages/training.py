"""`/training`: the learning curve of an agent by policy, and what training is not there yet."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.bus import Bus
from conch.data import Manifest, read_manifest, snapshots_in
from conch.errors import ConchError
from conch.experience import ExperienceReader
from conch.minds import LearningProgress, learnt
from conch_schemas import ContractViolationError, PolicySet, decode, subject_filter
from conch_services.dashboard.asking import after, asked, kept
from conch_services.dashboard.learning import Acted, by_policy, curves, slope
from conch_services.dashboard.page import agent_of, page
from conch_services.dashboard.pages.cycle import shown
from conch_services.dashboard.world import DashboardContext

LAST = 1000
"""Cycles that are read."""
FRESH_SECONDS = 2.0
MOST_DRAWN = 8
"""Policies with a line of their own, those that acted last."""
MOST_LISTED = 50
MEMORY = "reflex.npz"
"""File of the agent's folder in which the reflex mind keeps what it learnt."""


async def training(request: Request) -> Response:
    """Totals by policy, and the reflex mind's learning."""
    world, agent = request.app.state.world, await agent_of(request)
    answers = kept(request, "training", FRESH_SECONDS)
    found = await asked(answers.get(("acted", agent), lambda: _acted(world, agent)))
    policies = await asked(answers.get(("policies", agent), lambda: _policies(world, agent)))
    mind = await asked(answers.get(("learnt", agent), lambda: _learnt(world, agent)))
    sets = await asked(answers.get(("data", agent), lambda: _data_sets(world)))
    position, acted = found.found or (0, [])
    earned = by_policy(acted)
    template = "training_now.html" if "hx-request" in request.headers else "training.html"
    return await page(
        request,
        template,
        {
            "why": found.why,
            "broken": found.broken,
            "policies_why": policies.why,
            "policies": policies.found or {},
            "learnt": mind.found,
            "learnt_why": mind.why,
            "kind": world.settings.mind.kind,
            "model": world.settings.mind.model,
            "earned": earned[:MOST_LISTED],
            "slope": slope(acted),
            "last": len(acted),
            "data": _data(acted, [one.policy for one in earned[:MOST_DRAWN]]),
            "after": after(request, position),
            "shown": shown,
            "sets": sets.found or [],
        },
    )


async def _acted(world: DashboardContext, agent: str) -> tuple[int, list[Acted]]:
    """(the store's position, the last cycles with their policy and total)."""

    def read(reader: ExperienceReader) -> tuple[int, list[Acted]]:
        return reader.position(), reader.charts.policies(agent, LAST)

    return await world.read(read)


async def _policies(world: DashboardContext, agent: str) -> dict[str, PolicySet]:
    return await policies_of(world.bus, agent)


async def policies_of(bus: Bus, agent: str) -> dict[str, PolicySet]:
    """An agent's policies that are still on the stream, by digest, each as it was set last. Raises BusError."""
    found: dict[str, PolicySet] = {}
    async for delivery in bus.read([subject_filter(PolicySet, agent)]):
        try:
            event = decode(delivery.data)
        except ContractViolationError:
            continue
        if isinstance(event, PolicySet) and event.policy is not None:
            found.pop(event.policy, None)
            found[event.policy] = event
    return found


async def _data_sets(world: DashboardContext) -> list[tuple[str, Manifest | None]]:
    """(name, manifest) of the newest snapshots in the home, the newest first; None for one that was edited."""

    def read() -> list[tuple[str, Manifest | None]]:
        newest = reversed(snapshots_in(world.home.path / "data")[-MOST_DRAWN:])
        return [(path.name, _manifest(path)) for path in newest]

    return await asyncio.to_thread(read)


def _manifest(path: Path) -> Manifest | None:
    try:
        return read_manifest(path)
    except ConchError:
        return None


async def _learnt(world: DashboardContext, agent: str) -> LearningProgress | None:
    return await asyncio.to_thread(learnt, world.home.agent_dir(agent) / MEMORY)


def _data(acted: Sequence[Acted], policies: Sequence[str | None]) -> dict[str, object]:
    return {"cycles": [cycle for cycle, *_ in acted], "policies": curves(acted, policies)}


ROUTES = [Route("/training", training)]
