"""The views of the reward's components, for `conch reward list | show --json` and the pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from conch.experience import ChartReader, ComponentStats, ScorerVersion
from conch.views.base import View
from conch.views.rewards.words import role_words
from conch_schemas import Part
from conch_schemas.reward import ScoreStatus


class SetAside(View):
    """A plug-in that does not run."""

    origin: str
    """Its file, or `group:entry point`."""
    why: str


class RewardRow(View):
    """A component by one scorer over the last experiences."""

    component: str
    scorer: str
    weight: float
    """In the weight set in force; 0 where it is no part of it, or is not paid."""
    role: str
    """paid, watched, held out, boost, factor, penalty, gate; `0.1 in tasks`: paid in tasks alone; dropped: only in an
    earlier set; beside: in none."""
    range: tuple[float, float] | None
    """The least and the greatest score; None where it is not known."""
    version: str
    """The one that counted last; empty: not scored yet."""
    count: int
    """Experiences that show it."""
    scored: int
    coverage: float | None
    """Scored among those that it applies to, 0..1; None where it applied to none."""
    mean: float | None
    """Mean of the scored values, like p50 and p95; None without any."""
    p50: float | None
    p95: float | None
    errors: int
    timeouts: int
    lag: int | None
    """Events that wait for its scorer; None: not known."""


class Rewards(View):
    """The components of the reward, as `conch reward list --json` prints them."""

    schema_: Literal["conch.v1.rewards"] = Field(default="conch.v1.rewards", alias="schema")
    rewards: tuple[RewardRow, ...]
    """The heaviest first."""
    set_aside: tuple[SetAside, ...]


class PastWeight(View):
    """A component's part of one weight set."""

    since: str
    version: str
    """The weight set's version."""
    why: str
    weight: float | None
    """None: the set has no such part."""
    role: str


class ComponentScore(View):
    """One score of a component."""

    cycle: int
    value: float | None
    """None: it could not be made, or does not apply."""
    status: ScoreStatus
    version: str
    explanation: str


class ComponentDetail(RewardRow):
    """A component with its origin, weights, versions and last scores."""

    origin: str | None
    """A file, an entry point, a key of the settings; None: not known here."""
    doc: str | None
    """Its own description."""
    history: tuple[PastWeight, ...]
    """The newest set first."""
    versions: tuple[ScorerVersion, ...]
    scores: tuple[ComponentScore, ...]
    """Oldest first."""


class RewardShown(View):
    """One component in full, as `conch reward show --json` prints it."""

    schema_: Literal["conch.v1.reward"] = Field(default="conch.v1.reward", alias="schema")
    reward: ComponentDetail


def rewards_shown(rows: Sequence[RewardRow], set_aside: Sequence[Mapping[str, str]]) -> Rewards:
    """The rows, and the rules that the run in progress has set aside with the reason why."""
    return Rewards(rewards=tuple(rows), set_aside=tuple(SetAside(**one) for one in set_aside))


def reward_rows(
    charts: ChartReader,
    agent: str,
    limit: int,
    waiting: Mapping[str, int],
    scored: Sequence[tuple[str, str]] = (),
) -> list[RewardRow]:
    """A component of the set in force each, the heaviest first, then what else was scored: by the last `limit`
    experiences, and what is named as (component, scorer).
    """
    sets = charts.weight_sets(agent)
    parts = {(part.component, part.scorer): part for part in (sets[-1].parts if sets else ())}
    stats = {(one.component, one.scorer): one for one in charts.component_stats(agent, limit)}
    ever = {(part.component, part.scorer) for one in sets for part in one.parts}
    keys = sorted({*parts, *stats, *scored}, key=lambda key: (-parts[key].weight if key in parts else 1.0, key))
    return [_row(key, parts.get(key), stats.get(key), waiting, dropped=key in ever) for key in keys]


def _row(
    key: tuple[str, str], part: Part | None, stats: ComponentStats | None, waiting: Mapping[str, int], *, dropped: bool
) -> RewardRow:
    component, scorer = key
    return RewardRow(
        component=component,
        scorer=scorer,
        weight=part.weight if part is not None else 0.0,
        role=role_words(part) if part is not None else "dropped" if dropped else "beside",
        range=part.range if part is not None else None,
        version=stats.version if stats is not None else "",
        count=stats.count if stats is not None else 0,
        scored=stats.scored if stats is not None else 0,
        coverage=stats.coverage if stats is not None and _applicable(stats) else None,
        mean=stats.mean if stats is not None else None,
        p50=stats.p50 if stats is not None else None,
        p95=stats.p95 if stats is not None else None,
        errors=stats.errors if stats is not None else 0,
        timeouts=stats.timeouts if stats is not None else 0,
        lag=waiting.get(f"rule-{scorer}", waiting.get(scorer)),
    )


def _applicable(stats: ComponentStats) -> int:
    return stats.scored + stats.errors + stats.timeouts
