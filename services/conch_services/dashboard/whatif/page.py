"""`/whatif`: other weights on the recorded acts, at once; one press puts them in force."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.experience import ExperienceReader
from conch.rewards import weights_in_tasks
from conch_schemas import WeightsSet
from conch_services.dashboard.asking import asked
from conch_services.dashboard.page import agent_of, page
from conch_services.dashboard.ranges.wanted import wanted_range
from conch_services.dashboard.ranges.window import points_in, window_of
from conch_services.dashboard.whatif.recomputed import WhatIf, payable, shares, what_if
from conch_services.dashboard.world import DashboardContext

MOST: Final = 1000
"""Acts that are computed anew, the newest of the range."""
STEP: Final = 0.001
"""Of a weight's slider. A weight that is nearer than half of it to the one in force is that one."""
PREFIX: Final = "w."
"""Of the parameters of weights: `?w.format=0.3`."""


class WhatIfFigures(NamedTuple):
    """What the page shows."""

    weights: dict[str, float]
    """Of the newest act, by component, in the order of the set."""
    table: dict[str, float]
    """The others, with the sum 1; empty: all were 0."""
    found: WhatIf | None
    version: str
    is_of_task: bool
    """Whether they are the weights of the set in force in an act of a task."""
    is_moved: bool
    """Whether any weight is another than the one in force."""


async def whatif(request: Request) -> Response:
    """The page; its lower part alone where a script asks for it."""
    world: DashboardContext = request.app.state.world
    agent = await agent_of(request)
    given, wrong = given_weights(request.query_params)
    wanted, _ = wanted_range(request.query_params)

    def look(reader: ExperienceReader) -> WhatIfFigures | None:
        sets: list[WeightsSet] = reader.charts.weight_sets(agent)
        points = points_in(reader, agent, window_of(reader, agent, wanted), MOST)
        if not sets or not points:
            return None
        parts = sets[-1].parts
        newest = {one.component: one.weight for one in points[-1].scores}
        weights = {name: round(newest.get(name, 0.0), 4) for name in payable(parts)}
        tried = {name: _tried(given.get(name, weight), weight) for name, weight in weights.items()}
        table, is_moved = shares(tried), tried != weights
        found = what_if(points, parts, table) if table else None
        inside = weights_in_tasks(parts)
        is_of_task = bool(inside) and all(abs(newest.get(name, 0.0) - inside[name]) < 1e-6 for name in inside)
        return WhatIfFigures(weights, table, found, sets[-1].version, is_of_task, is_moved)

    looked = await asked(world.read(look))
    template = "whatif_now.html" if "hx-request" in request.headers else "whatif.html"
    shown = looked.found
    found = shown.found if shown is not None else None
    told: dict[str, object] = {
        "why": looked.why,
        "broken": looked.broken,
        "shown": shown,
        "found": found,
        "given": given,
        "wrong": wrong,
        "step": STEP,
        "place": world.hub.last,
        "data": {"x": found.x, "lines": {"in force": found.now_curve, "with these": found.then_curve}}
        if found
        else None,
    }
    return await page(request, template, told)


def _tried(given: float, weight: float) -> float:
    """The weight that is meant: sliders give no finer one than STEP."""
    return weight if abs(given - weight) <= STEP / 2 + 1e-9 else given


def given_weights(query: Mapping[str, str]) -> tuple[dict[str, float], list[str]]:
    """(the weights that a query names by component, sentences on those that cannot be)."""
    found: dict[str, float] = {}
    wrong: list[str] = []
    for name, text in query.items():
        if not name.startswith(PREFIX) or not text.strip():
            continue
        try:
            weight = float(text)
        except ValueError:
            weight = math.nan
        if 0.0 <= weight <= 1.0:
            found[name.removeprefix(PREFIX)] = weight
        else:
            wrong.append(f"The weight of {name.removeprefix(PREFIX)[:40]} cannot be “{text[:20]}”: it is 0 to 1.")
    return found, wrong


ROUTES = [Route("/whatif", whatif)]
"""The page."""
