"""Recording rules for Prometheus: long-term figures, and baselines of alerts. Named level:metric:operation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

RECENT, BEFORE = "30m", "6h"
"""What is now, and what it is compared with: the time up to `RECENT` ago. Ours: half an hour is a few hundred acts of
the embedded mind and some thirty of a slow one."""


class RecordingRule(TypedDict):
    """A recording rule in Prometheus's format."""

    record: str
    """Name of the series that it makes."""
    expr: str


def recording_rules() -> Iterator[RecordingRule]:
    """The rules in Prometheus's format. All keep job and instance, so that agents of one name in two homes stay
    apart."""
    yield _record("agent:conch_cycles:rate5m", "sum without (kind, outcome) (rate(conch_cycles_total[5m]))")
    yield _record("agent:conch_reward_coverage:mean15m", "avg_over_time(conch_reward_coverage_ratio[15m])")
    yield _record("instance:conch_act_to_reward_seconds:p95_30m", _p95("conch_act_to_reward_seconds"))
    yield _record("phase:conch_phase_duration_seconds:p95_30m", _p95("conch_phase_duration_seconds"))
    for window in (RECENT, BEFORE):
        yield _record(f"agent:conch_reward:mean{window}", f"avg_over_time(conch_reward_last[{window}])")
        yield _record(f"component:conch_reward_score:mean{window}", mean_score(window))
    yield _record("component:conch_scores_failed:ratio30m", _failed())


def mean_score(window: str, labels: str = "") -> str:
    """Mean score of each component over `window`, before weights; none where nothing was scored."""
    gained, lost = (f"rate(conch_reward_{way}_total{{{labels}}}[{window}])" for way in ("gained", "lost"))
    scored = ",".join(filter(None, [labels, 'status="scored"']))
    number = f"rate(conch_scores_total{{{scored}}}[{window}]) > 0"
    return f"({gained} - {lost}) / ignoring (status) ({number})".replace("{}", "")


def _p95(name: str) -> str:
    return f"histogram_quantile(0.95, rate({name}_bucket[30m]))"


def _failed() -> str:
    judged = 'sum without (status) (rate(conch_scores_total{status!="not_applicable"}[30m]))'
    scored = 'sum without (status) (rate(conch_scores_total{status="scored"}[30m]))'
    return f"1 - ({scored} or 0 * {judged}) / ({judged} > 0)"  # what was never scored has no such series


def _record(name: str, expression: str) -> RecordingRule:
    return {"record": name, "expr": expression}
