"""`/training`: an agent's lineage, its rounds and gates, what each generation earned; policies and the reflex mind."""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.bus import Bus
from conch.experience import ExperienceReader
from conch.minds import LearningProgress, learnt
from conch.views import SLOPE_OVER, Acted, LineageDetail, LineageShown, RewardSlope, duration_words, learning_progress
from conch_schemas import ContractViolationError, PolicySet, decode, subject_filter
from conch_services.dashboard.asking import QueryResult, after, asked, kept, number_of
from conch_services.dashboard.figures import AGAIN, Columns, short
from conch_services.dashboard.learning import WINDOW, by_policy, curves
from conch_services.dashboard.lineages import data_sets, lineage_document
from conch_services.dashboard.page import agent_of, page
from conch_services.dashboard.pages.cycle import shown
from conch_services.dashboard.ranges.wanted import USUAL, WantedRange, wanted_range
from conch_services.dashboard.ranges.window import CycleWindow, points_in, window_of
from conch_services.dashboard.story.strip import distinct_colours
from conch_services.dashboard.story.verdicts import learning_verdict
from conch_services.dashboard.world import DashboardContext

LAST = 1000
"""Cycles that are read."""
FRESH_SECONDS = 2.0
MOST_DRAWN = 8
"""Policies with a line of their own, those that acted last."""
MOST_LISTED = 50
MEMORY = "reflex.npz"
"""File of the agent's folder in which the reflex mind keeps what it learnt."""
LINES = ("loss", "eval_loss", "kl", "margin")
"""Figures of a round with a line of their own."""
PROMOTABLE = ("acted", "not tried", "on trial", "rolled back")
"""What an adapter may be for a person to promote it."""


async def training(request: Request) -> Response:
    """The lineage with the round of `?round=`, else the newest; totals by policy, and the reflex mind's learning."""
    world, agent = request.app.state.world, await agent_of(request)
    named = request.query_params.get("round", "")
    round = named if re.fullmatch("[0-9a-f]{64}", named) else None
    answers = kept(request, "training", FRESH_SECONDS)
    wanted, _ = wanted_range(request.query_params)
    found = await asked(answers.get(("acted", agent, wanted), lambda: _acted(world, agent, wanted)))
    lineage: QueryResult[LineageShown] = await asked(
        answers.get(("lineage", agent, round), lambda: lineage_document(world, agent, round))
    )
    policies = await asked(answers.get(("policies", agent), lambda: _policies(world, agent)))
    mind = await asked(answers.get(("learnt", agent), lambda: _learnt(world, agent)))
    sets = await asked(answers.get(("data", agent), lambda: data_sets(world, MOST_DRAWN)))
    position, read, window, slope = found.found or (0, [], None, None)
    acted = [one for one in read[-LAST:] if window is None or window.has(one[0])]
    earned = by_policy(acted)
    trained = lineage.found if lineage.found is not None and lineage.found.rounds else None
    since = 0 if window else number_of(request, "since")
    if trained is None and acted:
        since = max(since, acted[0][0])
    drawn = [one.policy for one in earned[:MOST_DRAWN]]
    lines = _within(_lines(trained, read, drawn, since), window)
    more = _lineage_data(trained) if trained else {"marks": [], "round": None, "deeds": None}
    template = "training_now.html" if "hx-request" in request.headers else "training.html"
    return await page(
        request,
        template,
        {
            "why": found.why,
            "broken": found.broken,
            "lineage": trained,
            "round": round,
            "enabled": world.settings.training.enabled,
            "every": world.settings.training.every,
            "duration": duration_words,
            "policies_why": policies.why,
            "policies": policies.found or {},
            "learnt": mind.found,
            "learnt_why": mind.why,
            "kind": world.settings.mind.kind,
            "model": world.settings.mind.model,
            "earned": earned[:MOST_LISTED],
            "slope": slope,
            "verdict_said": learning_verdict(earned, len(acted), trained),
            "last": len(acted),
            "window": window,
            "data": {
                "most": LAST,
                "whole": window is not None,
                "colours": distinct_colours(lines["lines"]["totals"]),
                **lines,
                **more,
            },
            "next": max(0, lines["x"][-1] - AGAIN) if lines["x"] else 0,
            "after": after(request, position),
            "shown": shown,
            "sets": sets.found or [],
        },
    )


async def _acted(
    world: DashboardContext, agent: str, wanted: WantedRange
) -> tuple[int, list[Acted], CycleWindow | None, RewardSlope | None]:
    """(the store's position, the last cycles up to the range's end with their policy and total, the range that is
    named, its learning progress); WINDOW more than LAST, for the means of the first ones."""

    def read(reader: ExperienceReader) -> tuple[int, list[Acted], CycleWindow | None, RewardSlope | None]:
        position, charts = reader.position(), reader.charts
        window = window_of(reader, agent, WantedRange("life") if wanted == USUAL else wanted)
        rise = learning_progress(points_in(reader, agent, window, SLOPE_OVER), charts.weight_sets(agent))
        if wanted == USUAL:
            return position, charts.policies(agent, LAST + WINDOW), None, rise
        return position, charts.policies(agent, LAST + WINDOW, window.last + 1), window, rise

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


async def _learnt(world: DashboardContext, agent: str) -> LearningProgress | None:
    return await asyncio.to_thread(learnt, world.home.agent_dir(agent) / MEMORY)


def _lines(lineage: LineageShown | None, acted: Sequence[Acted], policies: Sequence[str | None], since: int) -> Columns:
    """The curve of each generation from cycle `since` on; without a lineage that of each policy."""
    cycles: Sequence[int] = [cycle for cycle, *_ in acted]
    known: Mapping[str, Sequence[float | None]] = {name[:8]: line for name, line in curves(acted, policies).items()}
    if lineage is not None:
        cycles, known = lineage.reward.cycles, lineage.reward.curves
    begin = bisect_left(cycles, since)
    lines = {name: [short(value) for value in line[begin:]] for name, line in known.items()}
    return {"x": list(cycles[begin:]), "lines": {"totals": lines}}


def _within(found: Columns, window: CycleWindow | None) -> Columns:
    """The lines within the range."""
    if window is None:
        return found
    begin, end = bisect_left(found["x"], window.first), bisect_left(found["x"], window.last + 1)
    lines = {chart: {name: line[begin:end] for name, line in named.items()} for chart, named in found["lines"].items()}
    return {"x": found["x"][begin:end], "lines": lines}


def _lineage_data(lineage: LineageShown) -> dict[str, object]:
    """For the page's script: the moves on the curves, and what the buttons may do."""
    marks = [
        {"x": move.cycle, "label": f"{move.kind} to {move.generation}", "good": move.kind == "promoted"}
        for move in lineage.moves
        if move.cycle is not None
    ]
    return {
        "marks": marks[::-1],
        "round": None if lineage.round is None else _round_data(lineage.round),
        "deeds": {
            "stop": lineage.rounds[0].phase in ("training", "gating", "shadow", "canary"),
            "rollback": lineage.adapter is not None or lineage.phase in ("shadow", "canary"),
            "promote": [
                [one.adapter, f"generation {one.generation}, {one.role}: {(one.adapter or '')[:12]}"]
                for one in lineage.generations
                if one.adapter is not None and one.role in PROMOTABLE
            ],
        },
    }


def _round_data(detail: LineageDetail) -> dict[str, object]:
    lines = {name: [getattr(point, name) for point in detail.curve] for name in LINES}
    known = {name: line for name, line in lines.items() if any(value is not None for value in line)}
    return {"round": detail.summary.round, "steps": [point.step for point in detail.curve], "lines": known}


ROUTES = [Route("/training", training)]
