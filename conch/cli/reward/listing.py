"""`conch reward list`."""

from __future__ import annotations

from dataclasses import asdict

from conch.cli.common import Common, emit, table
from conch.cli.options import COMMON, AgentName, Limit, reading
from conch.experience import ComponentStats


def list_(*, limit: Limit = 1000, agent: AgentName = None, common: Common = COMMON) -> None:
    """Every component of the reward over the last N experiences: weight, mean, spread, how often it could be scored."""
    with reading(common, agent) as (store, name):
        stats = store.component_stats(name, limit)
    set_aside = (common.where().running() or {}).get("set_aside", [])
    if common.json:
        emit({"schema": "conch.v1.rewards", "rewards": [asdict(one) for one in stats], "set_aside": set_aside})
        return
    columns = ("component", "scorer", "weight", "mean", "p50", "p95", "scored", "errors", "late")
    table(columns, [_cells(one) for one in stats])
    if set_aside:
        table(("set aside", "why"), [(one["origin"], one["why"]) for one in set_aside])


def _cells(one: ComponentStats) -> tuple[object, ...]:
    figures = (f"{figure:+.3f}" if figure is not None else "-" for figure in (one.mean, one.p50, one.p95))
    scored = f"{one.scored} of {one.count}"
    name = one.component
    return (
        name, one.scorer, f"{one.weight:.3f}", *figures, scored, one.errors, one.timeouts,
    )  # fmt: skip
