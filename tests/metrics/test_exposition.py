"""The text of a scrape: as both formats want it, with the newest readings."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_plain

from conch.consumer.runtime.output import ConsumerCounts
from conch_services.metrics.instruments import EXEMPLAR_SECONDS, Instruments
from tests.metrics.conftest import Board, make_act, make_experience, part

words = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)
numbers = st.floats(allow_nan=False)
FORMATS = [(read_plain, False), (read_openmetrics, True)]


def _families(instruments: Instruments) -> Iterator[dict[str, Metric]]:
    """The metrics by name, as both formats have them."""
    for read, is_open in FORMATS:
        yield {family.name: family for family in read(instruments.text(openmetrics=is_open).decode())}


@given(st.dictionaries(st.tuples(words, words), numbers, min_size=1, max_size=5))
def test_others_read_what_was_set(told: dict[tuple[str, str], float]) -> None:
    """In both formats, whatever stands in a label, of readings and of counters."""
    instruments = Instruments()
    instruments.needs.replace(told)
    for values in told:
        instruments.replies(*values).inc(2)

    for families in _families(instruments):
        needs = families["conch_need_satisfaction_ratio"].samples
        assert {(one.labels["agent"], one.labels["need"]): one.value for one in needs} == told
        counted = [one for family in families.values() for one in family.samples if one.name == "conch_replies_total"]
        assert {(one.labels["agent"], one.labels["valid"]): one.value for one in counted} == dict.fromkeys(told, 2.0)


def test_a_histogram_with_negative_buckets_has_no_sum_and_no_number(board: Board) -> None:
    """OpenMetrics forbids the one, and the other without it; prometheus-client writes the number all the same."""
    board.count(make_experience(part("format", -0.5)))

    for families in _families(board.instruments):
        names = {sample.name for sample in families["conch_reward_score"].samples}
        assert names == {"conch_reward_score_bucket"}
        assert {"conch_act_to_reward_seconds_sum", "conch_act_to_reward_seconds_count"} <= {
            sample.name for sample in families["conch_act_to_reward_seconds"].samples
        }


def test_times_of_creation_are_not_shown(board: Board) -> None:
    """They would double the series of each counter."""
    board.count(make_act(), make_experience(part("format", 0.5)))

    for _, is_open in FORMATS:
        assert b"_created" not in board.instruments.text(openmetrics=is_open)


@pytest.mark.parametrize("seconds", [EXEMPLAR_SECONDS, -EXEMPLAR_SECONDS])
def test_a_bucket_has_one_exemplar_a_second_at_most(board: Board, seconds: float) -> None:
    """The act that brought it, until one of another second; also where the stream's clock was set back. A plain scrape
    has none."""
    acts = [make_act(cycle=cycle) for cycle in range(4)]
    marks: list[Any] = []
    for act, at in zip(acts, (100.0, 100.0 + EXEMPLAR_SECONDS / 2, 100.0 + seconds, 100.0 + seconds), strict=True):
        board.count(act, at=at)
        families = {family.name: family for family in read_openmetrics(board.scrape().decode())}
        samples = families["conch_phase_duration_seconds"].samples
        [mark] = [sample.exemplar for sample in samples if sample.exemplar is not None]
        marks.append((mark.labels["cycle"], mark.value))

    assert marks == [("0", 0.04), ("0", 0.04), ("2", 0.04), ("2", 0.04)]
    assert b"action_id" not in board.instruments.text(openmetrics=False)


def test_readings_that_are_no_longer_there_are_no_longer_shown() -> None:
    """Those of a consumer that is gone; what has no labels is always there."""
    instruments = Instruments()
    instruments.needs.set(5.0, "echo", "joy")
    instruments.needs.set(1.0, "echo", "calm")

    instruments.needs.replace({("echo", "calm"): 2.0, ("two", "calm"): 3.0})

    for families in _families(instruments):
        samples = families["conch_need_satisfaction_ratio"].samples
        assert {tuple(one.labels.values()): one.value for one in samples} == {("echo", "calm"): 2, ("two", "calm"): 3}
        assert [one.value for one in families["conch_bus_stream_bytes"].samples] == [0]


def test_what_consumers_counted_is_read_at_the_scrape() -> None:
    """The newest figure each time, of the consumers that there are."""
    tallies = {"joy": ConsumerCounts()}
    instruments = Instruments(lambda: tallies)
    for duplicates in (1, 3):
        tallies["joy"].duplicates = duplicates
        for text in (instruments.text(openmetrics=True), instruments.text(openmetrics=False)):
            assert f'conch_duplicates_total{{consumer="joy"}} {duplicates}.0\n'.encode() in text


def test_promtool_has_nothing_to_say_of_a_scrape(board: Board, needs: Callable[[str, str], None]) -> None:
    """Names, types and help are as Prometheus's own linter wants them."""
    needs("promtool", "install prometheus")
    board.count(make_act(), make_experience(part("format", 0.5)))
    text = board.instruments.text(openmetrics=False)

    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=60)

    assert (done.returncode, done.stdout + done.stderr) == (0, b"")
