"""`conch metrics rules | dashboards | serve`: files for Prometheus and Grafana, and the exporter as a process of its
own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from conch.cli.common import CommonOptions, emit, say, warn
from conch.cli.consume import Health, consume
from conch.cli.options import COMMON
from conch.errors import ConchError
from conch.home import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

app = App(name="metrics", help="Metrics: alert rules for Prometheus, dashboards for Grafana, the exporter alone.")

READABLE = 0o644
"""Prometheus and Grafana read as users of their own."""


@app.command
def rules(
    *,
    rules: Annotated[
        list[Path] | None,
        Parameter(consume_multiple=True, help="Python file of plug-ins, as in conch run; several, and repeatable."),
    ] = None,
    out: Annotated[Path | None, Parameter(help="File to write; without it on stdout.")] = None,
    common: CommonOptions = COMMON,
) -> None:
    """Recording and alert rules for Prometheus, made of the components, needs and limits that the settings name."""
    from conch.consumer.plugins import discover, reserved
    from conch.metrics import as_yaml, rule_groups

    settings = common.settings()
    found = discover([str(rule) for rule in rules or ()], taken=reserved(settings))
    for broken in found.broken:
        warn(f"set aside: {broken.origin}: {broken.why}")
    groups = rule_groups(settings, found)
    if out is not None:
        _written({out: as_yaml(groups)}, common)
    elif common.json:
        from conch.views import MetricsRules

        emit(MetricsRules(groups=groups))
    else:
        say(as_yaml(groups).rstrip("\n"))


@app.command
def dashboards(
    *,
    out: Annotated[Path | None, Parameter(help="Directory to write a file each into.")] = None,
    common: CommonOptions = COMMON,
) -> None:
    """Dashboards for Grafana: an agent, rewards, bus and consumers, a fleet of agents. Without --out their names."""
    from conch.consumer.plugins import discover, reserved
    from conch.metrics import NAMES, dashboard_texts, own_components, title_of

    if out is None and not common.json:
        for name in NAMES:
            say(f"{name:<16}{title_of(name)}")
        say("--out DIR writes a file each, for Grafana to import; --json prints them all as one document")
        return
    settings = common.settings()
    found = discover((), taken=reserved(settings))
    for broken in found.broken:
        warn(f"set aside: {broken.origin}: {broken.why}")
    texts = dashboard_texts(own_components(settings, found))
    if out is not None:
        _written({out / name: text for name, text in texts.items()}, common)
    else:
        from conch.views import MetricsDashboards

        emit(MetricsDashboards(dashboards=texts))


@app.command
def serve(*, health: Health = None, common: CommonOptions = COMMON) -> None:
    """Serve /metrics until Ctrl-C, on the bus of bus.url or of this home: as `conch consume metrics`."""
    consume("metrics", health=health, common=common)


def _written(texts: Mapping[Path, str], common: CommonOptions) -> None:
    for file, text in texts.items():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, text, READABLE)
        except OSError as error:
            raise ConchError(f"{file} cannot be written ({error.strerror}): name another --out") from None
    if common.json:
        from conch.views import MetricsWritten

        emit(MetricsWritten(files=tuple(map(str, texts))))
    else:
        for file in texts:
            say(f"wrote {file}")
