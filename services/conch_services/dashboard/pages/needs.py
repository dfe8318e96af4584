"""`/needs`: needs, drives and goals over time, and what moved them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.experience import ExperienceReader, ShownCheck
from conch.views import NeedRow, needs_shown
from conch_schemas import Drives, NeedsChanged
from conch_services.dashboard.asking import QueryResult, after, asked, kept, number_of
from conch_services.dashboard.drawings.goal_lanes import LANE_WIDTH, goal_lanes
from conch_services.dashboard.figures import AGAIN, Columns, short, thinned
from conch_services.dashboard.page import agent_of, page
from conch_services.dashboard.ranges.wanted import USUAL, WantedRange, wanted_range
from conch_services.dashboard.ranges.window import CycleWindow, sampled_in, taken_words, window_of
from conch_services.dashboard.story.strip import colours_of
from conch_services.dashboard.stream.history import GoalHistory, StreamHistory, goals
from conch_services.dashboard.world import DashboardContext

LAST = 400
"""Cycles that are drawn."""
FRESH_SECONDS = 1.0
CHANGES = 25
"""Changes that are listed."""
CAUSES = 6
"""Causes of a need's change that are named, those that moved it most."""
MOST_LANES = 12
"""Goals that are drawn, the active ones first, then the newest."""
OPEN_STATES = ("active", "proposed")
"""States of goals that are not over."""
ENDED_IN_SIGHT = 8
"""Goals that are over and stand in the table; those that ended before them are folded."""
LISTED_GOALS = 50
DRIVES = tuple(Drives.model_fields)


@dataclass(frozen=True)
class NeedsFigures:
    """The figures of the page, from the history."""

    rows: tuple[NeedRow, ...]
    """Rows as in `conch need list --json`."""
    history: tuple[NeedsChanged, ...]
    """The oldest first."""
    moved: Mapping[str, Sequence[tuple[str, float, int]]]
    """Need -> (cause, sum of its changes, how often)."""
    checks: tuple[tuple[int, tuple[ShownCheck, ...]], ...]
    levels: Mapping[int, Mapping[str, float]]
    """Cycle -> the needs after it."""
    position: int
    window: CycleWindow | None = None
    """The range that all of it is of; None: the last cycles."""


async def needs(request: Request) -> Response:
    """The last 400 cycles, or those of the range, drawn again as they come."""
    world, agent = request.app.state.world, await agent_of(request)
    wanted, _ = wanted_range(request.query_params)
    answers = kept(request, "needs", FRESH_SECONDS)
    found = await asked(answers.get((agent, wanted), lambda: _looked(world, agent, wanted)))
    recalled = kept(request, "recalled", FRESH_SECONDS)
    memory = _recalled(request)
    drives = await asked(recalled.get(("drives", agent), lambda: _drives(world, memory, agent)))
    told = await asked(recalled.get(("goals", agent), lambda: _goals(world, agent)))
    shown: NeedsFigures | None = found.found
    checks = shown.checks if shown is not None else ()
    window = shown.window if shown is not None else None
    data = _data(shown, drives.found or (), 0 if window else number_of(request, "since"))
    taken = f"the last {LAST} cycles" if window is None or shown is None else taken_words(window, len(shown.levels))
    listed = _listed(told, checks)
    span = (checks[0][0], checks[-1][0]) if checks else (0, 0)
    lanes = goal_lanes(checks, [str(row["id"]) for row in listed], span)[:MOST_LANES]
    template = "needs_now.html" if "hx-request" in request.headers else "needs.html"
    return await page(
        request,
        template,
        {
            "shown": shown,
            "why": found.why,
            "broken": found.broken,
            "drives_why": drives.why,
            "goals_why": told.why,
            "drives": drives.found[-1][1].model_dump() if drives.found else {},
            "goals": listed,
            "lanes": lanes,
            "lane_width": LANE_WIDTH,
            "span": span,
            "shown_goals": sum(row["state"] in OPEN_STATES for row in listed) + ENDED_IN_SIGHT,
            "data": {"most": LAST, "whole": window is not None, "colours": colours_of(data["lines"]), **data},
            "window": window,
            "taken": taken,
            "next": max(0, data["x"][-1] - AGAIN) if data["x"] else 0,
            "changes": shown.history[: -CHANGES - 1 : -1] if shown is not None else (),
            "last": LAST,
            "after": after(request, shown.position if shown is not None else 0),
        },
    )


def _recalled(request: Request) -> StreamHistory:
    there: StreamHistory | None = getattr(request.app.state, "recalled", None)
    if there is None:
        there = request.app.state.recalled = StreamHistory()
    return there


async def _looked(world: DashboardContext, agent: str, wanted: WantedRange) -> NeedsFigures:
    return await world.read(lambda reader: _needs(reader, world, agent, wanted))


async def _drives(world: DashboardContext, memory: StreamHistory, agent: str) -> Sequence[tuple[int, Drives]]:
    return await memory.drives(world.bus, agent)


async def _goals(world: DashboardContext, agent: str) -> dict[str, GoalHistory]:
    return await goals(world.bus, agent)


def _needs(reader: ExperienceReader, world: DashboardContext, agent: str, wanted: WantedRange) -> NeedsFigures:
    position, window = reader.position(), None
    if wanted in (USUAL, WantedRange("last", LAST)):
        history, checks = reader.charts.needs_history(agent, LAST), reader.charts.goal_checks(agent, LAST)
        levels: dict[int, Mapping[str, float]] = {one.cycle: one.after for one in history if one.cycle is not None}
        newest = history[-1:]
    else:
        window = window_of(reader, agent, wanted)
        behind = window.last + 1
        history = [
            one
            for one in reader.charts.needs_history(agent, LAST, behind)
            if one.cycle is not None and window.has(one.cycle)
        ]
        checks = [one for one in reader.charts.goal_checks(agent, LAST, behind) if window.has(one[0])]
        levels = {one.cycle: one.needs_after for one in sampled_in(reader, agent, window) if one.needs_after}
        newest = reader.charts.needs_history(agent, 1)
    return NeedsFigures(
        rows=needs_shown(world.settings.needs, newest[-1] if newest else None).needs,
        history=tuple(history),
        moved=_moved(history),
        checks=tuple(checks),
        levels=levels,
        position=position,
        window=window,
    )


def _moved(history: Sequence[NeedsChanged]) -> dict[str, list[tuple[str, float, int]]]:
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    counts: Counter[tuple[str, str]] = Counter()
    for change in history:
        causes = [(one.need, one.why, one.delta) for one in change.changes]
        for need, why, delta in (*causes, *((need, "time", delta) for need, delta in change.drift.items())):
            sums[need][why] += delta  # type: ignore[assignment]
            counts[need, why] += 1
    return {
        need: [(why, float(total), counts[need, why]) for why, total in _largest(causes)]
        for need, causes in sums.items()
    }


def _largest(causes: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(causes.items(), key=lambda one: (-abs(one[1]), one[0]))[:CAUSES]


async def active_goals(request: Request, agent: str) -> QueryResult[list[dict[str, object]]]:
    """The goals that are neither reached nor dropped, as `/needs` lists them; or why they are not known."""
    world = request.app.state.world
    told = await asked(kept(request, "recalled", FRESH_SECONDS).get(("goals", agent), lambda: _goals(world, agent)))
    if told.found is None:
        return QueryResult(None, told.why)
    checks = await asked(world.read(lambda reader: tuple(reader.charts.goal_checks(agent, LAST))))
    return QueryResult([goal for goal in _listed(told, checks.found or ()) if goal["state"] in OPEN_STATES])


def _listed(
    told: QueryResult[dict[str, GoalHistory]], checks: Sequence[tuple[int, Sequence[ShownCheck]]]
) -> list[dict[str, object]]:
    """The goals with the best result of their checks in these cycles: the active ones before the others, each the
    newest first, LISTED_GOALS at most."""
    best: dict[str, float] = {}
    known = dict(told.found or {})
    for _, said in checks:
        for one in said:
            if one.outcome != "error":
                best[one.goal] = max(best.get(one.goal, 0.0), one.best, one.measure)
            state = "reached" if one.outcome == "achieved" else "active"
            known.setdefault(one.goal, GoalHistory(one.goal, one.statement, "", 0.0, "", None, state))
    rows = [vars(story) | {"best": best.get(name)} for name, story in known.items()]
    rows.reverse()
    rows.sort(key=lambda row: row["state"] not in OPEN_STATES)
    return rows[:LISTED_GOALS]


def _data(
    shown: NeedsFigures | None,
    drives: Sequence[tuple[int, Drives]],
    since: int,
) -> Columns:
    """Both charts over one axis of cycles, from cycle `since` on."""
    levels = shown.levels if shown is not None else {}
    window = shown.window if shown is not None else None
    driven = {cycle: one for cycle, one in drives if window is None or window.has(cycle)}
    cycles = sorted({*levels, *driven})
    cycles = cycles if window is not None else cycles[-LAST:]
    names = dict.fromkeys(need for level in levels.values() for need in level)
    x = [cycle for cycle in cycles if cycle >= since]
    found: Columns = {
        "x": x,
        "lines": {
            "needs": {name: [short(levels.get(cycle, {}).get(name)) for cycle in x] for name in names},
            "drives": {name: [short(getattr(driven.get(cycle), name, None)) for cycle in x] for name in DRIVES},
        },
    }
    return found if window is None else thinned(found, LAST)


ROUTES = [Route("/needs", needs)]
