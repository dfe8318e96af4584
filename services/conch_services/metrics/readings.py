"""Collectors with values that are built when they are scraped: from latest readings, and from the consumers' counts.

Collectors of prometheus-client. A scrape collects in a thread of its own while the event loop writes; each collector
therefore copies a dict in one step of the interpreter before it goes through it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from conch.consumer.runtime import ConsumerCounts

Values = Mapping[tuple[str, ...], float]
"""Readings by label values."""


class Readings(Collector):
    """A gauge that shows the latest readings, by label values; without labels it begins at 0.

    prometheus-client's own Gauge takes a lock and builds two objects for each reading; a need, a drive and a total
    change with each act, and only the newest is ever scraped.
    """

    def __init__(self, name: str, words: str, *labels: str) -> None:
        self._name, self._words, self._labels = name, words, labels
        self._values: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}

    def set(self, value: float, *labels: str) -> None:
        """Take the reading for these label values."""
        self._values[labels] = value

    def remove(self, *labels: str) -> None:
        """Show no reading for these label values; where there is none, nothing changes."""
        self._values.pop(labels, None)

    def replace(self, values: Values) -> None:
        """Show these readings and no others."""
        self._values = dict(values)

    def collect(self) -> Iterator[Metric]:
        """The gauge as it is now."""
        family = GaugeMetricFamily(self._name, self._words, labels=self._labels)
        for labels, value in self._values.copy().items():
            family.add_metric(labels, value)
        yield family


class Duplicates(Collector):
    """`conch_duplicates_total`, read from the consumers' own tallies."""

    def __init__(self, tallies: Callable[[], Mapping[str, ConsumerCounts]]) -> None:
        self._tallies = tallies

    def collect(self) -> Iterator[Metric]:
        """The counter as it is now."""
        words = "Events and consequences met a second time; they were not applied again."
        family = CounterMetricFamily("conch_duplicates", words, labels=["consumer"])
        for consumer, tally in self._tallies().items():
            family.add_metric([consumer], tally.duplicates)
        yield family
