"""`/film`: the life of an agent replayed from the log, act by act, and the river of its behaviours."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from conch.experience import CycleFilter, ExperienceReader
from conch.text import safe_text
from conch.views import action_words
from conch_schemas import ExperienceRecorded, JsonObject
from conch_services.dashboard.asking import QueryResult, asked, kept
from conch_services.dashboard.film.river import HEIGHT, WIDTH, RiverBand, river, width_of
from conch_services.dashboard.page import agent_of, page
from conch_services.dashboard.story.strip import adds, reward_strip
from conch_services.dashboard.world import DashboardContext

FRAMES: Final = 100
"""Cycles that a request brings."""
FRESH_SECONDS: Final = 30.0
"""Seconds for which the river is not drawn again."""
WORDS: Final = 200
"""Characters of an act and of a thought."""
SPEEDS: Final = (10, 100, 1000)
"""By how much the film is faster than the life was."""
USUAL_SPEED: Final = 10


async def film(request: Request) -> Response:
    """The page, at the cycle `?cycle=`, else at the first that is kept."""
    world, agent = request.app.state.world, await agent_of(request)
    ends = await asked(world.read(lambda reader: _ends(reader, agent)))
    first, last, place = ends.found or (None, None, 0)
    found: QueryResult[list[RiverBand]] = await asked(
        kept(request, "rivers", FRESH_SECONDS).get((agent, last), lambda: _river(world, agent, last or 0))
    )
    wanted = _number(request.query_params.get("cycle", ""))
    return await page(
        request,
        "film.html",
        {
            "first": first,
            "last_cycle": last,
            "at": first if first is None or last is None or wanted is None else min(max(first, wanted), last),
            "bands": found.found or [],
            "bucket": width_of(last or 0),
            "river_size": (WIDTH, HEIGHT),
            "speeds": SPEEDS,
            "usual": USUAL_SPEED,
            "why": ends.why,
            "broken": ends.broken,
            "place": place,
        },
    )


async def frames(request: Request) -> Response:
    """`{"next": the cycle to go on from, "frames": […]}` of the FRAMES cycles from `?from=` on, oldest first."""
    world, agent = request.app.state.world, await agent_of(request)
    begin = _number(request.query_params.get("from", "")) or 0
    within = CycleFilter(first=begin, last=begin + FRAMES - 1)
    found = await asked(world.read(lambda reader: reader.cycles.find(agent, within, FRAMES)))
    shown = [_frame(one) for one in reversed(found.found or ())]
    return JSONResponse({"next": begin + FRAMES, "frames": shown})


def _frame(one: ExperienceRecorded) -> JsonObject:
    strip = reward_strip(adds(one), one.total)
    return {
        "cycle": one.cycle,
        "time": one.acted_at.timestamp(),
        "thought": safe_text(one.thought, one_line=True)[:WORDS],
        "act": safe_text(action_words(one.action, WORDS), one_line=True),
        "outcome": one.outcome.status,
        "total": strip.total,
        "sum": strip.words,
        "strip": [
            [part.colour, part.x, part.width, part.amount < 0, part.name, part.said]
            for part in (*strip.paid, *strip.taken)
        ],
        "needs": {safe_text(name, one_line=True): round(level, 3) for name, level in (one.needs_after or {}).items()},
        "goals": [
            [safe_text(check.statement, one_line=True)[:WORDS], round(max(check.best, check.measure), 3)]
            for check in one.goals
            if check.outcome != "error"
        ],
    }


def _ends(reader: ExperienceReader, agent: str) -> tuple[int | None, int | None, int]:
    """(the first cycle that is kept, the last one, the store's position)."""
    position, last = reader.position(), reader.cycles.last_cycle(agent)
    first = next((page[0][0] for page in reader.charts.totals(agent, 0)), None)
    return first, last, position


async def _river(world: DashboardContext, agent: str, last: int) -> list[RiverBand]:
    return await world.read(lambda reader: river(reader.charts.behaviours(agent, width_of(last))))


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


ROUTES = [Route("/film", film), Route("/film/frames", frames)]
