"""Every metric that there is: its name, its help, its labels. Units are base units; a `ratio` is 0..1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from conch.consumer.output import Tally

PHASE_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
LATENCY_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SCORES = (-1.0, -0.5, -0.3, -0.1, 0.0, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0)


class Instruments:
    """The metrics of one process, in a registry of their own.

    One with labels is a function of their values, in the order given here: `cycles("echo", "TOOL", "success").inc()`.
    """

    def __init__(self, tallies: Callable[[], Mapping[str, Tally]]) -> None:
        self.registry = registry = CollectorRegistry()

        # `labels` of prometheus-client takes a microsecond; what is remembered stays small, as the labels do.
        def counter(name: str, help_: str, *labels: str) -> Callable[..., Counter]:
            return cache(Counter(name, help_, labels, registry=registry).labels)

        def gauge(name: str, help_: str, *labels: str) -> Callable[..., Gauge]:
            return cache(Gauge(name, help_, labels, registry=registry).labels)

        def gauges(name: str, help_: str, *labels: str) -> Gauge:
            return Gauge(name, help_, labels, registry=registry)

        # What the agents do.
        self.events = counter("conch_events_total", "Facts read from the bus.", "type")
        cycles = "Cycles that acted, by what was replied and how it came out."
        self.cycles = counter("conch_cycles_total", cycles, "agent", "kind", "outcome")
        replies = "Replies of the mind, by whether they keep to the action grammar and the tools."
        self.replies = counter("conch_replies_total", replies, "agent", "valid")
        self.tool_calls = counter("conch_tool_calls_total", "Valid tool calls by outcome.", "tool", "outcome")
        last_cycle = "When the stream stored the agent's last act, seconds since the epoch."
        self.last_cycle = gauge("conch_last_cycle_timestamp_seconds", last_cycle, "agent")
        phases = "Time of the phases think, ground, decide, act, and reflect where there was a reflection."
        self.phases = cache(_histogram("conch_phase_duration_seconds", phases, PHASE_SECONDS, registry, "phase").labels)
        tokens = "Tokens of thoughts and decisions, as the endpoint counted them."
        self.tokens = counter("conch_llm_tokens_total", tokens, "model", "type")
        self.goals_reached = counter("conch_goals_reached_total", "Goals whose own check held.", "agent")
        self.marks = counter("conch_marks_total", "Marks of the witness.", "agent")

        # What it was worth.
        experiences = "Acts recorded with a total, by whether every part had come then. Revisions do not count."
        self.experiences = counter("conch_experiences_total", experiences, "agent", "complete")
        reward_last = "Total of the newest recorded act, in its latest revision."
        self.reward_last = gauge("conch_reward_last", reward_last, "agent")
        coverage = "Scored weight of the newest recorded act ÷ (whole weight − weight of the not applicable)."
        self.coverage = gauge("conch_reward_coverage_ratio", coverage, "agent")
        scores = "Verdicts by status; a part that came late counts once more, as scored."
        self.scores = counter("conch_scores_total", scores, "component", "status")
        values = (
            "Values of the scores, before weights. Their sum is conch_reward_gained_total − conch_reward_lost_total, "
            'their number conch_scores_total{status="scored"}.'
        )
        score = _histogram("conch_reward_score", values, SCORES, None, "component")
        registry.register(_BucketsAlone(score))
        self.score = cache(score.labels)
        gained = "Sum of the scores above 0, before weights."
        self.gained = counter("conch_reward_gained_total", gained, "component")
        lost = "Sum of the scores below 0, before weights, as an amount."
        self.lost = counter("conch_reward_lost_total", lost, "component")
        act_to_reward = "From the act, by the agent's clock, to its first record, by the stream's: true on one machine."
        self.act_to_reward = _histogram("conch_act_to_reward_seconds", act_to_reward, LATENCY_SECONDS, registry)

        # What drives it.
        self.needs = gauge("conch_need_satisfaction_ratio", "0 starved, 1 satisfied.", "agent", "need")
        self.drives = gauge("conch_drive_ratio", "The four drives, and their mix: intrinsic.", "agent", "drive")
        self.novelty = gauge("conch_novelty_ratio", "Novelty of the last act.", "agent")
        self.progress = gauge("conch_learning_progress_ratio", "Learning progress of the last act's skill.", "agent")
        entropy = "Normalised entropy of tool × operation over the last acts."
        self.entropy = gauge("conch_action_entropy_ratio", entropy, "agent")

        # What the watchers see, as of their last snapshot.
        self.alarms = counter("conch_alarms_total", "Alarms of the watchers that began.", "agent", "alarm")
        self.alarms_active = gauges("conch_alarms_active", "Alarms that have begun and are not over.", "agent", "alarm")
        share = "Cov(part, total) ÷ Var(total) over the newest acts; none while the total hardly varies."
        self.share = gauges("conch_reward_variance_share_ratio", share, "agent", "component")
        variance = "Variance of the total over the newest acts ÷ over those before."
        self.variance = gauges("conch_reward_variance_change", variance, "agent")
        length = "Median characters of a reply over the newest acts ÷ over those before."
        self.length = gauges("conch_reply_length_change", length, "agent")
        gap = "Standard deviations by which the total rose beyond a held-out score."
        self.gap = gauges("conch_held_out_gap", gap, "agent", "component")

        # How the consumers are.
        pending = "Events that wait for a consumer, behind its place in the stream."
        self.pending = Gauge("conch_consumer_pending_messages", pending, ["consumer"], registry=registry)
        blocked = "Events that bus.keep would drop and that stay for who has not read them; 0: it is far behind."
        self.keep_blocked = Gauge("conch_bus_keep_blocked_events", blocked, ["consumer"], registry=registry)
        self.stream_bytes = Gauge("conch_bus_stream_bytes", "What the stream takes.", registry=registry)
        self.letters = counter("conch_dead_letters_total", "Events that a consumer could not handle.", "consumer")
        registry.register(_Duplicates(tallies))
        Info("conch_build", "The version that runs.", registry=registry).info({"version": version("conch-agent")})


def _histogram(
    name: str, help_: str, buckets: Sequence[float], registry: CollectorRegistry | None, *labels: str
) -> Histogram:
    return Histogram(name, help_, labels, buckets=buckets, registry=registry)


class _BucketsAlone(Collector):
    """A histogram with negative buckets as OpenMetrics has it: no sum, and therefore no count.

    prometheus-client leaves out the sum alone, and a strict reader refuses the whole scrape for it.
    """

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram

    def collect(self) -> Iterable[Metric]:
        for family in self._histogram.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_count")]
            yield family


class _Duplicates(Collector):
    """What the consumers counted themselves, as of the scrape."""

    def __init__(self, tallies: Callable[[], Mapping[str, Tally]]) -> None:
        self._tallies = tallies

    def collect(self) -> Iterable[Metric]:
        help_ = "Events and consequences met a second time; they were not applied again."
        family = CounterMetricFamily("conch_duplicates", help_, labels=["consumer"])
        for consumer, tally in self._tallies().items():
            family.add_metric([consumer], tally.duplicates)
        yield family
