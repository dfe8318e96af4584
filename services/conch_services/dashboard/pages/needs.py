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
from conch_services.dashboard.figures import AGAIN, Columns, short
from conch_services.dashboard.page import agent_of, page
from conch_services.dashboard.stream.history import GoalHistory, StreamHistory, goals
from conch_services.dashboard.world import DashboardContext

LAST = 400
"""Cycles that are drawn."""
FRESH_SECONDS = 1.0
CHANGES = 25
"""Changes that are listed."""
CAUSES = 6
"""Causes of a need's change that are named, those that moved it most."""
MOST_GOALS = 8
"""Goals that are drawn, the newest."""
OPEN_STATES = ("active", "proposed")
"""States of goals that are not over."""
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
    position: int


async def needs(request: Request) -> Response:
    """The last 400 cycles, drawn again as they come."""
    world, agent = request.app.state.world, await agent_of(request)
    found = await asked(kept(request, "needs", FRESH_SECONDS).get(agent, lambda: _looked(world, agent)))
    recalled = kept(request, "recalled", FRESH_SECONDS)
    memory = _recalled(request)
    drives = await asked(recalled.get(("drives", agent), lambda: _drives(world, memory, agent)))
    told = await asked(recalled.get(("goals", agent), lambda: _goals(world, agent)))
    shown: NeedsFigures | None = found.found
    checks = shown.checks if shown is not None else ()
    data = _data(shown, drives.found or (), checks, number_of(request, "since"))
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
            "goals": _listed(told, checks),
            "data": {"most": LAST, **data},
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


async def _looked(world: DashboardContext, agent: str) -> NeedsFigures:
    return await world.read(lambda reader: _needs(reader, world, agent))


async def _drives(world: DashboardContext, memory: StreamHistory, agent: str) -> Sequence[tuple[int, Drives]]:
    return await memory.drives(world.bus, agent)


async def _goals(world: DashboardContext, agent: str) -> dict[str, GoalHistory]:
    return await goals(world.bus, agent)


def _needs(reader: ExperienceReader, world: DashboardContext, agent: str) -> NeedsFigures:
    position, history = reader.position(), reader.charts.needs_history(agent, LAST)
    return NeedsFigures(
        rows=needs_shown(world.settings.needs, history[-1] if history else None).needs,
        history=tuple(history),
        moved=_moved(history),
        checks=tuple(reader.charts.goal_checks(agent, LAST)),
        position=position,
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
    checks: Sequence[tuple[int, Sequence[ShownCheck]]],
    since: int,
) -> Columns:
    """The three charts over one axis of cycles, from cycle `since` on."""
    history = shown.history if shown is not None else ()
    levels = {change.cycle: change.after for change in history if change.cycle is not None}
    driven = dict(drives)
    measured = {cycle: {one.goal: one.measure for one in said if one.outcome != "error"} for cycle, said in checks}
    cycles = sorted({*levels, *driven, *(cycle for cycle, said in measured.items() if said)})[-LAST:]
    names = dict.fromkeys(need for level in levels.values() for need in level)
    ids = list(dict.fromkeys(goal for cycle in cycles for goal in measured.get(cycle, {})))[-MOST_GOALS:]
    x = [cycle for cycle in cycles if cycle >= since]
    return {
        "x": x,
        "lines": {
            "needs": {name: [short(levels.get(cycle, {}).get(name)) for cycle in x] for name in names},
            "drives": {name: [short(getattr(driven.get(cycle), name, None)) for cycle in x] for name in DRIVES},
            "goals": {goal: [short(measured.get(cycle, {}).get(goal)) for cycle in x] for goal in ids},
        },
    }


ROUTES = [Route("/needs", needs)]
