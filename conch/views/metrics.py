"""Where metrics are and what was written for Prometheus and Grafana, as `conch metrics … --json` and the API say it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from conch.views.base import View


class MetricsAt(View):
    """Where the figures of the run are scraped."""

    schema_: Literal["conch.v1.metrics"] = Field(default="conch.v1.metrics", alias="schema")
    url: str | None
    """None: no run is in progress, or it has no exporter."""


class MetricsRules(View):
    """`conch metrics rules --json`."""

    schema_: Literal["conch.v1.metrics_rules"] = Field(default="conch.v1.metrics_rules", alias="schema")
    groups: list[dict[str, Any]]
    """Rule groups in Prometheus' own form."""


class MetricsDashboards(View):
    """`conch metrics dashboards --json`."""

    schema_: Literal["conch.v1.metrics_dashboards"] = Field(default="conch.v1.metrics_dashboards", alias="schema")
    dashboards: dict[str, str]
    """Text of each dashboard in Grafana's own form, by file name."""


class MetricsWritten(View):
    """`conch metrics rules --out --json`, `conch metrics dashboards --out --json`."""

    schema_: Literal["conch.v1.metrics_written"] = Field(default="conch.v1.metrics_written", alias="schema")
    files: tuple[str, ...]
