"""Metrics of plug-ins: a consumer's own counters, gauges and histograms beside Conch's at `/metrics`.

What a plug-in declares is bounded, so that no plug-in can break or swell a scrape: names have a prefix, labels are few,
and values beyond a number are written as `other`. Metrics are prometheus-client's, in a registry of their own.

In `conch run` each plug-in consumer has a process of its own. It reports its metrics to the supervisor every
REPORT_SECONDS, which hands them to the process that serves `/metrics`; what is reported is checked there again.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar, Sample
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from conch.errors import ContractError
from conch.log import get_logger
from conch.processes import ConsumerReport, PluginMetricsReported
from conch.text import safe_text

log = get_logger(__name__)

PREFIX = "conch_plugin_"
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
LABEL = re.compile(r"[a-z][a-z0-9_]{0,31}")
BUCKET_LABEL = "le"
SUFFIXES = ("_total", "_created", "_bucket", "_sum", "_count", "_info")
"""Suffixes that the formats add to names."""
MOST_METRICS = 30
"""In one process; further ones are counted and not shown."""
MOST_LABELS = 5
MOST_LINES = 300
"""Samples of one metric in a scrape; further label values count together as `other`."""
MOST_BUCKETS = 30
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds where a histogram names none: of seconds."""
LONGEST_VALUE, LONGEST_HELP = 64, 200
"""Characters."""
OTHER = "other"
REPORT_SECONDS = 2.0
"""Seconds between two reports of a process: the greatest age of what is scraped."""

M = TypeVar("M", Counter, Gauge, Histogram)


class Labelled(Generic[M]):
    """A metric as a function of its label values: `jumps("high").inc()`; without labels `jumps().inc()`."""

    def __init__(self, metric: M, labels: Sequence[str], lines: int) -> None:
        self._metric: M = metric
        self._labels = labels
        self._most = max(1, MOST_LINES // lines)
        self._children: dict[tuple[str, ...], M] = {} if labels else {(): metric}

    def __call__(self, *values: str) -> M:
        """The metric with these label values, in the order of the labels. A value is cut to 64 characters.

        Thread-safe. Raises ValueError for another number of values.
        """
        found = self._children.get(values)
        if found is not None:
            return found
        if len(values) != len(self._labels):
            raise ValueError(f"{len(values)} values for the labels {', '.join(self._labels) or '(none)'}")
        shown = tuple(safe_text(str(value)[:LONGEST_VALUE], one_line=True) or OTHER for value in values)
        if (found := self._children.get(shown)) is not None:
            return found
        if len(self._children) >= self._most:
            rest: M = self._metric.labels(*[OTHER] * len(shown))
            return rest
        child: M = self._metric.labels(*shown)
        return self._children.setdefault(shown, child)


_NAME = rf"^{PREFIX}{NAME.pattern}$"
_SAMPLES: Final = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
"""Kind -> what its samples' names end in. The times of creation are not shown."""


class Reported(BaseModel):
    """One metric in the report of a plug-in process."""

    name: Annotated[str, Field(pattern=_NAME)]
    words: Annotated[str, Field(max_length=LONGEST_HELP)]
    kind: Literal["counter", "gauge", "histogram"]
    samples: Annotated[list[tuple[str, dict[str, str], float]], Field(max_length=2 * MOST_LINES)]
    """(name, labels, value) each."""

    def as_metric(self) -> Metric:
        """The metric, without samples that are not its own or that have unreadable labels."""
        metric = Metric(self.name, self.words, self.kind)
        names = {self.name + suffix for suffix in _SAMPLES[self.kind]}
        for name, labels, value in self.samples:
            if name in names and all(LABEL.fullmatch(label) for label in labels):
                cut = {label: safe_text(text[:LONGEST_VALUE], one_line=True) for label, text in labels.items()}
                metric.samples += filter(None, [_shown(Sample(name, cut, value), self.kind)])
        return metric


_REPORTS: Final = TypeAdapter(Annotated[list[Reported], Field(max_length=MOST_METRICS)])


class PluginMetrics(Collector):
    """The metrics that the plug-ins of one process declared, and those that other processes reported."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._declared: dict[str, tuple[tuple[Any, ...], Labelled[Any]]] = {}
        """Name -> (declaration, metric)."""
        self._reported: dict[str, list[Metric]] = {}
        """Process -> its metrics."""

    def declare(
        self, kind: type[M], name: str, words: str, labels: Sequence[str], buckets: tuple[float, ...] = ()
    ) -> Labelled[M]:
        """The metric of this declaration; declared again, the same. Raises ContractError for one that cannot be.

        A metric with a name that another declaration has, or beyond the limit, works and is not shown: two plug-ins
        that do not know each other must not end each other's process.
        """
        _refuse(kind, name, labels, buckets)
        declaration = (kind, words, tuple(labels), buckets)
        before, metric = self._declared.get(name, (declaration, None))
        if metric is not None and before == declaration:
            return metric
        make: Callable[..., M] = partial(kind, buckets=buckets) if kind is Histogram else kind
        made = make(PREFIX + name, safe_text(words, one_line=True)[:LONGEST_HELP], labels, registry=None)
        labelled = Labelled(made, labels, lines=len(buckets) + 3 if buckets else 1)
        if metric is not None:
            log.warning("metrics.declared_otherwise", metric=PREFIX + name)
        elif len(self._declared) >= MOST_METRICS:
            log.warning("metrics.too_many", metric=PREFIX + name, most=MOST_METRICS)
        else:
            self._declared[name] = declaration, labelled
            self._registry.register(made)
        return labelled

    def collect(self) -> Iterator[Metric]:
        """The metrics as they are now, without values that are no numbers; of two processes that report one name, those
        of the first."""
        met = set()
        for metric in self._own():
            met.add(metric.name)
            yield metric
        for metrics in self._reported.copy().values():
            for metric in metrics:
                if metric.name not in met:
                    met.add(metric.name)
                    shown = Metric(metric.name, metric.documentation, metric.type)
                    shown.samples = list(metric.samples)  # the reader may drop samples
                    yield shown

    def report(self) -> list[dict[str, object]]:
        """This process's own metrics as JSON values, for `take` of another process."""
        return [
            {
                "name": metric.name,
                "words": metric.documentation,
                "kind": metric.type,
                "samples": [
                    (one.name, one.labels, one.value)
                    for one in metric.samples
                    if one.name.removeprefix(metric.name) in _SAMPLES[metric.type]
                ],
            }
            for metric in self._own()
        ]

    def take(self, process: str, reported: object) -> None:
        """Replace the process's last report by this one. An invalid report is logged and not shown."""
        try:
            self._reported[process] = [one.as_metric() for one in _REPORTS.validate_python(reported)]
        except ValidationError as error:
            log.warning("metrics.not_a_report", process=process, error=str(error)[:LONGEST_HELP])

    def _own(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            shown = (_shown(sample, metric.type) for sample in metric.samples)
            metric.samples = [sample for sample in shown if sample is not None]
            yield metric


PLUGIN_METRICS: Final = PluginMetrics()
"""The metrics of this process: a plug-in declares when it is imported, before it could be given an object."""


def counter(name: str, words: str, *labels: str) -> Labelled[Counter]:
    """Declare a counter `conch_plugin_NAME_total`: `counter("jumps", "Jumps.", "kind")("high").inc()`.

    `words` is the help text. Name and labels are small letters, digits and `_`. Call it when the plug-in is imported;
    called again with the same arguments it is the same counter. Raises ContractError for a declaration that cannot be.
    """
    return PLUGIN_METRICS.declare(Counter, name.removesuffix("_total"), words, labels)


def gauge(name: str, words: str, *labels: str) -> Labelled[Gauge]:
    """Declare a gauge `conch_plugin_NAME`, which goes up and down: `gauge("depth", "Depth.")().set(3)`.

    For the rest see `counter`.
    """
    return PLUGIN_METRICS.declare(Gauge, name, words, labels)


def histogram(name: str, words: str, *labels: str, buckets: Sequence[float] = BUCKETS) -> Labelled[Histogram]:
    """Declare a histogram `conch_plugin_NAME`: `histogram("wait_seconds", "Waits.")().observe(0.2)`.

    For the rest see `counter`. `buckets`: upper bounds, ascending, at most 30; with one below 0 it has neither sum nor
    number.
    """
    return PLUGIN_METRICS.declare(Histogram, name, words, labels, tuple(buckets))


async def keep_reporting(report: Callable[[ConsumerReport], None]) -> None:
    """Report this process's metrics at intervals by `report`; never returns. Unchanged ones too: the process that shows
    them may have been started again."""
    while True:
        if metrics := PLUGIN_METRICS.report():
            report(PluginMetricsReported(metrics=metrics))
        await asyncio.sleep(REPORT_SECONDS)


def _refuse(kind: type[Any], name: str, labels: Sequence[str], buckets: tuple[float, ...]) -> None:
    what = f"{kind.__name__.lower()} {name!r}"
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ContractError(f"{what}: a name is small letters, digits and '_', at most 64, a letter first")
    if name.endswith(SUFFIXES):
        raise ContractError(f"{what}: {', '.join(SUFFIXES)} are added by the format, leave them out")
    if len(labels) > MOST_LABELS or len(set(labels)) < len(labels):
        raise ContractError(f"{what}: at most {MOST_LABELS} labels, each once")
    for label in labels:
        if not isinstance(label, str) or not LABEL.fullmatch(label) or label == BUCKET_LABEL:
            raise ContractError(f"{what}: label {label!r} is not small letters, digits and '_', at most 32, or is le")
    if kind is Histogram:
        if not 1 <= len(buckets) <= MOST_BUCKETS or not all(isinstance(one, int | float) for one in buckets):
            raise ContractError(f"{what}: 1 to {MOST_BUCKETS} buckets, each a number")
        if not all(map(math.isfinite, buckets)) or list(buckets) != sorted(set(buckets)):
            raise ContractError(f"{what}: buckets are finite and ascend")


def _shown(sample: Sample, kind: str) -> Sample | None:
    """The sample as it can be written, without an unreadable exemplar; None where its value is no number, or NaN and no
    gauge's, which OpenMetrics forbids.

    prometheus-client accepts any value from a plug-in, and would fail when it is scraped.
    """
    try:
        value = float(sample.value)
    except (TypeError, ValueError, OverflowError):
        return None
    if math.isnan(value) and kind != "gauge":
        return None
    exemplar = sample.exemplar
    return sample._replace(value=value, exemplar=exemplar if exemplar is not None and _is_plain(exemplar) else None)


def _is_plain(exemplar: Exemplar) -> bool:
    return type(exemplar.value) in (int, float) and all(LABEL.fullmatch(name) for name in exemplar.labels)
