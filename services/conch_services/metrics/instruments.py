"""The metrics: the name, help text and labels of each. Units are base units; a `ratio` is 0..1."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Histogram, Info
from prometheus_client.registry import Collector

from conch.consumer.runtime import ConsumerCounts
from conch.metrics import exposition
from conch_schemas import Event
from conch_services.metrics.labels import exemplar_of
from conch_services.metrics.readings import Duplicates, Readings

PHASE_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
LATENCY_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SCORES = (-1.0, -0.5, -0.3, -0.1, 0.0, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0)
EXEMPLAR_SECONDS = 1.0
"""Shortest time between two exemplars of one bucket. Making one costs twice as much as counting the value."""


class Distribution:
    """One histogram with its label values. A bucket has one exemplar a second at most: a scrape shows one alone."""

    def __init__(self, histogram: Histogram, bounds: Sequence[float]) -> None:
        self._histogram, self._bounds = histogram, bounds
        self._marked = [float("-inf")] * (len(bounds) + 1)
        """When each bucket had its last exemplar."""

    def observe(self, value: float, event: Event, at: float) -> None:
        """Observe a value of `event`; `at` is when the stream stored it, seconds since the epoch."""
        bucket = bisect_left(self._bounds, value)
        if 0 <= at - self._marked[bucket] < EXEMPLAR_SECONDS:
            self._histogram.observe(value)
        else:
            self._marked[bucket] = at
            self._histogram.observe(value, exemplar_of(event))


class Instruments:
    """The metrics of one process, in a registry of their own.

    A counter or histogram with labels is a function of its label values, in the order given here:
    `cycles("echo", "TOOL", "success").inc()`. It looks a child up once: `labels()` takes a lock and makes a tuple of
    text each time. Counters and histograms may be changed by one thread and scraped by another.
    """

    def __init__(
        self, tallies: Callable[[], Mapping[str, ConsumerCounts]] = dict, beside: Sequence[Collector] = ()
    ) -> None:
        """`tallies`: what the consumers of this process counted, by name; asked at each scrape, by its thread.
        `beside`: further metrics, of other names."""
        self._registry = CollectorRegistry()

        def counter(name: str, words: str, *labels: str) -> Callable[..., Counter]:
            return cache(Counter(name, words, labels, registry=self._registry).labels)

        def gauge(name: str, words: str, *labels: str) -> Readings:
            readings = Readings(name, words, *labels)
            self._registry.register(readings)
            return readings

        def histogram(name: str, words: str, bounds: Sequence[float], *labels: str) -> Callable[..., Distribution]:
            metric = Histogram(name, words, labels, buckets=bounds, registry=self._registry)
            return cache(lambda *values: Distribution(metric.labels(*values) if labels else metric, bounds))

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
        self.phases = histogram("conch_phase_duration_seconds", phases, PHASE_SECONDS, "phase")
        tokens = "Tokens of thoughts and decisions, as the endpoint counted them."
        self.tokens = counter("conch_llm_tokens_total", tokens, "model", "type")
        cost = "Price of thoughts, decisions and reflections whose tokens the endpoint counted, in the currency."
        self.cost = counter("conch_llm_cost_total", cost, "agent", "model", "currency")
        unpriced = "Thoughts and decisions that used tokens whose price is not known."
        self.unpriced = counter("conch_llm_unpriced_replies_total", unpriced, "agent", "model")
        self.goals_reached = counter("conch_goals_reached_total", "Goals whose own check held.", "agent")
        waits = (
            "When an agent that waits at its budget's limit has room, seconds since the epoch; +Inf: never; 0: it acts."
        )
        self.budget_waits = gauge("conch_budget_waits_until_timestamp_seconds", waits, "agent")
        asleep = "When the sleep of an agent with nothing to do ends, seconds since the epoch; 0: it is awake."
        self.asleep = gauge("conch_agent_asleep_until_timestamp_seconds", asleep, "agent")
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
        self.score = histogram("conch_reward_score", values, SCORES, "component")
        gained = "Sum of the scores above 0, before weights."
        self.gained = counter("conch_reward_gained_total", gained, "component")
        lost = "Sum of the scores below 0, before weights, as an amount."
        self.lost = counter("conch_reward_lost_total", lost, "component")
        act_to_reward = "From the act to its first record, both by the stream's clock."
        self.act_to_reward = histogram("conch_act_to_reward_seconds", act_to_reward, LATENCY_SECONDS)

        # What drives it.
        self.needs = gauge("conch_need_satisfaction_ratio", "0 starved, 1 satisfied.", "agent", "need")
        self.drives = gauge("conch_drive_ratio", "The four drives, and their mix: intrinsic.", "agent", "drive")
        self.novelty = gauge("conch_novelty_ratio", "Novelty of the last act.", "agent")
        self.progress = gauge("conch_learning_progress_ratio", "Learning progress of the last act's skill.", "agent")
        entropy = "Normalised entropy of tool × operation over the last acts."
        self.entropy = gauge("conch_action_entropy_ratio", entropy, "agent")

        # What the roles of teams do.
        roles = ("agent", "role", "topology")
        self.team_turns = counter("conch_team_turns_total", "Acts of a team by role and topology.", *roles)
        tokens_of_role = "Output tokens of a team's thoughts and decisions."
        self.team_tokens = counter("conch_team_tokens_total", tokens_of_role, *roles)
        gained_by_role = "Sum of the totals of a team's acts above 0, as first recorded."
        self.team_gained = counter("conch_team_reward_gained_total", gained_by_role, *roles)
        lost_by_role = "Sum of the totals of a team's acts below 0, as first recorded, as an amount."
        self.team_lost = counter("conch_team_reward_lost_total", lost_by_role, *roles)
        passed = "Turns that passed to the next role, as the worker of this one was silent."
        self.team_passed = counter("conch_team_passed_turns_total", passed, "agent", "role")
        self.team_messages = counter("conch_team_messages_total", "Messages between roles.", "agent", "role")
        switches = "Switches of a team's topology, committed or aborted."
        self.team_switches = counter("conch_team_switches_total", switches, "agent", "outcome")

        # What the watchers see, as of their last snapshot.
        self.alarms = counter("conch_alarms_total", "Alarms of the watchers that began.", "agent", "alarm")
        self.alarms_active = gauge("conch_alarms_active", "Alarms that have begun and are not over.", "agent", "alarm")
        share = "Cov(part, total) ÷ Var(total) over the newest acts; none while the total hardly varies."
        self.share = gauge("conch_reward_variance_share_ratio", share, "agent", "component")
        variance = "Variance of the total over the newest acts ÷ over those before."
        self.variance = gauge("conch_reward_variance_change", variance, "agent")
        length = "Median characters of a reply over the newest acts ÷ over those before."
        self.length = gauge("conch_reply_length_change", length, "agent")
        gap = "Standard deviations by which the total rose beyond a held-out score."
        self.gap = gauge("conch_held_out_gap", gap, "agent", "component")

        # What training makes of it.
        phase = "1 for what the lineage of the agent's adapters is at, else 0."
        self.training_phase = gauge("conch_training_phase", phase, "agent", "phase")
        generation = "Generation of the adapter that acts; 0: the base model alone."
        self.training_generation = gauge("conch_training_generation", generation, "agent")
        rounds = "Rounds of training that ended, by how."
        self.training_rounds = counter("conch_training_rounds_total", rounds, "agent", "outcome")
        gates = "Adapters that the gate judged."
        self.training_gates = counter("conch_training_gates_total", gates, "agent", "verdict")
        rollbacks = "Adapters that were taken back, by what called for it."
        self.training_rollbacks = counter("conch_training_rollbacks_total", rollbacks, "agent", "trigger")
        refusals = "Rounds in a row, up to the newest one, whose adapter was refused."
        self.training_refusals = gauge("conch_training_refusals", refusals, "agent")
        loss = "Loss of the round that trains, at its last report; none while none trains."
        self.training_loss = gauge("conch_training_loss", loss, "agent")
        last_round = "When the newest round began, seconds since the epoch."
        self.training_last_round = gauge("conch_training_last_round_timestamp_seconds", last_round, "agent")
        last_move = "When an adapter was promoted or taken back last, seconds since the epoch."
        self.training_last_move = gauge("conch_training_last_move_timestamp_seconds", last_move, "agent")
        changed = (
            "When the policy that acts became another, seconds since the epoch; at the latest when this process began."
        )
        self.policy_changed = gauge("conch_policy_changed_timestamp_seconds", changed, "agent")

        # How the consumers are.
        pending = "Events that wait for a consumer, behind its place in the stream."
        self.pending = gauge("conch_consumer_pending_messages", pending, "consumer")
        blocked = "Events that bus.keep would drop and that stay for who has not read them; 0: it is far behind."
        self.keep_blocked = gauge("conch_bus_keep_blocked_events", blocked, "consumer")
        self.stream_bytes = gauge("conch_bus_stream_bytes", "What the stream takes.")
        self.letters = counter("conch_dead_letters_total", "Events that a consumer could not handle.", "consumer")
        self._registry.register(Duplicates(tallies))
        for collector in beside:
            self._registry.register(collector)
        Info("conch_build", "The version that runs.", registry=self._registry).info({"version": version("conch-agent")})

    def text(self, *, openmetrics: bool) -> bytes:
        """All of it for a scrape, as OpenMetrics or in Prometheus's own format. Thread-safe."""
        return exposition(self._registry, openmetrics=openmetrics)
