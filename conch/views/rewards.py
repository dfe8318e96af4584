"""The components of the reward, as `conch reward list --json` and the pages show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conch.experience import ChartReader, ComponentStats
from conch.views.words import role_words
from conch_schemas import Part


def rewards_shown(rows: Sequence[Mapping[str, Any]], set_aside: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`conch.v1.rewards`: the rows, and the rules that the run in progress has set aside with the reason why."""
    return {"schema": "conch.v1.rewards", "rewards": list(rows), "set_aside": list(set_aside)}


def reward_rows(
    charts: ChartReader,
    agent: str,
    limit: int,
    waiting: Mapping[str, int],
    scored: Sequence[tuple[str, str]] = (),
) -> list[dict[str, Any]]:
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
) -> dict[str, Any]:
    component, scorer = key
    return {
        "component": component,
        "scorer": scorer,
        "weight": part.weight if part is not None else 0.0,
        "role": role_words(part) if part is not None else "dropped" if dropped else "beside",
        "range": list(part.range) if part is not None else None,
        "version": stats.version if stats is not None else "",
        "count": stats.count if stats is not None else 0,
        "scored": stats.scored if stats is not None else 0,
        "coverage": stats.coverage if stats is not None and _applicable(stats) else None,
        "mean": stats.mean if stats is not None else None,
        "p50": stats.p50 if stats is not None else None,
        "p95": stats.p95 if stats is not None else None,
        "errors": stats.errors if stats is not None else 0,
        "timeouts": stats.timeouts if stats is not None else 0,
        "lag": waiting.get(f"rule-{scorer}", waiting.get(scorer)),
    }


def _applicable(stats: ComponentStats) -> int:
    return stats.scored + stats.errors + stats.timeouts
