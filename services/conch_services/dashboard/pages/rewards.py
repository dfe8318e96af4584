"""`/rewards`: every consumer × component over the last cycles."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, pstdev

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from conch.consumer.group import standings
from conch.consumer.operations import watched
from conch.experience import BackfillReader, ExperiencePoint, ExperienceReader, ScoredSince
from conch.rewards import weights_in_tasks
from conch.rewards.watch import ActiveAlarm
from conch.views import RewardRow, reward_rows, role_words, share_words, step_words
from conch_schemas import WeightsSet
from conch_services.dashboard.asking import after, asked, kept
from conch_services.dashboard.components import (
    Disagreement,
    ScorerValues,
    bites,
    disagreement,
    figures_of,
    share_of,
    shares,
    strip,
)
from conch_services.dashboard.page import agent_of, page
from conch_services.dashboard.ranges.wanted import USUAL as ANY_RANGE
from conch_services.dashboard.ranges.wanted import WantedRange, wanted_range
from conch_services.dashboard.ranges.window import sampled_in, taken_words, window_of
from conch_services.dashboard.story.strip import adds
from conch_services.dashboard.world import DashboardContext

LAST = 400
"""Cycles that the figures are over where the address names no range."""
FRESH_SECONDS = 1.0
"""Seconds for which figures are reused for the same request."""
MOST_VOICES = 4
"""Scorers and versions of a component that are compared, the last by name and version."""
MOST_PAIRS = 24
SETS = 10
"""Weight sets that are listed."""


@dataclass(frozen=True)
class RewardFigures:
    """The figures of the page, from the history."""

    rows: tuple[dict[str, object], ...]
    """Rows as in `conch reward list --json`, with `share`, `bit`, `strip`."""
    count: int
    """Number of cycles that were read."""
    mean: float | None
    deviation: float | None
    coverage: float | None
    incomplete: int
    cycle_capped: int
    """Cycles with a total that was clipped to −1..1."""
    apart: tuple[Disagreement, ...]
    sets: tuple[dict[str, object], ...]
    paid: Mapping[str, float]
    """What adds up to the mean, but for rounding -> the mean amount that it paid or took, by the words of the step."""
    in_tasks: Mapping[str, float]
    """Component -> its weight in an act of a task, by the weight set in force; empty where it has no other there."""
    position: int
    """The store's position on the stream."""
    taken: str = ""
    """Of which cycles of a range all of it is, in words; empty: of the last ones."""


async def rewards(request: Request) -> Response:
    """The figures of the last 400 cycles, or of a range."""
    world, agent = request.app.state.world, await agent_of(request)
    wanted, _ = wanted_range(request.query_params)
    told = kept(request, "rewards", FRESH_SECONDS)
    found = await asked(told.get((agent, wanted), lambda: _asked(world, agent, wanted)))
    shown, alarms, alarms_why = found.found or (None, None, found.why)
    place = after(request, shown.position if shown is not None else 0)
    of_component: dict[str | None, list[ActiveAlarm]] = defaultdict(list)
    for one in alarms or ():
        of_component[one.component].append(one)
    template = "rewards_now.html" if "hx-request" in request.headers else "rewards.html"
    return await page(
        request,
        template,
        {
            "shown": shown,
            "why": found.why,
            "broken": found.broken,
            "alarms": alarms,
            "alarms_why": alarms_why,
            "of_component": of_component,
            "after": place,
        },
    )


async def _asked(
    world: DashboardContext, agent: str, wanted: WantedRange
) -> tuple[RewardFigures, Sequence[ActiveAlarm] | None, str]:
    """(the figures, the alarms that are active, or why they are not known)."""
    waiting = await asked(_lags(world))
    alarms = await asked(_alarms(world, agent))
    shown = await world.read(lambda reader: _rewards(reader, agent, wanted, waiting.found or {}))
    return shown, alarms.found, alarms.why


async def _lags(world: DashboardContext) -> dict[str, int]:
    return {one.name: one.lag for one in await standings(world.bus)}


async def _alarms(world: DashboardContext, agent: str) -> Sequence[ActiveAlarm]:
    states = await watched(world.bus, [agent])
    return states[agent].active if agent in states else ()


def _rewards(reader: ExperienceReader, agent: str, wanted: WantedRange, waiting: Mapping[str, int]) -> RewardFigures:
    position, taken = reader.position(), ""
    if wanted == ANY_RANGE:
        points = reader.charts.points(agent, LAST)
    else:
        window = window_of(reader, agent, wanted)
        points = sampled_in(reader, agent, window)
        taken = taken_words(window, len(points))
    found, bit = shares(points), bites(points)
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for point in points:
        for score in point.scores:
            if score.value is not None:
                values[score.component, score.scorer].append(score.value)
    paid, sets = _paid(points), reader.charts.weight_sets(agent)
    in_force = {part.component for part in sets[-1].parts} if sets else set()
    rows = [
        row.document()
        | (figures_of(points, row.component, row.scorer) if taken else {})
        | {
            "share": share_of(row.component, row.role, found),
            "pays": _pays(paid, row, in_force),
            "bit": bit[row.component] if row.role not in ("beside", "dropped") else 0,
            "strip": strip(values[row.component, row.scorer], row.range),
        }
        for row in reward_rows(reader.charts, agent, LAST, waiting)
    ]
    totals = [point.total for point in points]
    return RewardFigures(
        rows=tuple(rows),
        count=len(points),
        mean=fmean(totals) if totals else None,
        deviation=pstdev(totals) if totals else None,
        coverage=fmean(point.coverage for point in points) if points else None,
        incomplete=sum(not point.complete for point in points),
        cycle_capped=bit["cycle"],
        apart=tuple(_apart(reader.backfill, agent, points)),
        sets=tuple(_sets(sets)),
        paid=paid,
        in_tasks=weights_in_tasks(sets[-1].parts) if sets else {},
        position=position,
        taken=taken,
    )


def _apart(scores: BackfillReader, agent: str, points: Sequence[ExperiencePoint]) -> list[Disagreement]:
    """Pairs of scorers that judged the same component in these cycles; the furthest apart first."""
    if not points:
        return []
    since = points[0].cycle
    spoken = defaultdict(list)
    for one in scores.scorers(agent, since):
        spoken[one.component].append(one)
    several = {component: voices[-MOST_VOICES:] for component, voices in spoken.items() if len(voices) > 1}
    pairs = [(component, *pair) for component, voices in several.items() for pair in combinations(voices, 2)]
    heard: dict[tuple[str, str, str], ScorerValues] = {}
    for component, *pair in pairs[:MOST_PAIRS]:
        for one in pair:
            key = (component, one.scorer, one.version)
            if key not in heard:
                said = scores.said(agent, component, one.scorer, one.version, ScoredSince(cycle=since))
                by_act = {each.act: each.value for each in said if each.value is not None}
                heard[key] = ScorerValues(one.scorer, one.version, by_act, one.range)
    compared = [
        disagreement(component, *(heard[component, one.scorer, one.version] for one in pair))
        for component, *pair in pairs[:MOST_PAIRS]
    ]
    return sorted((one for one in compared if one.count), key=lambda one: -(one.apart or 0.0))


def _pays(paid: Mapping[str, float], row: RewardRow, in_force: Collection[str]) -> float | None:
    """What the row's component pays, by the words of its step or of its gate; None of a scorer that does not count."""
    if row.role == "beside" or (row.role == "dropped" and row.component in in_force):
        return None
    names = (step_words(row.component), step_words(f"gate:{row.component}"))
    return next((paid[name] for name in names if name in paid), None)


def _paid(points: Sequence[ExperiencePoint]) -> dict[str, float]:
    """The mean of what each step added to the totals, up to rounding their sum; none that rounds to 0."""
    sums: Counter[str] = Counter()
    for point in points:
        for name, amount in adds(point).items():
            sums[name] += amount  # type: ignore[assignment]
    found = {name: float(amount) / len(points) for name, amount in sums.items()}
    return {name: amount for name, amount in sorted(found.items(), key=lambda one: -abs(one[1])) if abs(amount) >= 5e-4}


def _sets(sets: Sequence[WeightsSet]) -> list[dict[str, object]]:
    """The last weight sets, the newest first, each part with what it was in the set before."""
    shown = []
    for before, one in zip([None, *sets], sets, strict=False):
        was = {part.component: share_words(part.weight, role_words(part)) for part in (before.parts if before else ())}
        now = {part.component: share_words(part.weight, role_words(part)) for part in one.parts}
        parts = [
            {
                "component": name,
                "words": words,
                "was": was.get(name),
                "changed": before is not None and was.get(name) != words,
            }
            for name, words in now.items()
        ]
        gone = [name for name in was if name not in now]
        shown.append({"since": one.time, "version": one.version, "why": one.why, "parts": parts, "gone": gone})
    return shown[-SETS:][::-1]


ROUTES = [Route("/rewards", rewards)]
