"""Counters, gauges and histograms whose lines are written once and again only when they have moved.

prometheus-client writes every line of every scrape anew: 0.4 s with the series of 1,000 agents, in which the consumers
beside it stand still. Here a scrape joins what is already written.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import accumulate
from math import isfinite
from typing import Generic, Literal, Protocol, TypeVar

Kind = Literal["counter", "gauge", "histogram", "info"]
Exemplar = tuple[Mapping[str, str], float, float]
"""Its labels, the value that it stands for, and when: seconds since the epoch."""


class Series(Protocol):
    """All lines of one set of labels."""

    plain: str
    """As Prometheus's text format has it; empty: to be written."""
    open: str
    """As OpenMetrics has it, with exemplars; empty: to be written."""

    def write(self) -> None:
        """Write both."""
        ...


S = TypeVar("S", bound=Series)


class Sample:
    """One number, of a counter or a gauge."""

    __slots__ = ("_exemplar", "_head", "open", "plain", "value")

    def __init__(self, name: str, labels: str) -> None:
        self._head = f"{name}{{{labels}}}" if labels else name
        self._exemplar: Exemplar | None = None
        self.value = 0.0
        self.plain = self.open = ""

    def inc(self, amount: float = 1.0, exemplar: Mapping[str, str] | None = None) -> None:
        """Add; `exemplar` are labels of what added it."""
        self.value += amount
        self.plain = ""
        if exemplar:
            self._exemplar = exemplar, amount, time.time()

    def set(self, value: float) -> None:
        """Be this."""
        if value != self.value:
            self.value = value
            self.plain = ""

    def write(self) -> None:
        """Write the line."""
        line = f"{self._head} {_number(self.value)}"
        self.plain = f"{line}\n"
        self.open = self.plain if self._exemplar is None else f"{line}{_exemplar(self._exemplar)}\n"


class Distribution:
    """A histogram's buckets, with sum and number where no bucket is negative: OpenMetrics forbids them there."""

    __slots__ = ("_bounds", "_counts", "_exemplars", "_heads", "_name", "_sum", "_tail", "open", "plain")

    def __init__(self, name: str, labels: str, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._exemplars: list[Exemplar | None] = [None] * len(self._counts)
        self._sum = 0.0
        before = f"{labels}," if labels else ""
        self._heads = [f'{name}_bucket{{{before}le="{_number(each)}"}}' for each in (*bounds, float("inf"))]
        self._name, self._tail = name, f"{{{labels}}}" if labels else ""
        self.plain = self.open = ""

    def observe(self, value: float, exemplar: Mapping[str, str] | None = None) -> None:
        """Take a value; `exemplar` are labels of what it was measured on."""
        at = bisect_left(self._bounds, value)
        self._counts[at] += 1
        self._sum += value
        self.plain = ""
        if exemplar:
            self._exemplars[at] = exemplar, value, time.time()

    def write(self) -> None:
        """Write the lines."""
        numbers = list(accumulate(self._counts))
        lines = [f"{head} {number}" for head, number in zip(self._heads, numbers, strict=True)]
        marks = ["" if each is None else _exemplar(each) for each in self._exemplars]
        end = ""
        if self._bounds[0] >= 0:
            end = f"{self._name}_sum{self._tail} {_number(self._sum)}\n{self._name}_count{self._tail} {numbers[-1]}\n"
        self.plain = "".join(f"{line}\n" for line in lines) + end
        self.open = "".join(f"{line}{mark}\n" for line, mark in zip(lines, marks, strict=True)) + end


class MetricFamily(Generic[S]):
    """One metric: a series for each set of label values, made when it is first asked for; without labels at once."""

    def __init__(self, name: str, words: str, kind: Kind, labels: Sequence[str], make: Callable[[str, str], S]) -> None:
        self._name, self._labels, self._make = name, labels, make
        self._series: dict[tuple[str, ...], S] = {}
        bare = name.removesuffix("_total" if kind == "counter" else "_info" if kind == "info" else "")
        shown = "gauge" if kind == "info" else kind
        self._plain = f"# HELP {name} {_help(words)}\n# TYPE {name} {shown}\n"
        self._open = f"# HELP {bare} {_quoted(words)}\n# TYPE {bare} {kind}\n"
        if not labels:
            self()

    def __call__(self, *values: str) -> S:
        """The series with these label values, in the order of the labels."""
        found = self._series.get(values)
        if found is None:
            pairs = zip(self._labels, values, strict=True)
            labels = ",".join(f'{label}="{_quoted(value)}"' for label, value in pairs)
            found = self._series[values] = self._make(self._name, labels)
        return found

    def keep(self, those: Container[tuple[str, ...]]) -> None:
        """Have these series alone, of those that there are."""
        self._series = {values: series for values, series in self._series.items() if values in those}

    def text(self, *, openmetrics: bool) -> Iterable[str]:
        """Head and lines."""
        yield self._open if openmetrics else self._plain
        for series in self._series.values():
            if not series.plain:
                series.write()
            yield series.open if openmetrics else series.plain


def show(family: MetricFamily[Sample], told: Mapping[tuple[str, ...], float]) -> None:
    """Let a metric say these figures, by label values, and no others."""
    family.keep(told)
    for values, figure in told.items():
        family(*values).set(figure)


def _number(value: float) -> str:
    if value != value:
        return "NaN"
    return repr(float(value)) if isfinite(value) else "+Inf" if value > 0 else "-Inf"


def _exemplar(exemplar: Exemplar) -> str:
    labels, value, at = exemplar
    named = ",".join(f'{label}="{_quoted(text)}"' for label, text in labels.items())
    return f" # {{{named}}} {_number(value)} {at:.3f}"


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _help(text).replace('"', '\\"')
