"""`/rewards/component/{name}`: one part of the reward: where it comes from, its rule, its errors, the acts it paid."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.experience import ExperienceReader
from conch.rewards import weights_in_tasks
from conch.text import safe_text
from conch.views import ComponentOrigin, RewardRow, action_words, component_origin, reward_rows, step_words
from conch_schemas import WeightsSet
from conch_services.dashboard.asking import asked
from conch_services.dashboard.page import agent_of, page
from conch_services.dashboard.ranges.wanted import USUAL, WantedRange, wanted_range
from conch_services.dashboard.ranges.window import points_in, window_of
from conch_services.dashboard.story.strip import adds
from conch_services.dashboard.world import DashboardContext

LAST: Final = 1000
"""Cycles that are read."""
SHOWN: Final = 10
"""Rows of each list."""
MOST_SOURCE: Final = 40_000
"""Characters of a rule's file that are shown."""


class PaidCycle(NamedTuple):
    """A cycle with what the part had to do with it."""

    cycle: int
    act: str
    amount: float
    """What it added to the total."""
    status: str
    why: str
    """The explanation of the score."""


@dataclass(frozen=True)
class ComponentFigures:
    """What the store says of one component."""

    rows: Sequence[RewardRow]
    """One for each scorer."""
    errors: Sequence[PaidCycle]
    """The newest first."""
    failed: int
    """Cycles in which it could not be scored, or came too late."""
    most: Sequence[PaidCycle]
    """The cycles to which it added most, the most first."""
    least: Sequence[PaidCycle]
    """Those from which it took most."""
    sets: Sequence[WeightsSet]
    in_tasks: float | None
    """Its weight in an act of a task, by the weight set in force; None where it has no other there."""
    cycles: int


async def component(request: Request) -> Response:
    """The page of a component; one that was never scored has no figures."""
    world: DashboardContext = request.app.state.world
    agent, name = await agent_of(request), request.path_params["name"]
    wanted, _ = wanted_range(request.query_params)
    found = await asked(world.read(lambda reader: look(reader, agent, name, wanted)))
    shown = found.found
    came = ComponentOrigin(None, None)
    if shown is not None and shown.rows:
        scorer = shown.rows[0].scorer
        came = await asyncio.to_thread(component_origin, world.settings, world.home, name, scorer)
    source = await asyncio.to_thread(source_of_rule, came.origin)
    given: dict[str, object] = {
        "name": name,
        "shown": shown,
        "why": found.why,
        "broken": found.broken,
        "came": came,
        "source": source,
        "after": world.hub.last,
    }
    return await page(request, "component.html", given, 200 if shown is None or shown.rows else 404)


def look(reader: ExperienceReader, agent: str, name: str, wanted: WantedRange = USUAL) -> ComponentFigures:
    """The component: its rows over the last cycles, its acts over the newest of the range."""
    rows = [one for one in reward_rows(reader.charts, agent, LAST, {}) if one.component == name]
    points = points_in(reader, agent, window_of(reader, agent, wanted), LAST)
    plain = {step_words(name), step_words(f"gate:{name}"), step_words(f"cap:{name}")}
    amounts = [(sum(one for step, one in adds(point).items() if step in plain), point.cycle) for point in points]
    failed = [
        point.cycle
        for point in points
        if any(one.component == name and one.status in ("error", "timeout") for one in point.scores)
    ]
    ranked = sorted(amounts, reverse=True)
    by_cycle = {cycle: amount for amount, cycle in amounts}
    most = [cycle for amount, cycle in ranked[:SHOWN] if amount > 0.0]
    least = [cycle for amount, cycle in ranked[: -SHOWN - 1 : -1] if amount < 0.0]

    def told(cycles: Sequence[int]) -> list[PaidCycle]:
        return [one for cycle in cycles if (one := _told(reader, agent, cycle, name, by_cycle[cycle])) is not None]

    sets = reader.charts.weight_sets(agent)
    return ComponentFigures(
        rows=rows,
        errors=told(failed[: -SHOWN - 1 : -1]),
        failed=len(failed),
        most=told(most),
        least=told(least),
        sets=[one for one in sets if any(part.component == name for part in one.parts)],
        in_tasks=weights_in_tasks(sets[-1].parts).get(name) if sets else None,
        cycles=len(points),
    )


def _told(reader: ExperienceReader, agent: str, cycle: int, name: str, amount: float) -> PaidCycle | None:
    recorded = reader.cycles.get(agent, cycle)
    score = next((one for one in recorded.scores if one.component == name), None) if recorded is not None else None
    if recorded is None or score is None:
        return None
    act = safe_text(action_words(recorded.action, 80), one_line=True)
    return PaidCycle(cycle, act, amount, score.status.replace("_", " "), safe_text(score.explanation, one_line=True))


def source_of_rule(origin: str | None) -> str:
    """The text of the file that a rule comes from; empty where it comes from no file that can be read."""
    path = Path(origin or "")
    if path.suffix != ".py" or not path.is_absolute():
        return ""
    try:
        return safe_text(path.read_text(encoding="utf-8")[:MOST_SOURCE])
    except (OSError, ValueError):  # not UTF-8, or no path
        return ""


ROUTES = [Route("/rewards/component/{name}", component)]
"""The page of one part of the reward."""
