"""`/compare`: two to six subjects side by side, and a blind vote between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.experience import ExperienceReader
from conch.needs import priorities_of
from conch_services.dashboard.asking import asked, kept
from conch_services.dashboard.compare.differences import SameState, curve_data, figure_rows, same_states
from conch_services.dashboard.compare.states import StateWords, words_of_states
from conch_services.dashboard.compare.subjects import (
    MOST,
    ComparedSubject,
    ComparedWeights,
    Offer,
    SubjectName,
    compared,
    named_subjects,
    offers,
    usual_subjects,
)
from conch_services.dashboard.compare.votes import ballot
from conch_services.dashboard.page import agent_of, agents_of, page
from conch_services.dashboard.pages.cycle import shown
from conch_services.dashboard.world import DashboardContext

FRESH_SECONDS: Final = 5.0
"""Seconds for which a comparison is reused for the same request."""


class CompareFigures(NamedTuple):
    """What was asked for, with its acts."""

    subjects: Sequence[ComparedSubject]
    weights: ComparedWeights
    offers: dict[str, list[Offer]]
    states: Sequence[SameState]
    words: dict[str, StateWords]
    """Of the states, by their keys."""


async def compare(request: Request) -> Response:
    """The page."""
    world: DashboardContext = request.app.state.world
    agent = await agent_of(request)
    names, wrong = await _named(request, agent)
    found = await asked(_looked(request, agent, names))
    subjects = found.found.subjects if found.found is not None else ()
    told: dict[str, object] = {
        "why": found.why,
        "broken": found.broken,
        "wrong": wrong,
        "subjects": [(one, _without(subjects, at, agent)) for at, one in enumerate(subjects)],
        "offers": found.found.offers if found.found is not None else {},
        "weights": found.found.weights if found.found is not None else None,
        "most": MOST,
        "rows": figure_rows(subjects) if subjects else (),
        "states": found.found.states if found.found is not None else (),
        "state_words": found.found.words if found.found is not None else {},
        "data": curve_data(subjects),
        "asked_for": _query(subjects, agent),
        "place": world.hub.last,
    }
    return await page(request, "compare.html", told)


async def vote(request: Request) -> Response:
    """The next pair of the blind vote, as a piece of the page."""
    agent = await agent_of(request)
    names, _ = await _named(request, agent)
    found = await asked(_looked(request, agent, names))
    subjects = found.found.subjects if found.found is not None else ()
    cast = await asked(ballot(request, agent, subjects, request.query_params.get("reviewer")))
    told: dict[str, object] = {
        "subjects": subjects,
        "ballot": cast.found,
        "why": found.why or cast.why,
        "broken": found.broken or cast.broken,
        "shown": shown,
    }
    return await page(request, "compare_vote.html", told)


async def _named(request: Request, agent: str) -> tuple[list[SubjectName], list[str]]:
    agents = await agents_of(request.app.state.world)
    return named_subjects(request.query_params.getlist("of"), agent, agents)


async def _looked(request: Request, agent: str, names: Sequence[SubjectName]) -> CompareFigures:
    world: DashboardContext = request.app.state.world
    agents = await agents_of(world)

    def look(reader: ExperienceReader) -> CompareFigures:
        chosen = names or usual_subjects(reader, agent)
        several = len({one.agent for one in chosen}) > 1
        subjects, weights = compared(reader, chosen, several=several)
        states = same_states(subjects)
        words = words_of_states(reader, subjects, states, priorities_of(world.settings.needs))
        return CompareFigures(subjects, weights, offers(reader, agent, agents), states, words)

    key = (agent, *(one.text for one in names))
    found: CompareFigures = await kept(request, "compared", FRESH_SECONDS).get(key, lambda: world.read(look))
    return found


def _query(subjects: Sequence[ComparedSubject], agent: str) -> str:
    return urlencode([("agent", agent), *(("of", one.name.text) for one in subjects)])


def _without(subjects: Sequence[ComparedSubject], at: int, agent: str) -> str:
    return _query([one for place, one in enumerate(subjects) if place != at], agent)


ROUTES = [Route("/compare", compare), Route("/compare/vote", vote)]
"""The page and its vote."""
