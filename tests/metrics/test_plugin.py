"""Metrics of plug-ins: declared by a consumer, shown beside Conch's, whatever the plug-in does with them."""

from __future__ import annotations

import contextlib
import json
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_plain

from conch.errors import ContractError
from conch.metrics import plugins as module
from conch.metrics.plugins import MOST_METRICS, OTHER, PluginMetrics
from conch_services.metrics.instruments import Instruments
from tests.run.conftest import House

PLUGINS = '''
from conch import consumer, rule
from conch.metrics import counter, histogram
from conch_schemas import ActionTaken

replies = counter("replies", "Replies by kind.", "kind")
lengths = histogram("reply_characters", "Lengths of replies.", buckets=(10, 100, 1000))


@consumer(ActionTaken)
def measured(action):
    replies(action.action.kind).inc()
    lengths().observe(len(action.raw))


@rule()
def short(action):
    """A rule has a process of its own: what it counts is shown nowhere, and harms nothing."""
    replies("RULE").inc()
    return 1.0
'''


class Shown:
    """What a scrape says of the metrics that one process of plug-ins declared."""

    def __init__(self) -> None:
        self.own = PluginMetrics()
        self._instruments = Instruments(beside=[self.own])

    def samples(self) -> dict[tuple[str, ...], float]:
        """By name and label values; both formats say the same, and both are read to their end."""
        said = []
        for read, is_open in ((read_plain, False), (read_openmetrics, True)):
            families = list(read(self._instruments.text(openmetrics=is_open).decode()))
            found = [one for family in families for one in family.samples if one.name.startswith(module.PREFIX)]
            assert any(family.name.startswith("conch_build") for family in families)
            said.append({(one.name, *one.labels.values()): one.value for one in found})
        assert said[0] == said[1]
        return said[0]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A home for a run."""
    house = House(tmp_path)
    yield house
    house.close()


@pytest.fixture
def shown() -> Shown:
    """A process without metrics of plug-ins."""
    return Shown()


def test_a_consumers_metrics_are_scraped_from_the_run(house: House) -> None:
    """Beside Conch's own; those of a rule, which has a process of its own, are not."""
    (house.directory / "rules.py").write_text(PLUGINS)
    live = house.begin("--rules", str(house.directory / "rules.py"), interval=0.1, CONCH_METRICS__PORT="0")
    live.recorded(2)
    live.until(lambda: house.status().get("metrics"), "the metrics' address")

    def scrape() -> dict[tuple[str, ...], float]:
        with urllib.request.urlopen(house.status()["metrics"], timeout=30) as told:
            families = read_plain(told.read().decode())
            return {(one.name, *one.labels.values()): one.value for family in families for one in family.samples}

    live.until(lambda: scrape().get(("conch_plugin_reply_characters_count",), 0) >= 2, "the consumer's metrics")
    found = scrape()
    live.signal(signal.SIGTERM)
    live.ended()

    kinds = {key[1]: value for key, value in found.items() if key[0] == "conch_plugin_replies_total"}
    assert sum(kinds.values()) >= 2
    assert "RULE" not in kinds
    assert found["conch_plugin_reply_characters_bucket", "+Inf"] >= 2
    assert any(key[0] == "conch_scores_total" and "short" in key for key in found)


def test_metrics_of_each_kind_are_shown_with_their_prefix(shown: Shown) -> None:
    """Counter, gauge and histogram, with and without labels."""
    shown.own.declare(Counter, "jumps", "Jumps.", ("kind",))("high").inc(2)
    shown.own.declare(Gauge, "depth", "Depth.", ())().set(-3)
    shown.own.declare(Histogram, "wait_seconds", "Waits.", (), (1.0, 2.0))().observe(1.5)

    assert shown.samples() == {
        ("conch_plugin_jumps_total", "high"): 2,
        ("conch_plugin_depth",): -3,
        ("conch_plugin_wait_seconds_bucket", "1.0"): 0,
        ("conch_plugin_wait_seconds_bucket", "2.0"): 1,
        ("conch_plugin_wait_seconds_bucket", "+Inf"): 1,
        ("conch_plugin_wait_seconds_sum",): 1.5,
        ("conch_plugin_wait_seconds_count",): 1,
    }


def test_a_metric_declared_twice_is_the_same(shown: Shown) -> None:
    """A file is loaded once for each consumer in it."""
    for _ in range(2):
        shown.own.declare(Counter, "jumps", "Jumps.", ())().inc()

    assert shown.samples() == {("conch_plugin_jumps_total",): 2}


def test_a_name_that_another_plugin_has_counts_and_is_not_shown(shown: Shown) -> None:
    """Two that do not know each other end nothing; the log names it."""
    shown.own.declare(Counter, "jumps", "Jumps.", ())().inc()
    shown.own.declare(Gauge, "jumps", "Other jumps.", ())().set(7)

    assert shown.samples() == {("conch_plugin_jumps_total",): 1}


def test_one_metric_too_many_counts_and_is_not_shown(shown: Shown) -> None:
    """The first ones stay."""
    for number in range(MOST_METRICS + 1):
        shown.own.declare(Gauge, f"g{number}", "Some.", ())().set(number)

    assert len(shown.samples()) == MOST_METRICS
    assert ("conch_plugin_g0",) in shown.samples()


def test_label_values_beyond_the_bound_count_together(shown: Shown) -> None:
    """A histogram has fewer sets of them than a counter, as each of its sets has many lines."""
    for kind, buckets in ((Counter, ()), (Histogram, (1.0, 2.0))):
        metric = shown.own.declare(kind, kind.__name__.lower(), "Some.", ("who",), buckets)
        for number in range(1000):
            child = metric(f"value {number}")
            child.inc() if isinstance(child, Counter) else child.observe(0)

    samples = shown.samples()
    assert len(samples) <= 2 * (module.MOST_LINES + 10)
    assert samples["conch_plugin_counter_total", OTHER] == 1000 - module.MOST_LINES
    assert sum(value for key, value in samples.items() if key[0] == "conch_plugin_histogram_count") == 1000


@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=1))
def test_any_label_values_leave_a_scrape_readable(values: list[str]) -> None:
    """Each counted once, whatever stands in it."""
    shown = Shown()
    metric = shown.own.declare(Counter, "seen", "Seen.", ("what",))

    for value in values:
        metric(value).inc()

    assert sum(shown.samples().values()) == len(values)


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), np.float32(2), np.array([1.0, 2.0]), np.int64(3)])
def test_amounts_of_any_kind_leave_a_scrape_readable(shown: Shown, amount: Any) -> None:
    """What is no number is not shown."""
    metric = shown.own.declare(Histogram, "odd", "Odd.", (), (1.0,))
    with_sum = shown.own.declare(Counter, "plain", "Plain.", ())
    with_sum().inc()
    with contextlib.suppress(ValueError):  # numpy does not compare an array
        metric().observe(amount)

    assert shown.samples()["conch_plugin_plain_total",] == 1


def test_what_another_process_reports_is_shown(shown: Shown) -> None:
    """In place of what it reported before; of one name in two processes, the first's."""
    there, elsewhere = PluginMetrics(), PluginMetrics()
    jumps = there.declare(Counter, "jumps", "Jumps.", ("kind",))
    there.declare(Histogram, "wait_seconds", "Waits.", (), (1.0,))().observe(0.5)
    elsewhere.declare(Counter, "jumps", "Other jumps.", ("kind",))("low").inc()
    for number in (1, 2):
        jumps("high").inc()
        shown.own.take("there", json.loads(json.dumps(there.report())))
        shown.own.take("elsewhere", json.loads(json.dumps(elsewhere.report())))

        assert shown.samples() == {
            ("conch_plugin_jumps_total", "high"): number,
            ("conch_plugin_wait_seconds_bucket", "1.0"): 1,
            ("conch_plugin_wait_seconds_bucket", "+Inf"): 1,
            ("conch_plugin_wait_seconds_sum",): 0.5,
            ("conch_plugin_wait_seconds_count",): 1,
        }


@pytest.mark.parametrize(
    "reported",
    [
        None,
        [{"name": "conch_events", "words": "", "kind": "counter", "samples": []}],
        [{"name": "conch_plugin_x", "words": "", "kind": "summary", "samples": []}],
        [{"name": "conch_plugin_x", "words": "", "kind": "gauge", "samples": [["conch_plugin_x", {}, "much"]]}],
        [{"name": "conch_plugin_x", "words": "", "kind": "gauge", "samples": [["conch_reward_last", {}, 1.0]]}],
        [{"name": "conch_plugin_x", "words": "", "kind": "gauge", "samples": [["conch_plugin_x", {"a b": ""}, 1.0]]}],
        [{"name": "conch_plugin_x", "words": "", "kind": "gauge", "samples": [["conch_plugin_x", {}, 1.0]] * 1000}],
    ],
)
def test_what_is_no_report_of_metrics_is_not_shown(shown: Shown, reported: object) -> None:
    """Other names than those of plug-ins, other kinds, too much."""
    shown.own.take("there", reported)

    assert shown.samples() == {}


def test_an_exemplar_that_could_not_be_read_is_left_out(shown: Shown) -> None:
    """prometheus-client writes its names as they are."""
    metric = shown.own.declare(Counter, "jumps", "Jumps.", ())
    metric().inc(1, exemplar={'a"b}': "x"})

    assert shown.samples() == {("conch_plugin_jumps_total",): 1}


@pytest.mark.parametrize(
    ("kind", "name", "labels", "buckets"),
    [
        (Counter, "Jumps", (), ()),
        (Counter, "jumps{", (), ()),
        (Counter, "", (), ()),
        (Gauge, "jumps_total", (), ()),
        (Gauge, "jumps_created", (), ()),
        (Counter, "jumps", ("le",), ()),
        (Counter, "jumps", ("a", "a"), ()),
        (Counter, "jumps", tuple("abcdef"), ()),
        (Counter, "jumps", ("a-b",), ()),
        (Histogram, "jumps", (), ()),
        (Histogram, "jumps", (), (2.0, 1.0)),
        (Histogram, "jumps", (), (1.0, 1.0)),
        (Histogram, "jumps", (), (float("nan"),)),
        (Histogram, "jumps", (), tuple(range(31))),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(
    shown: Shown, kind: Any, name: str, labels: tuple[str, ...], buckets: tuple[float, ...]
) -> None:
    """When the plug-in is looked at, so that it is set aside with the sentence."""
    with pytest.raises(ContractError):
        shown.own.declare(kind, name, "Jumps.", labels, buckets)

    assert shown.samples() == {}


def test_the_wrong_number_of_label_values_is_an_error_of_the_plugin(shown: Shown) -> None:
    """It is raised where the plug-in asks, not when it is scraped."""
    metric = shown.own.declare(Counter, "jumps", "Jumps.", ("kind",))

    with pytest.raises(ValueError, match="2 values for the labels kind"):
        metric("high", "low")
    with pytest.raises(ValueError, match=r"1 values for the labels \(none\)"):
        shown.own.declare(Counter, "falls", "Falls.", ())("low")
