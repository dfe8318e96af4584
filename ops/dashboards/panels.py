"""What a dashboard is: panels and their queries, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

RATE = "$__rate_interval"
"""Grafana's own: long enough for a rate at every zoom."""


@dataclass(frozen=True)
class Query:
    """One query and how its series are called."""

    expression: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One panel."""

    title: str
    says: str
    """What it shows and how it is read."""
    queries: tuple[Query, ...]
    unit: str = "short"
    """As Grafana names it: `percentunit` of 0..1, `s`, `ops` a second, `opm` a minute."""
    kind: Literal["stat", "timeseries", "table"] = "timeseries"
    width: int = 12
    """Of 24 columns."""
    limits: tuple[float | None, float | None] = (None, None)
    """Least and greatest of the axis."""
    is_stacked: bool = False
    exemplars: bool = False
    """Whether the traces behind it are shown."""


@dataclass(frozen=True)
class Variable:
    """What is chosen above the panels: one of the values that a label has."""

    name: str
    query: str
    label: str


@dataclass(frozen=True)
class Board:
    """One dashboard."""

    uid: str
    title: str
    says: str
    variables: tuple[Variable, ...]
    panels: tuple[Panel, ...]


def stat(title: str, says: str, expression: str, unit: str = "short", legend: str = "{{agent}}") -> Panel:
    """A figure with its sparkline, a sixth of the width."""
    return Panel(title, says, (Query(expression, legend),), unit, "stat", width=4)


def graph(title: str, says: str, *queries: tuple[str, str], unit: str = "short", **more: Any) -> Panel:
    """Lines over time, half of the width; a query and its legend each."""
    return Panel(title, says, tuple(Query(*query) for query in queries), unit, **more)


def rate(name: str, labels: str, *by: str) -> str:
    """A counter's rate a second, summed by these labels."""
    return f"{_sum(by)} (rate({name}{{{labels}}}[{RATE}]))"


def increase(name: str, labels: str, *by: str) -> str:
    """What a counter grew by in the time that is shown, summed by these labels."""
    return f"{_sum(by)} (increase({name}{{{labels}}}[$__range]))"


def quantile(share: float, name: str, labels: str, *by: str) -> str:
    """A histogram's quantile, by these labels."""
    return f"histogram_quantile({share:g}, {rate(f'{name}_bucket', labels, 'le', *by)})"


def _sum(by: tuple[str, ...]) -> str:
    return f"sum by ({', '.join(by)})" if by else "sum"
