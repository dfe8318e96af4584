"""`conch reward list | show`: the components of the reward, their recent values, and their history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conch.cli.common import CommonOptions, emit, open_bus, say, table, warn
from conch.cli.options import COMMON, AgentName, Limit, reading
from conch.errors import BusError, ConchError
from conch.experience import ScoredSince
from conch.text import instead, safe_text
from conch.views import (
    ComponentDetail,
    ComponentScore,
    PastWeight,
    RewardRow,
    RewardShown,
    component_origin,
    range_words,
    reward_rows,
    rewards_shown,
    role_words,
    scored_share,
    share_words,
    signed,
)
from conch_schemas import HUMAN_SCORER, WeightsSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conch.experience import ExperienceReader, RecordedScore, ScorerVersion

LAST = 1000
"""Experiences that the figures of `show` are over."""
SETS = 10
"""Weight sets that `show` lists."""
WIDER = 8
"""Factor by which more cycles are read where too few of them have a score."""

OUTSIDE_THE_SET = {
    "dropped": "dropped: in an earlier weight set, not in the one in force",
    "beside": "beside: in no weight set so far, it bears on no total",
}
"""Word for a scored component that is no part of the set in force -> what it means."""

NOT_HERE = "a file that is not known here: it is not installed, and no run in progress has it"
ALONE = "a rule that no run has had (conch reward backfill scored the past with it), or a program outside"
"""The origins of a component that is not found: of one that was in a weight set, and of one that never was."""


async def list_(*, limit: Limit = LAST, agent: AgentName = None, common: CommonOptions = COMMON) -> None:
    """Every component of the reward: its weight and range, and how it went over the last N experiences.

    `weight` is the one in force, or what else its score does: watched, held out, boost, factor, penalty,
    gate. Figures that are not of all experiences are named below the table. `lag`: events that wait for its
    scorer, where there is a bus.
    """
    with reading(common, agent) as (store, name):
        rows = reward_rows(store.charts, name, limit, await lags(common))
    run = common.where().running()
    set_aside = [one.model_dump() for one in run.set_aside] if run is not None else []
    if common.json:
        emit(rewards_shown(rows, set_aside))
        return
    columns = ("component", "weight", "range", "ver", "cover", "mean", "p50", "p95", "err", "late", "lag")
    table(columns, [_cells(row) for row in rows])
    for row in rows:
        if share := scored_share(row.component, row.scored, row.count):
            say(safe_text(f"the figures of {row.component} are{share}", one_line=True))
    for word in sorted({row.role for row in rows} & set(OUTSIDE_THE_SET), reverse=True):
        say(OUTSIDE_THE_SET[word])
    if set_aside:
        table(("set aside", "why"), [(one["origin"], one["why"]) for one in set_aside])


async def show(
    component: str, /, *, limit: Limit = 10, agent: AgentName = None, common: CommonOptions = COMMON
) -> None:
    """One component: all of its line in `list`, where it comes from, its weights so far, versions, and last scores.

    Parameters
    ----------
    component
        Its name, as `conch reward list` shows it.
    """
    with reading(common, agent) as (store, name):
        scorers = store.backfill.scorers()
        listed = reward_rows(
            store.charts, name, LAST, await lags(common), [(one.component, one.scorer) for one in scorers]
        )
        rows = {row.component: row for row in reversed(listed)}  # of several scorers the one in the set in force
        if component not in rows:
            raise ConchError(f"nothing called {component!r} is scored here; {instead(component, rows)}")
        row = rows[component]
        scores = _scores(store, name, component, row.scorer, limit)
        came = component_origin(common.settings(), common.where(), component, row.scorer)
        detail = ComponentDetail(
            **vars(row)
            | {
                "range": row.range or _said_range(scorers, component, row.scorer),
                "version": row.version or next((one.version for one in reversed(scores)), ""),
            },
            origin=came.origin,
            doc=came.doc,
            history=_history(store.charts.weight_sets(name), component),
            versions=tuple(one for one in scorers if one.component == component),
            scores=scores,
        )
    if common.json:
        emit(RewardShown(reward=detail))
    else:
        _tell(detail)


async def lags(common: CommonOptions) -> dict[str, int]:
    """Events that wait for each consumer; empty without a bus, or where it does not answer, which is reported."""
    from conch.consumer.group import standings

    home, settings = common.where(), common.settings()
    if home.running() is None and settings.bus.url is None:
        return {}
    try:
        async with open_bus(home, settings) as bus:
            return {one.name: one.lag for one in await standings(bus)}
    except BusError as error:
        warn(f"how far the scorers are is not known: {error}")
        return {}


def _cells(row: RewardRow) -> tuple[object, ...]:
    limits = range_words(*row.range) if row.range is not None else "-"
    cover = f"{row.coverage:.0%}" if row.coverage is not None else "-"
    figures = (_figure(getattr(row, name)) for name in ("mean", "p50", "p95"))
    lag = row.lag if row.lag is not None else "-"
    share = share_words(row.weight, row.role)
    return row.component, share, limits, row.version, cover, *figures, row.errors, row.timeouts, lag


def _figure(value: float | None) -> str:
    return signed(value, 2) if value is not None else "-"


def _said_range(scorers: Sequence[ScorerVersion], component: str, scorer: str) -> tuple[float, float] | None:
    """From the least to the greatest value of its scores' own ranges; None where there is no score."""
    ranges = [one.range for one in scorers if (one.component, one.scorer) == (component, scorer)]
    return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None


def _history(sets: Sequence[WeightsSet], component: str) -> tuple[PastWeight, ...]:
    """The last weight sets, the newest first."""
    return tuple(
        PastWeight(
            since=one.time.isoformat(timespec="seconds"),
            version=one.version,
            why=one.why,
            weight=part.weight if part is not None else None,
            role=role_words(part) if part is not None else "none",
        )
        for one in reversed(sets[-SETS:])
        for part in [next((part for part in one.parts if part.component == component), None)]
    )


def _scores(store: ExperienceReader, agent: str, component: str, scorer: str, limit: int) -> tuple[ComponentScore, ...]:
    """The last scores, oldest first."""
    end = first = (store.cycles.last_cycle(agent) or 0) + 1
    said: list[RecordedScore] = []
    span = limit
    while first > 0 and len(said) < limit:  # not every act has one: look further back until there are enough
        first = max(0, end - span)
        said = store.backfill.said(agent, component, scorer, None, ScoredSince(first))
        span *= WIDER
    return tuple(
        ComponentScore(
            cycle=one.cycle,
            value=one.value,
            status=one.status,
            version=one.version,
            explanation=store.backfill.explanation(one, component, scorer),
        )
        for one in said[-limit:]
    )


def _tell(row: ComponentDetail) -> None:
    """`show` for a person."""
    role = f"weight {row.weight:.3f}" if row.weight else row.role
    limits = range_words(*row.range) if row.range is not None else "unknown"
    version = f"version {row.version}" if row.version else "not scored yet"
    say(f"{row.component} · {role} · range {limits} · {version} · scored by {row.scorer}")
    for line in safe_text((row.doc or "").strip()).splitlines():
        say(f"  {line.strip()}")
    if row.origin or row.scorer != HUMAN_SCORER:
        say(f"  from {row.origin or (ALONE if row.role == 'beside' else NOT_HERE)}")
    cover = f", coverage {row.coverage:.0%}" if row.coverage is not None else ""
    lag = f", lag {row.lag}" if row.lag is not None else ""
    say(
        f"of the last {row.count} experiences {row.scored} scored{cover}: "
        f"mean {_figure(row.mean)}{scored_share(row.component, row.scored, row.count)}, "
        f"p50 {_figure(row.p50)}, p95 {_figure(row.p95)}, {row.errors} errors, {row.timeouts} late{lag}"
    )
    say("")
    table(
        ("weight", "since", "weight set", "by"),
        [
            (share_words(one.weight, one.role), one.since[:19].replace("T", " "), one.version, one.why)
            for one in row.history
        ],
    )
    say("")
    table(
        ("version", "scores", "range", "scored by"),
        [(one.version, one.count, range_words(*one.range), one.scorer) for one in row.versions],
    )
    say("")
    rows = [
        (
            one.cycle,
            one.status if one.value is None else signed(one.value),
            one.version,
            one.explanation,
        )
        for one in row.scores
    ]
    table(("cycle", "score", "version", "explanation"), rows)
