"""`/cycles`: every cycle there is, filtered, in any order, a page at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.experience import MOST_RANKED, CycleFilter, ExperienceReader
from conch.needs import priorities_of
from conch_schemas import ExperienceRecorded
from conch_services.dashboard.asking import after, asked, number_of
from conch_services.dashboard.cycles.filters import KINDS, NEWEST, ORDERS, OUTCOMES, WantedCycles, wanted_cycles
from conch_services.dashboard.page import agent_of, agents_of, page
from conch_services.dashboard.world import DashboardContext

ROWS = 50
"""Cycles of one page."""
TOOLS_OF = 1000
"""The form offers the tools of this many last cycles."""
GOALS_OF = 50
"""The form offers the goals of this many last cycles."""
MOST_NEWS = 100
"""New cycles that are counted; of more, a plus is shown."""
DEEPEST = 40
"""Pages in the history of the back link; beyond, it leads to the newest."""
_FALLING: Final = ("ms", "total", "cycle")
"""Columns that show their greatest first when they are pressed."""


@dataclass(frozen=True)
class CyclePage:
    """A page of the list of cycles."""

    place: int
    """Stream sequence up to which the other fields are complete, at least."""
    newest: int
    """The highest cycle that is recorded; 0 where none is."""
    filters: CycleFilter
    """With the bounds of times and range."""
    found: Sequence[ExperienceRecorded]
    """In the order asked for; one more than a page where there is another."""
    tools: Sequence[str]
    skills: Sequence[str]
    rules: Sequence[str]
    goals: Mapping[str, str]
    """Id -> statement."""


_NOTHING: Final = CyclePage(0, 0, CycleFilter(), (), (), (), (), {})


async def cycles(request: Request) -> Response:
    """A page of the cycles that match the query; invalid parts of the query are reported and ignored."""
    world: DashboardContext = request.app.state.world
    agent, wanted = await agent_of(request), wanted_cycles(request.query_params)
    sorted_ = wanted.order != NEWEST
    before, trail = _place(request.query_params)
    skip = number_of(request, "skip") if sorted_ else 0
    upto = number_of(request, "upto")  # the page drawn again: what is newer is announced, not shoved in
    if upto and (before is None or sorted_):
        before = upto + 1
    looked = await asked(world.read(lambda reader: look(reader, agent, wanted, before, skip)))
    listed = looked.found or _NOTHING
    rows = listed.found[:ROWS]
    numbers = [one.cycle or 0 for one in rows]
    more = {"agent": agent} if request.query_params.get("agent") else {}
    asked_for = more | wanted.query
    seen = upto or (listed.newest if sorted_ else max(numbers, default=0))
    first_page = not trail and not skip
    found: dict[str, object] = {
        "why": looked.why,
        "broken": looked.broken,
        "wrong": wanted.wrong,
        "rows": rows,
        "span": f"{min(numbers)}-{max(numbers)}" if rows else "",
        "place": after(request, listed.place),
        "given": wanted.given,
        "order": wanted.order,
        "sorted": sorted_,
        "begin": wanted.begin,
        "end": wanted.end,
        "columns": {name: _column(more, wanted, name) for name in ORDERS},
        "skip": skip,
        "most_ranked": MOST_RANKED if sorted_ and _is_bounded(wanted) else 0,
        "outcomes": OUTCOMES,
        "kinds": KINDS,
        "tools": listed.tools,
        "skills": listed.skills,
        "rules": listed.rules,
        "goals": listed.goals,
        "needs": sorted(priorities_of(world.settings.needs)),
        "of_list": f"?{urlencode(asked_for)}" if asked_for else "",
        "query": urlencode({**_api_query(wanted, listed.filters), "agent": agent}),
        "first_page": first_page,
        "here": _link(asked_for, trail, upto=seen if rows and (first_page or sorted_) else None, skip=skip),
        "news": await _news(world, agent, wanted, upto) if upto else 0,
        "most_news": MOST_NEWS,
        "news_query": urlencode({**wanted.query, "agent": agent, "newest": seen}),
        "filtered": bool(wanted.given),
        "newer": _link(asked_for, trail[:-1], skip=max(0, skip - ROWS)) if not first_page else None,
        "older": _older(asked_for, trail, skip, listed.found, sorted_=sorted_),
        "top": _link(asked_for, []),
    }
    return await page(request, "cycles.html", found)


async def news(request: Request) -> Response:
    """How many cycles behind `?newest=` match the query, as a piece of the page."""
    world: DashboardContext = request.app.state.world
    agent, wanted = await agent_of(request), wanted_cycles(request.query_params)
    newest = number_of(request, "newest")
    more = {"agent": agent} if len(await agents_of(world)) > 1 else {}
    told = {
        "news": await _news(world, agent, wanted, newest),
        "most_news": MOST_NEWS,
        "news_query": urlencode({**wanted.query, "agent": agent, "newest": newest}),
        "filtered": bool(wanted.given),
        "top": _link(wanted.query | more, []),
    }
    return await page(request, "cycles_news.html", told)


async def _news(world: DashboardContext, agent: str, wanted: WantedCycles, newest: int) -> int:
    """How many cycles behind `newest` the filters let through, MOST_NEWS at most."""

    def count(reader: ExperienceReader) -> int:
        filters = wanted.within(reader, agent)
        behind = replace(filters, first=max(newest + 1, filters.first or 0))
        return len(reader.cycles.find(agent, behind, MOST_NEWS))

    return (await asked(world.read(count))).found or 0


def look(reader: ExperienceReader, agent: str, wanted: WantedCycles, before: int | None, skip: int) -> CyclePage:
    """The page, and what the form offers."""
    place, newest = reader.position(), reader.charts.points(agent, 1)
    filters = wanted.within(reader, agent)
    if wanted.order == NEWEST:
        found = reader.cycles.find(agent, filters, ROWS + 1, before)
    else:
        last = filters.last if before is None else min(before - 1, before - 1 if filters.last is None else filters.last)
        found = reader.cycles.ranked(agent, replace(filters, last=last), wanted.order, ROWS + 1, skip)
    tallies = reader.charts.tallies(agent, TOOLS_OF)
    checks = reader.charts.goal_checks(agent, GOALS_OF)
    return CyclePage(
        place,
        newest[-1].cycle if newest else 0,
        filters,
        found,
        tools=sorted({tally.tool for tally in tallies if tally.tool}),
        skills=sorted({tally.skill for tally in tallies if tally.tool}),
        rules=_with(sorted({score.component for one in newest for score in one.scores}), wanted.filters.rule),
        goals={name: name for name in _with((), wanted.filters.goal)}
        | {one.goal: one.statement or one.goal for _, said in checks for one in said},
    )


def _with(names: Sequence[str], given: str | None) -> Sequence[str]:
    return names if given is None or given in names else (*names, given)


def _is_bounded(wanted: WantedCycles) -> bool:
    """Whether the order is one of the newest MOST_RANKED alone."""
    return wanted.order.by == "ms" or bool(wanted.filters.text or wanted.filters.goal)


def _column(more: Mapping[str, str], wanted: WantedCycles, name: str) -> tuple[str, str]:
    """(the address that a press on a column's title leads to, how the list is sorted by it now)."""
    pressed = wanted.order.by == name
    falling = not wanted.order.falling if pressed else name in _FALLING
    sort = {} if name == "cycle" and falling else {"sort": f"{'-' if falling else ''}{name}"}
    rest = {key: value for key, value in wanted.query.items() if key != "sort"}
    said = "" if not pressed else "descending" if wanted.order.falling else "ascending"
    return _link({**more, **rest, **sort}, []), said


def _api_query(wanted: WantedCycles, filters: CycleFilter) -> dict[str, str]:
    """The filters for the files, with the bounds that times and range came to."""
    names = CycleFilter.__dataclass_fields__
    first, last = filters.first, filters.last
    if first is not None and last is not None and last < first:
        first, last = 1, 0  # no cycle, in numbers that an address may have
    given = {name: text for name, text in wanted.given.items() if name in names}
    return given | {name: str(bound) for name, bound in (("first", first), ("last", last)) if bound is not None}


def _older(
    query: Mapping[str, str], trail: list[int], skip: int, found: Sequence[ExperienceRecorded], *, sorted_: bool
) -> str | None:
    if len(found) <= ROWS:
        return None
    return _link(query, [], skip=skip + ROWS) if sorted_ else _link(query, [*trail, found[ROWS - 1].cycle or 0])


def _place(query: Mapping[str, str]) -> tuple[int | None, list[int]]:
    """(the cycle that the page is before, the same of all pages up to it): `?trail=350.300`."""
    steps = query.get("trail", "").split(".")[:DEEPEST]
    trail = [int(step) for step in steps if step.isascii() and step.isdecimal() and len(step) < 20]
    return (trail[-1] if trail else None), trail


def _link(given: Mapping[str, str], trail: Sequence[int], *, upto: int | None = None, skip: int = 0) -> str:
    place = {"trail": ".".join(map(str, trail[-DEEPEST:]))} if trail else {}
    if skip:
        place["skip"] = str(skip)
    if upto is not None:
        place["upto"] = str(upto)
    query = urlencode({**given, **place})
    return f"/cycles?{query}" if query else "/cycles"


ROUTES = [Route("/cycles", cycles), Route("/cycles/news", news)]
