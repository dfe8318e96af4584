"""Dashboards as Grafana reads them from files, built with its own types (grafana-foundation-sdk).

The classic model, schema 42, which every Grafana imports; the newer one is read by the newest alone.
"""

from __future__ import annotations

import json
from typing import Any

from grafana_foundation_sdk.builders import common as looks
from grafana_foundation_sdk.builders import dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from panels import Board, Panel, Variable

HEIGHTS = {"stat": 4, "timeseries": 8, "table": 8}
"""Rows of a panel."""
SOURCE = common.DataSourceRef(type_val="prometheus", uid="${datasource}")
"""The Prometheus that is chosen above the panels."""
_BUILDERS: dict[str, Any] = {"stat": stat.Panel, "timeseries": timeseries.Panel, "table": table.Panel}


def as_json(board: Board) -> str:
    """The dashboard's file; the same board gives the same text."""
    return JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False).encode(built(board)) + "\n"


def panel_as_json(panel: Panel) -> str:
    """One panel by itself, without a number and a position."""
    made = JSONEncoder(sort_keys=True).encode(_panel(panel, 0).build())
    kept = {name: value for name, value in json.loads(made).items() if name not in ("id", "gridPos")}
    return json.dumps(kept, sort_keys=True, indent=2, ensure_ascii=False) + "\n"


def built(board: Board) -> models.Dashboard:
    """The dashboard in Grafana's types."""
    made = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.says)
        .tags(["conch"])
        .time("now-1h", "now")
        .refresh("10s")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .link(
            dashboard.DashboardLink("Conch").type(models.DashboardLinkType.DASHBOARDS).tags(["conch"]).keep_time(True)
        )
    )
    for variable in board.variables:
        made.with_variable(_variable(variable))
    for number, panel in enumerate(board.panels, 1):
        made.with_panel(_panel(panel, number))
    return made.build()


def _variable(variable: Variable) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(variable.name)
        .label(variable.label)
        .datasource(SOURCE)
        .query(variable.query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .current(models.VariableOption(text="All", value="$__all"))
    )


def _panel(panel: Panel, number: int) -> Any:
    made = (
        _BUILDERS[panel.kind]()
        .id(number)
        .title(panel.title)
        .description(panel.says)
        .datasource(SOURCE)
        .unit(panel.unit)
        .span(panel.width)
        .height(HEIGHTS[panel.kind])
    )
    for ref, query in zip("ABC", panel.queries, strict=False):
        target = prometheus.Dataquery().ref_id(ref).expr(query.expression).legend_format(query.legend)
        if panel.kind == "table":
            target.instant().format(PromQueryFormat.TABLE)
        made.with_target(target.exemplar(panel.exemplars))
    return _lines(made, panel) if panel.kind == "timeseries" else made


def _lines(made: timeseries.Panel, panel: Panel) -> timeseries.Panel:
    legend = looks.VizLegendOptions().display_mode(common.LegendDisplayMode.LIST)
    made.legend(legend.placement(common.LegendPlacement.BOTTOM).show_legend(True))
    made.tooltip(looks.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING))
    made.fill_opacity(40 if panel.is_stacked else 5)
    if panel.is_stacked:
        made.stacking(looks.StackingConfig().mode(common.StackingMode.NORMAL))
    least, greatest = panel.limits
    if least is not None:
        made.min(least)
    if greatest is not None:
        made.max(greatest)
    return made
