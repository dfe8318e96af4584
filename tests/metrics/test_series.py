"""The lines of a scrape: as both formats want them, written anew where something moved."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_plain

from conch_services.metrics.series import Distribution, MetricFamily, Sample, show
from tests.metrics.conftest import Board, make_act, make_experience, part

words = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)
numbers = st.floats(allow_nan=False)


def _text(family: MetricFamily[Any], *, openmetrics: bool) -> str:
    return "".join(family.text(openmetrics=openmetrics)) + ("# EOF\n" if openmetrics else "")


def _gauge() -> MetricFamily[Sample]:
    return MetricFamily("conch_some", "Some.", "gauge", ["agent", "need"], Sample)


def _histogram(*bounds: float) -> MetricFamily[Distribution]:
    return MetricFamily("conch_some_seconds", "Some.", "histogram", ["phase"], partial(Distribution, bounds=bounds))


@given(st.dictionaries(st.tuples(words, words), numbers, min_size=1, max_size=5))
def test_others_read_what_was_set(told: dict[tuple[str, str], float]) -> None:
    """In both formats, whatever stands in a label."""
    family = _gauge()
    for values, number in told.items():
        family(*values).set(number)

    for read, is_open in ((read_plain, False), (read_openmetrics, True)):
        [found] = read(_text(family, openmetrics=is_open))
        assert {(one.labels["agent"], one.labels["need"]): one.value for one in found.samples} == told


@given(st.lists(st.floats(min_value=-1e6, max_value=1e6), max_size=30))
def test_buckets_hold_what_is_at_most_their_bound(values: list[float]) -> None:
    """Each those below it too; sum and number beside them, as all histograms have it."""
    family = _histogram(0.0, 1.0, 10.0)
    for value in [0.0, *values]:
        family("act").observe(value)

    [found] = read_plain(_text(family, openmetrics=False))
    told = {sample.labels.get("le", sample.name): sample.value for sample in found.samples}

    for bound in ("0.0", "1.0", "10.0", "+Inf"):
        assert told[bound] == sum(value <= float(bound) for value in [0.0, *values])
    assert told["conch_some_seconds_count"] == len(values) + 1
    assert told["conch_some_seconds_sum"] == pytest.approx(sum(values), abs=1e-6)


def test_a_histogram_with_negative_buckets_has_no_sum_and_no_number() -> None:
    """OpenMetrics forbids the one, and the other without it."""
    family = _histogram(-1.0, 0.0, 1.0)
    family("act").observe(-0.5)

    [found] = read_openmetrics(_text(family, openmetrics=True))

    assert {sample.name for sample in found.samples} == {"conch_some_seconds_bucket"}


def test_what_moved_is_seen_by_the_next_scrape() -> None:
    """In either format, whichever was asked for before."""
    family = _gauge()
    for number, is_open in ((1.0, True), (2.0, False), (3.0, True), (3.0, False)):
        family("echo", "joy").set(number)
        assert f'conch_some{{agent="echo",need="joy"}} {number}\n' in _text(family, openmetrics=is_open)


def test_the_newest_exemplar_stands_behind_its_own_bucket() -> None:
    """Of each bucket one; a plain scrape has none."""
    family = _histogram(1.0, 2.0)
    for value, trace in ((0.5, "a"), (1.5, "b"), (0.7, "c")):
        family("act").observe(value, {"trace_id": trace})

    [found] = read_openmetrics(_text(family, openmetrics=True))
    marks = {one.labels["le"]: one.exemplar for one in found.samples if one.exemplar is not None}

    assert {bound: (mark.labels["trace_id"], mark.value) for bound, mark in marks.items()} == {
        "1.0": ("c", 0.7),
        "2.0": ("b", 1.5),
    }
    assert "trace_id" not in _text(family, openmetrics=False)


def test_figures_that_are_no_longer_told_are_no_longer_there() -> None:
    """And one that comes back begins anew."""
    family = _gauge()
    family("echo", "joy").inc(5.0)
    family("echo", "calm").inc(1.0)

    show(family, {("echo", "calm"): 2.0, ("two", "calm"): 3.0})

    [found] = read_plain(_text(family, openmetrics=False))
    assert {tuple(one.labels.values()): one.value for one in found.samples} == {
        ("echo", "calm"): 2.0,
        ("two", "calm"): 3.0,
    }
    assert family("echo", "joy").value == 0.0


def test_promtool_has_nothing_to_say_of_a_scrape(board: Board, needs: Callable[[str, str], None]) -> None:
    """Names, types and help are as Prometheus's own linter wants them."""
    needs("promtool", "install prometheus")
    board.count(make_act(), make_experience(part("format", 0.5)))
    text = board.instruments.text({}, openmetrics=False)

    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=60)

    assert (done.returncode, done.stdout + done.stderr) == (0, b"")
