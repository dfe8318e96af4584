"""`/cycles`: every cycle there is, filtered, a page at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, get_args
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.experience import CycleFilter, ExperienceReader
from conch.needs import priorities_of
from conch_schemas import ExperienceRecorded
from conch_schemas.action import ActionKind, OutcomeStatus
from conch_services.dashboard.asking import asked, number_of
from conch_services.dashboard.page import agent_of, agents_of, page
from conch_services.dashboard.world import DashboardContext

ROWS = 50
"""Cycles of one page."""
TOOLS_OF = 1000
"""The form offers the tools of this many last cycles."""
MOST_NEWS = 100
"""New cycles that are counted; of more, a plus is shown."""
DEEPEST = 40
"""Pages in the history of the back link; beyond, it leads to the newest."""

OUTCOMES: Final[tuple[str, ...]] = get_args(OutcomeStatus)
KINDS: Final[tuple[str, ...]] = get_args(ActionKind)
_WORDS = {
    "least": "the least total",
    "most": "the greatest total",
    "first": "the first cycle",
    "last": "the last cycle",
}


@dataclass(frozen=True)
class CyclePage:
    """A page of the list of cycles."""

    place: int
    """Stream sequence up to which the other fields are complete, at least."""
    found: Sequence[ExperienceRecorded]
    """Newest first; one more than a page where there is an older one."""
    tools: Sequence[str]
    skills: Sequence[str]


async def cycles(request: Request) -> Response:
    """A page of the cycles that match the query; invalid parts of the query are reported and ignored."""
    world: DashboardContext = request.app.state.world
    agent = await agent_of(request)
    filters, given, wrong = filters_of(request.query_params)
    before, trail = _place(request.query_params)
    upto = number_of(request, "upto")  # the first page drawn again: what is newer is announced, not shoved in
    if before is None and upto:
        before = upto + 1
    looked = await asked(world.read(lambda reader: look(reader, agent, filters, before)))
    listed = looked.found or CyclePage(0, (), (), ())
    rows = listed.found[:ROWS]
    more = {"agent": agent} if request.query_params.get("agent") else {}
    found: dict[str, object] = {
        "why": looked.why,
        "broken": looked.broken,
        "wrong": wrong,
        "rows": rows,
        "place": listed.place,
        "given": given,
        "filters": filters,
        "outcomes": OUTCOMES,
        "kinds": KINDS,
        "tools": listed.tools,
        "skills": listed.skills,
        "needs": sorted(priorities_of(world.settings.needs)),
        "of_list": f"?{urlencode(more | given)}" if more or given else "",
        "query": urlencode({**given, "agent": agent}),
        "first_page": not trail,
        "here": _link(given | more, trail, rows[0].cycle if rows and not trail else None),
        "news": await _news(world, agent, filters, upto) if upto else 0,
        "most_news": MOST_NEWS,
        "news_query": urlencode({**given, "agent": agent, "newest": rows[0].cycle or 0 if rows else 0}),
        "filtered": bool(given),
        "newer": None if not trail else _link(given | more, trail[:-1]),
        "older": _link(given | more, [*trail, rows[-1].cycle or 0]) if len(listed.found) > ROWS else None,
        "top": _link(given | more, []),
    }
    return await page(request, "cycles.html", found)


async def news(request: Request) -> Response:
    """How many cycles behind `?newest=` match the query, as a piece of the page."""
    world: DashboardContext = request.app.state.world
    agent = await agent_of(request)
    filters, given, _ = filters_of(request.query_params)
    newest = number_of(request, "newest")
    more = {"agent": agent} if len(await agents_of(world)) > 1 else {}
    told = {
        "news": await _news(world, agent, filters, newest),
        "most_news": MOST_NEWS,
        "news_query": urlencode({**given, "agent": agent, "newest": newest}),
        "filtered": bool(given),
        "top": _link(given | more, []),
    }
    return await page(request, "cycles_news.html", told)


async def _news(world: DashboardContext, agent: str, filters: CycleFilter, newest: int) -> int:
    """How many cycles behind `newest` the filters let through, MOST_NEWS at most."""
    behind = replace(filters, first=max(newest + 1, filters.first or 0))
    found = await asked(world.read(lambda reader: len(reader.cycles.find(agent, behind, MOST_NEWS))))
    return found.found or 0


def look(reader: ExperienceReader, agent: str, filters: CycleFilter, before: int | None) -> CyclePage:
    """The page, and the tools that there were."""
    place = reader.position()
    tallies = [tally for tally in reader.charts.tallies(agent, TOOLS_OF) if tally.tool]
    tools, skills = sorted({tally.tool or "" for tally in tallies}), sorted({tally.skill for tally in tallies})
    return CyclePage(place, reader.cycles.find(agent, filters, ROWS + 1, before), tools, skills)


def filters_of(query: Mapping[str, str]) -> tuple[CycleFilter, dict[str, str], list[str]]:
    """(the filters of a query, what of it they were made from, sentences on what in it cannot be)."""
    given: dict[str, str] = {}
    filters = CycleFilter()
    wrong: list[str] = []
    for name in CycleFilter.__dataclass_fields__:
        text = query.get(name, "").strip()
        if not text:
            continue
        try:
            filters = replace(filters, **{name: _value(name, text)})
            given[name] = text
        except ValueError:
            wrong.append(f"{_WORDS.get(name, name).capitalize()} cannot be “{text[:40]}”: {_wanted(name)}.")
    return filters, given, wrong


def _value(name: str, text: str) -> Any:
    if name in ("least", "most"):
        value = float(text)
        if not math.isfinite(value):
            raise ValueError
        return value
    if name in ("first", "last"):
        if not (text.isascii() and text.isdecimal()) or len(text) > 19:
            raise ValueError
        return int(text)
    if name == "complete":
        return {"true": True, "false": False}.get(text) if text in ("true", "false") else _refused()
    if (name == "outcome" and text not in OUTCOMES) or (name == "kind" and text not in KINDS):
        raise ValueError
    return text


def _refused() -> None:
    raise ValueError


def _wanted(name: str) -> str:
    if name in ("least", "most"):
        return "it is a number, such as 0.3"
    if name in ("first", "last"):
        return "it is a whole number from 0"
    return f"it is one of {', '.join({'outcome': OUTCOMES, 'kind': KINDS}.get(name, ('true', 'false')))}"


def _place(query: Mapping[str, str]) -> tuple[int | None, list[int]]:
    """(the cycle that the page is before, the same of all pages up to it): `?trail=350.300`."""
    steps = query.get("trail", "").split(".")[:DEEPEST]
    trail = [int(step) for step in steps if step.isascii() and step.isdecimal() and len(step) < 20]
    return (trail[-1] if trail else None), trail


def _link(given: Mapping[str, str], trail: Sequence[int], upto: int | None = None) -> str:
    place = {"trail": ".".join(map(str, trail[-DEEPEST:]))} if trail else {}
    if upto is not None:
        place["upto"] = str(upto)
    query = urlencode({**given, **place})
    return f"/cycles?{query}" if query else "/cycles"


ROUTES = [Route("/cycles", cycles), Route("/cycles/news", news)]
