"""`/review`: cycles that are worth a person's look, one at a time."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.consumer.operations import watched
from conch.experience import ExperienceReader
from conch.requests import APPROVAL
from conch.rewards.watch import ActiveAlarm
from conch.views import scored_of
from conch_schemas import HUMAN_SCORER, ExperienceRecorded, ScoredPart
from conch_services.dashboard.asking import asked, kept
from conch_services.dashboard.drawings.waterfall import waterfall
from conch_services.dashboard.page import agent_of, page
from conch_services.dashboard.pages.cycle import shown
from conch_services.dashboard.ranges.wanted import USUAL_LAST, WantedRange, wanted_range
from conch_services.dashboard.ranges.window import points_in, window_of
from conch_services.dashboard.reviewing import ReviewCandidate, candidates
from conch_services.dashboard.story.verdicts import review_verdict
from conch_services.dashboard.world import DashboardContext

MOST = 2000
"""Cycles that are searched, the newest of the range."""
FRESH_SECONDS = 2.0
MOST_LEFT_OUT = 1000
"""Cycles that a page may name as done or skipped."""


async def review(request: Request) -> Response:
    """The weightiest cycle that is not among those of `?without=1,2,…`; with `?cycle=` that one."""
    world, agent = request.app.state.world, await agent_of(request)
    wanted, _ = wanted_range(request.query_params)
    wanted = WantedRange("last", USUAL_LAST) if wanted.kind == "usual" else wanted
    found = await asked(
        kept(request, "review", FRESH_SECONDS).get((agent, wanted.text), lambda: _candidates(world, agent, wanted))
    )
    cycles, waits = found.found or (0, [])
    without = _numbers(request.query_params.get("without", ""))
    queue = [one for one in waits if one.cycle not in without]
    named = _numbers(request.query_params.get("cycle", ""))
    cycle = next(iter(named), queue[0].cycle if queue else None)
    card, why, broken = None, found.why, found.broken
    if cycle is not None:
        read = await asked(world.read(lambda reader: _card(reader, agent, cycle)))
        card, why, broken = read.found, read.why, read.broken
    reasons = next((one.reasons for one in waits if one.cycle == cycle), ())
    template = "review_card.html" if "hx-request" in request.headers else "review.html"
    told = {"card": card, "why": why, "left": len(queue), "reasons": reasons, "shown": shown}
    told |= {"after": world.hub.last, "broken": broken, "without": without, "looked_at": cycles}
    told["verdict_said"] = review_verdict(queue, cycles)
    return await page(request, template, told | _drawn(card))


async def _candidates(world: DashboardContext, agent: str, wanted: WantedRange) -> tuple[int, list[ReviewCandidate]]:
    """(how many cycles were searched, those to review)."""
    alarms = (await asked(_alarms(world, agent))).found or ()
    return await world.read(lambda reader: _looked(reader, agent, wanted, alarms))


async def _alarms(world: DashboardContext, agent: str) -> Sequence[ActiveAlarm]:
    states = await watched(world.bus, [agent])
    return states[agent].active if agent in states else ()


def _looked(
    reader: ExperienceReader, agent: str, wanted: WantedRange, alarms: Sequence[ActiveAlarm]
) -> tuple[int, list[ReviewCandidate]]:
    sets = reader.charts.weight_sets(agent)
    limits = {part.component: part.range for part in (sets[-1].parts if sets else ())}
    points = points_in(reader, agent, window_of(reader, agent, wanted), MOST)
    return len(points), candidates(points, alarms, limits)


def _card(reader: ExperienceReader, agent: str, cycle: int) -> tuple[ExperienceRecorded, int] | None:
    """(the experience, how many marks it has)."""
    found = reader.cycles.get(agent, cycle)
    return None if found is None else (found, len(reader.chain.marks_of(agent, str(found.action_id))))


def _drawn(card: tuple[ExperienceRecorded, int] | None) -> dict[str, object]:
    if card is None:
        return {"told": None, "fall": None, "marks": 0, "scored": 0, "parts": 0, "word": None, "scorers": ()}
    experience, marks = card
    scored, parts = scored_of(experience)
    return {
        "told": experience,
        "fall": waterfall(experience),
        "marks": marks,
        "scored": scored,
        "parts": parts,
        "word": _word(experience.scores),
        "scorers": dict.fromkeys(f"{one.scorer} {one.version}" for one in experience.scores if one.version),
    }


def _word(scores: Sequence[ScoredPart]) -> ScoredPart | None:
    """A person's score of the act so far."""
    return next((one for one in scores if one.component == APPROVAL and one.scorer == HUMAN_SCORER), None)


def _numbers(told: str) -> tuple[int, ...]:
    """Cycles named in a query; what is no number is passed over."""
    return tuple(
        int(one) for one in told.split(",")[:MOST_LEFT_OUT] if one.isascii() and one.isdecimal() and len(one) < 19
    )


ROUTES = [Route("/review", review)]
