"""`/`: the story of an agent: whether it learns, what it does now, what needs a person; then live."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from conch.experience import ExperienceReader, GoalMove
from conch.rewards.watch import MEANINGS, alarm_name
from conch.text import safe_text
from conch.views import REWARD_CHANGE, Change, VerdictKind, action_words, life_verdict
from conch_services.dashboard.asking import QueryResult, asked, kept
from conch_services.dashboard.page import agent_of, drawn, page, surroundings
from conch_services.dashboard.pages.approval import approvals_of
from conch_services.dashboard.pages.state import state_of
from conch_services.dashboard.ranges.wanted import wanted_range
from conch_services.dashboard.story.happening import happens_now, is_written
from conch_services.dashboard.story.markers import LifeMoments, Moment, StreamLife, moments, spans
from conch_services.dashboard.story.needs_you import Waiting, waiting
from conch_services.dashboard.story.now import PHASES
from conch_services.dashboard.story.period import period_figures
from conch_services.dashboard.story.reading import LifeCurves, LifeFigures
from conch_services.dashboard.stream.conversation import Conversation, talk_of
from conch_services.dashboard.world import DashboardContext

FRESH_SECONDS: Final = 2.0
"""Seconds for which a life is not looked at again, for all open pages."""
WAIT_SECONDS: Final = 0.15
"""Seconds that a page waits for what needs a person, of many agents."""
LIFE_SECONDS: Final = 1.0
"""Seconds that a page waits for a life: a look takes 0.04 s of an idle processor, however long the life is."""
MOST_FLAGS: Final = 120
"""Flags in the curve: more would touch."""
FLAG_WIDTH: Final = 100
"""Characters of what a flag says."""
LANE_WIDTH: Final = 1000.0
"""Width of the drawing of the lanes."""
HABIT: Final = alarm_name("falling_entropy")
ABOUT_LANES: Final = {alarm_name(kind): meaning for kind, meaning in MEANINGS.items()}


async def story(request: Request) -> Response:
    """The whole page."""
    world: DashboardContext = request.app.state.world
    agent = await agent_of(request)
    async with asyncio.TaskGroup() as group:
        around = group.create_task(surroundings(request))
        happens = group.create_task(happens_now(request, agent))
        life = group.create_task(_life(request, agent))
        state = group.create_task(state_of(world, agent))
        approvals = group.create_task(approvals_of(world, agent))
        waits = group.create_task(_waits(request))
        talk: asyncio.Task[QueryResult[Conversation]] = group.create_task(asked(_talk(world, agent)))
    (place, now), said = happens.result(), talk.result()
    found = {
        "state": state.result().state,
        "approvals": approvals.result(),
        "talk": said.found or Conversation(),
        "talk_why": said.why,
        "now": now,
        "phases": PHASES,
        "is_written": is_written(world),
        "waiting": waits.result(),
        "place": min(place, world.hub.last) if world.hub.last else place,
    }
    return drawn("story.html", {**around.result(), **found, **life.result()})


async def right_now(request: Request) -> Response:
    """What happens now, as a piece of the page."""
    _, now = await happens_now(request, await agent_of(request))
    written = is_written(request.app.state.world)
    return await page(request, "story_now.html", {"now": now, "phases": PHASES, "is_written": written})


async def life(request: Request) -> Response:
    """The verdict, the lanes, what changed and what the agent does, as a piece of the page."""
    agent = await agent_of(request)
    told = await _life(request, agent)
    shown = told["life"]
    if isinstance(shown, LifeFigures) and shown.is_sampled:  # not beside the first load: it takes a second of a million
        kept(request, "whole lives", FRESH_SECONDS).begin(agent, lambda: asked(_read(request, agent)))
    return await page(request, "story_life.html", told)


async def needs_you(request: Request) -> Response:
    """What needs a person, as a piece of the page."""
    return await page(request, "story_needs_you.html", {"waiting": await _waits(request)})


async def one_cycle(request: Request) -> Response:
    """`{"cycle": …, "time": …, "act": …, "total": …}` of the first cycle from `?number=` on, for the chart's tooltip;
    `{}` where there is none."""
    world: DashboardContext = request.app.state.world
    agent, text = await agent_of(request), request.query_params.get("number", "")
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0
    found = await asked(world.read(lambda reader: _one(reader, agent, number)))
    return JSONResponse(found.found or {})


async def _life(request: Request, agent: str) -> dict[str, object]:
    world: DashboardContext = request.app.state.world
    lives = kept(request, "lives", FRESH_SECONDS)
    found: QueryResult[LifeFigures]
    is_reading = False
    try:
        async with asyncio.timeout(LIFE_SECONDS):
            found = await asked(lives.get(agent, lambda: _looked(request, agent)))
    except TimeoutError:  # on a busy machine; what an earlier visit saw is not shown in its place
        found, is_reading = QueryResult(None), True
    told: QueryResult[StreamLife] = await asked(_streamed(request, agent))
    whole = found.found or LifeFigures()
    shown = await _ranged(request, agent, whole)
    verdict = life_verdict(shown.evidence, habit=_is_habit(shown, told.found))
    begin, behind = _ends(shown)
    lanes = spans(told.found, behind) if told.found is not None else {}
    return {
        "is_reading": is_reading,
        "verdict": verdict,
        "why": found.why,
        "broken": found.broken,
        "stream_why": told.why,
        "life": shown,
        "changes": _changes(shown, verdict.moves),
        "lanes": {name: _lane(some, begin, behind) for name, some in lanes.items()},
        "lane_means": ABOUT_LANES,
        "steps": _steps(shown, begin, behind),
        "lane_width": LANE_WIDTH,
        "data": _data(
            shown,
            shown.paid_first if shown.evidence.weighed_anew else verdict.start,
            moments(whole, told.found),
            begin,
            behind,
        ),
        "rows": shown.buckets[:: max(1, len(shown.buckets) // 20)],
        "agent_position": world.hub.last,
    }


async def _ranged(request: Request, agent: str, life: LifeFigures) -> LifeFigures:
    """The part of the life that the address names; the life itself where it names none, or nothing is known."""
    world: DashboardContext = request.app.state.world
    wanted, _ = wanted_range(request.query_params)
    if wanted.kind in ("usual", "life") or not life.buckets:
        return life
    periods = kept(request, "periods", FRESH_SECONDS)
    found: QueryResult[LifeFigures] = await asked(
        periods.get(
            (agent, wanted.text), lambda: world.read(lambda reader: period_figures(reader, agent, life, wanted))
        )
    )
    return found.found or life


async def _looked(request: Request, agent: str) -> LifeFigures:
    world: DashboardContext = request.app.state.world
    curves = _curves(request)
    return await world.read(lambda reader: curves.look(reader, agent))


async def _read(request: Request, agent: str) -> None:
    world: DashboardContext = request.app.state.world
    curves = _curves(request)
    await world.read(lambda reader: curves.read(reader, agent))


def _curves(request: Request) -> LifeCurves:
    there: LifeCurves | None = getattr(request.app.state, "curves", None)
    if there is None:
        there = request.app.state.curves = LifeCurves()
    return there


async def _streamed(request: Request, agent: str) -> StreamLife:
    state = request.app.state
    known: LifeMoments | None = getattr(state, "moments", None)
    if known is None:
        known = state.moments = LifeMoments()
    found: StreamLife = await kept(request, "moments", FRESH_SECONDS).get(
        agent, lambda: known.look(state.world.bus, agent)
    )
    return found


async def _waits(request: Request) -> Waiting:
    state = request.app.state

    async def looked() -> Waiting:
        state.last_waiting = await waiting(state.world)
        return cast(Waiting, state.last_waiting)

    try:
        async with asyncio.timeout(WAIT_SECONDS):
            found: Waiting = await kept(request, "waiting", FRESH_SECONDS).get("", looked)
    except TimeoutError:  # of many agents, or on a busy machine: what the look before has found, until this one ends
        last: Waiting = getattr(state, "last_waiting", None) or Waiting((), 0, "")
        return last._replace(unknown="It is being looked at.", is_read=False)
    return found


async def _talk(world: DashboardContext, agent: str) -> Conversation:
    return await talk_of(world.bus, agent)


def _one(reader: ExperienceReader, agent: str, number: int) -> dict[str, object]:
    before, behind = reader.cycles.neighbours(agent, number)
    for cycle in (number, behind, before):
        recorded = None if cycle is None else reader.cycles.get(agent, cycle)
        if recorded is not None:
            return {
                "cycle": recorded.cycle,
                "time": recorded.acted_at.isoformat(),
                "act": safe_text(action_words(recorded.action, 80), one_line=True),
                "total": round(recorded.total, 6),
            }
    return {}


def _ends(life: LifeFigures) -> tuple[int, int]:
    """(first cycle of the chart, the one behind its last)."""
    if life.window is not None and life.window.cycles:
        return life.window.first, life.window.last + 1
    if not life.buckets:
        return 0, 1
    return life.buckets[0].first, max((life.last_cycle or 0) + 1, life.buckets[-1].first + 1)


def _lane(some: Sequence[tuple[int, int]], begin: int, behind: int) -> list[tuple[float, float]]:
    """(x, width) of each span of an alarm, at least wide enough to be seen."""
    scale = LANE_WIDTH / (behind - begin)
    shown = ((max(begin, first), min(behind, last + 1)) for first, last in some)
    return [
        (round((first - begin) * scale, 1), round(max(2.0, (last - first) * scale), 1))
        for first, last in shown
        if last > first
    ]


def _steps(life: LifeFigures, begin: int, behind: int) -> str:
    """The path of the lane of goals: one step up for each act that moved one, 0 to 20 high."""
    if not life.moves:
        return ""
    scale = LANE_WIDTH / (behind - begin)
    up = 18.0 / life.moved
    below = life.moved - len(life.moves)
    points, last = [f"M0 {19.0 - below * up:.1f}"], -1.0
    for count, move in enumerate(life.moves, start=below + 1):
        x = round((max(move.cycle, begin) - begin) * scale)
        points.append(f"{'' if x == last else f'H{x}'}V{19.0 - count * up:.1f}")
        last = x
    return "".join([*points, f"H{LANE_WIDTH:g}"])


def _is_habit(life: LifeFigures, stream: StreamLife | None) -> bool | None:
    """Whether the alarm of a habit was on at the end of what is shown; None: that is not known."""
    if stream is None:
        return None
    end = life.last_cycle if life.window is None else life.window.last
    habits = [one for one in stream.spans.values() if one.name == HABIT]
    if life.window is None or end == life.last_cycle:
        return any(one.last is None for one in habits)
    return any(one.first <= (end or 0) and (one.last is None or (end or 0) <= one.last) for one in habits)


def _data(
    life: LifeFigures, start: float | None, lines: Sequence[Moment], begin: int, behind: int
) -> dict[str, object]:
    """What the chart is drawn from, by columns."""
    some = life.buckets
    if len(some) > 1 and behind - some[-1].first < life.width / 2:  # a mean of few cycles beside means of more
        some = some[:-1]
    return {
        "begin": begin,
        "behind": behind,
        "width": life.width,
        "x": [one.first for one in some],
        "n": [one.cycles for one in some] if any(one.cycles != life.width for one in some[:-1]) else None,
        "mean": [round(one.mean, 3) for one in some],
        "low": [round(one.low, 3) for one in some],
        "high": [round(one.high, 3) for one in some],
        "lower": [None if one.lower is None else round(one.lower, 3) for one in some],
        "upper": [None if one.upper is None else round(one.upper, 3) for one in some],
        "time": [None if one is None else round(one.timestamp()) for one in life.begun[: len(some)]],
        "baselines": _baselines(life, start),
        "moments": [one._asdict() for one in lines if begin <= one.cycle <= behind],
        "flags": [[one.cycle, safe_text(one.why, one_line=True)[:FLAG_WIDTH]] for one in _flags(life)],
    }


def _changes(life: LifeFigures, reward: VerdictKind) -> list[Change]:
    """What changed; a change of the reward is chance where the verdict, which looks at the whole life, says no more."""
    moves = reward in ("learning", "risen", "levelled", "falling")
    return [one if moves or one.title != REWARD_CHANGE else one._replace(kind="") for one in life.changes]


def _baselines(life: LifeFigures, start: float | None) -> list[tuple[float, str]]:
    """(mean total, what it is of) of each level that the curve is held against; of the baseline only where the curve's
    totals are weighed as those that it was found from."""
    evidence = life.evidence
    how = ", as paid" if evidence.weighed_anew else ""
    found = [] if start is None else [(start, f"first {life.ends} cycles{how}")]
    if evidence.baseline is not None and not evidence.weighed_anew:
        found.append((evidence.baseline.value, evidence.baseline.name.partition(" among ")[0]))
    return [(round(value, 3), words) for value, words in found]


def _flags(life: LifeFigures) -> list[GoalMove]:
    """The goals that were reached, at most one a bucket and MOST_FLAGS of them, evenly left out."""
    found = list({one.cycle // life.width: one for one in life.moves if one.reached}.values())
    return found[:: -(-len(found) // MOST_FLAGS) or 1]


ROUTES = [
    Route("/", story),
    Route("/story/now", right_now),
    Route("/story/life", life),
    Route("/story/needs-you", needs_you),
    Route("/story/cycle", one_cycle),
]
"""The story page and its pieces."""
