"""The views of the metrics' address and of files for Prometheus and Grafana, for `conch metrics … --json` and the
API."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from conch.views.base import View
from conch_schemas import JsonObject


class MetricsAt(View):
    """The address at which the metrics of the run are scraped."""

    schema_: Literal["conch.v1.metrics"] = Field(default="conch.v1.metrics", alias="schema")
    url: str | None
    """None: no run is in progress, or it has no exporter."""


class MetricsRules(View):
    """The rules for Prometheus, as `conch metrics rules --json` prints them."""

    schema_: Literal["conch.v1.metrics_rules"] = Field(default="conch.v1.metrics_rules", alias="schema")
    groups: list[JsonObject]
    """Rule groups in Prometheus' own form."""


class MetricsDashboards(View):
    """The dashboards for Grafana, as `conch metrics dashboards --json` prints them."""

    schema_: Literal["conch.v1.metrics_dashboards"] = Field(default="conch.v1.metrics_dashboards", alias="schema")
    dashboards: dict[str, str]
    """Text of each dashboard in Grafana's own form, by file name."""


class MetricsWritten(View):
    """The files written by `conch metrics rules --out --json` or `conch metrics dashboards --out --json`."""

    schema_: Literal["conch.v1.metrics_written"] = Field(default="conch.v1.metrics_written", alias="schema")
    files: tuple[str, ...]
