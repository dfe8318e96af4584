"""Renders a registry as the text of a scrape, in OpenMetrics or Prometheus format."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, Metric, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics_exposition
from prometheus_client.registry import Collector

CONTENT_TYPES = {True: openmetrics_exposition.CONTENT_TYPE_LATEST, False: CONTENT_TYPE_PLAIN_0_0_4}
"""Whether it is OpenMetrics -> the header Content-Type."""


def wants_openmetrics(accept: str) -> bool:
    """Whether the header Accept names OpenMetrics: Prometheus does, a browser does not."""
    return "application/openmetrics-text" in accept


def exposition(metrics: Collector, *, openmetrics: bool) -> bytes:
    """The text of all metrics. Without the times of creation, which are not among the public names and would double the
    series of counters; without the number of a histogram that has no sum, as OpenMetrics forbids that.

    Thread-safe where `metrics` is; a CollectorRegistry is. No name may need escaping.
    """
    write = openmetrics_exposition.generate_latest if openmetrics else generate_latest
    # This scheme looks at a name once, the default one at each of its characters; the text is the same.
    return write(_Exposed(metrics), escaping=openmetrics_exposition.ALLOWUTF8)


class _Exposed(Collector):
    def __init__(self, metrics: Collector) -> None:
        self.source = metrics

    def collect(self) -> Iterator[Metric]:
        """The metrics as they are shown."""
        for metric in self.source.collect():
            hidden = {f"{metric.name}_created"}
            if metric.type == "histogram" and not any(one.name == f"{metric.name}_sum" for one in metric.samples):
                hidden.add(f"{metric.name}_count")
            metric.samples = [one for one in metric.samples if one.name not in hidden]
            yield metric
