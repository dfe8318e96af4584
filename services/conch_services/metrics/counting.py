"""Turns events into changes of metrics. It does not use the bus; each event is to be given once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, get_args

from prometheus_client import Counter

from conch.config import BUILTIN_WEIGHTS, Settings
from conch.consumer.group import ReaderLag
from conch.consumer.operations import RetentionBlocker
from conch.rewards.watch import WatchState, look
from conch_schemas import (
    OF_TRAINING,
    ActionDecided,
    ActionTaken,
    AlarmKind,
    AlarmRaised,
    ConsumerFailed,
    CycleReflected,
    Drives,
    Event,
    ExperienceRecorded,
    GoalReached,
    MarkWitnessed,
    NeedsChanged,
    NoveltyMeasured,
    ThoughtFormed,
    ThoughtGrounded,
)
from conch_services.metrics.instruments import Distribution, Instruments
from conch_services.metrics.labels import OTHER, BoundedLabels, exemplar_of
from conch_services.metrics.teams import TeamFigures
from conch_services.metrics.training import TrainingFigures
from conch_services.metrics.waits import WaitFigures

MOST_COMPONENTS = 50
MOST_CONSUMERS = 100
MOST_MODELS = 20
MOST_CURRENCIES = 5
MOST_NEEDS = 20
MOST_TOOLS = 50
OPEN_ACTS = 1024
"""Acts with remembered components, so that a revision counts only late scores."""
UNPAID_ACTS = 65_536
"""Acts that wait for their first record, at most: a thousand agents with an act a second, for a minute."""
MOST_TOKENS = 2**53
"""Beyond, a float counts no single token any more."""


Told = defaultdict[tuple[str, ...], float]
"""Figures by label values."""


def _told() -> Told:
    return defaultdict(float)


@dataclass(frozen=True)
class WatchedFigures:
    """The watchers' figures of all agents."""

    active: Told = field(default_factory=_told)
    share: Told = field(default_factory=_told)
    variance: Told = field(default_factory=_told)
    length: Told = field(default_factory=_told)
    gap: Told = field(default_factory=_told)


class Component(NamedTuple):
    """The metrics of one component; all of them are there from its first score on."""

    score: Distribution
    gained: Counter
    lost: Counter


class EventCounter:
    """Counts events. Labels are bounded: beyond the limits above and `metrics.max_agents`, names are `other`."""

    def __init__(self, settings: Settings, instruments: Instruments) -> None:
        self._to = instruments
        self._agents = BoundedLabels(settings.metrics.max_agents, [settings.agent])
        self._components = BoundedLabels(MOST_COMPONENTS, BUILTIN_WEIGHTS)
        self._consumers = BoundedLabels(MOST_CONSUMERS)
        self._models = BoundedLabels(MOST_MODELS)
        self._currencies = BoundedLabels(MOST_CURRENCIES)
        self._needs = BoundedLabels(MOST_NEEDS)
        self._tools = BoundedLabels(MOST_TOOLS)
        self._watch, self._diversity = settings.watch, settings.rewards.diversity
        self._newest: dict[str, int] = {}
        """Agent's label -> sequence of the newest act that was recorded."""
        self._unpaid: dict[int, float] = {}
        """Hash of an action id -> when the stream stored the act; the oldest first."""
        self._policies: dict[str, str | None] = {}
        """Agent's label -> digest of the policy that acted last."""
        self._training = TrainingFigures(instruments, self._agents)
        self._teams = TeamFigures(instruments, self._agents)
        self._waits = WaitFigures(instruments, self._agents)
        self._met: set[str] = set()
        """Labels of agents that have counters."""
        self._earned: dict[str, Component] = {}
        """Components by label."""
        self._scored: dict[str | None, set[str]] = {}
        """Action id -> labels of the components that were scored; at most OPEN_ACTS, the oldest first."""

    def count(self, event: Event, at: float) -> None:
        """Take one fact; `at` is when the stream stored it, seconds since the epoch."""
        self._to.events(event.TYPE).inc()
        if (agent := self._agents(event.agent)) not in self._met:
            self._meet(agent)
        if isinstance(event, OF_TRAINING):
            self._training.count(event)
        elif (count := _COUNTS.get(type(event))) is not None:
            count(self, event, at)
        self._teams.count(event)
        self._waits.count(event)

    def remember(self, event: Event) -> None:
        """Take an event of training of before this process, so that the gauges of training show what is now."""
        self._training.remember(event)

    def set_standings(self, standings: Sequence[ReaderLag]) -> None:
        """Set the consumers' lags; consumers that are gone are no longer shown."""
        waiting = _told()
        for standing in standings:
            consumer = self._consumers(standing.name)
            waiting[(consumer,)] += standing.lag  # `other` is the sum of many
            self._to.letters(consumer)  # starts at 0: a rate misses a first dead letter that comes with its series
        self._to.pending.replace(waiting)

    def set_held(self, held: Sequence[RetentionBlocker], stream_bytes: int) -> None:
        """Set the consumers that delay the trimming of the stream, and the stream's size."""
        self._to.stream_bytes.set(stream_bytes)
        blocked = _told()
        for one in held:
            blocked[(self._consumers(one.name),)] += one.blocked
        self._to.keep_blocked.replace(blocked)

    def is_shown(self, agent: str) -> bool:
        """Whether the agent has labels of its own."""
        return self._agents(agent) != OTHER

    def set_watched(self, seen: WatchedFigures) -> None:
        """Set the watchers' figures, as `seen` has them; an agent without figures has no metrics."""
        self._to.alarms_active.replace(seen.active)
        self._to.share.replace(seen.share)
        self._to.variance.replace(seen.variance)
        self._to.length.replace(seen.length)
        self._to.gap.replace(seen.gap)

    def see(self, name: str, state: WatchState, seen: WatchedFigures) -> None:
        """Put what the watchers know of one agent into `seen`: a quarter of a millisecond's work."""
        agent = self._agents(name)
        for alarm in get_args(AlarmKind):
            self._to.alarms(agent, alarm)
            seen.active[agent, alarm] = sum(one.alarm == alarm for one in state.active)
        for finding in look(state, self._watch, self._diversity):
            match finding.alarm:
                case "dominance":
                    component = self._components(finding.component or OTHER)
                    seen.share[agent, component] += finding.value  # `other` is the sum of many
                case "held_out":
                    seen.gap[agent, self._components(finding.component or OTHER)] = finding.value
                case "collapse":
                    seen.variance[agent,] = finding.value
                case "length_drift":
                    seen.length[agent,] = finding.value
                case "falling_entropy":
                    pass  # conch_action_entropy_ratio is the same figure

    def _meet(self, agent: str) -> None:
        """Create an agent's counters at 0: a rate misses the first increment of a series that begins with it."""
        self._met.add(agent)
        self._to.goals_reached(agent)
        self._to.marks(agent)
        for said in ("true", "false"):
            self._to.replies(agent, said)
            self._to.experiences(agent, said)

    # -- what the agents do ------------------------------------------------------------------------------------------

    def _thought(self, event: ThoughtFormed, at: float) -> None:
        self._phase("think", event.ms, event, at)
        self._spend(event)

    def _grounded(self, event: ThoughtGrounded, at: float) -> None:
        self._phase("ground", event.ms, event, at)

    def _decided(self, event: ActionDecided, at: float) -> None:
        self._phase("decide", event.ms, event, at)
        self._spend(event)

    def _taken(self, event: ActionTaken, at: float) -> None:
        agent, action, outcome = self._agents(event.agent), event.action, event.outcome.status
        exemplar = exemplar_of(event)
        if event.step == 0:
            self._to.cycles(agent, action.kind, outcome).inc(exemplar=exemplar)
        self._to.replies(agent, str(action.valid).lower()).inc()
        if action.kind == "TOOL" and action.valid and action.tool is not None:
            tool = self._tools(action.tool) if action.tool in event.tools else OTHER
            self._to.tool_calls(tool, outcome).inc(exemplar=exemplar)
        if outcome != "unknown":  # the time of an act that a crash cut short is unknown
            self._phase("act", event.ms.get("act", 0.0), event, at)
        self._to.last_cycle.set(at, agent)
        if self._policies.get(agent, "") != event.policy:
            self._policies[agent] = event.policy
            self._to.policy_changed.set(at, agent)
        self._unpaid[hash(event.action_id)] = at
        if len(self._unpaid) > UNPAID_ACTS:
            del self._unpaid[next(iter(self._unpaid))]

    def _reflected(self, event: CycleReflected, at: float) -> None:
        if event.reflection:
            self._charge(event)
            self._phase("reflect", event.ms, event, at)

    def _reached(self, event: GoalReached, _at: float) -> None:
        self._to.goals_reached(self._agents(event.agent)).inc(exemplar=exemplar_of(event))

    def _marked(self, event: MarkWitnessed, _at: float) -> None:
        self._to.marks(self._agents(event.agent)).inc()

    def _alarmed(self, event: AlarmRaised, _at: float) -> None:
        if event.active:
            self._to.alarms(self._agents(event.agent), event.alarm).inc()

    def _phase(self, phase: str, ms: float, event: Event, at: float) -> None:
        self._to.phases(phase).observe(max(0.0, ms) / 1000, event, at)

    def _spend(self, event: ThoughtFormed | ActionDecided) -> None:
        usage = event.usage
        if not usage.input_tokens and not usage.output_tokens:
            return  # no model was asked
        model = self._models(event.model)
        self._to.tokens(model, "input").inc(min(usage.input_tokens, MOST_TOKENS))
        self._to.tokens(model, "output").inc(min(usage.output_tokens, MOST_TOKENS))
        self._to.unpriced(self._agents(event.agent), model).inc(event.cost is None)
        self._charge(event)

    def _charge(self, event: ThoughtFormed | ActionDecided | CycleReflected) -> None:
        if event.cost is not None:
            currency = self._currencies(event.cost.currency)
            self._to.cost(self._agents(event.agent), self._models(event.model), currency).inc(event.cost.amount)

    # -- what it was worth -------------------------------------------------------------------------------------------

    def _recorded(self, event: ExperienceRecorded, at: float) -> None:
        agent = self._agents(event.agent)
        if event.seq >= self._newest.get(agent, 0):  # an act with late scores is not the last one
            self._newest[agent] = event.seq
            self._to.reward_last.set(event.total, agent)
            self._to.coverage.set(event.coverage, agent)
        if event.revision == 1:
            self._to.experiences(agent, str(event.complete).lower()).inc()
            self._rewarded(event, at)
            self._open(event.action_id)
        self._count_scores(event, at)

    def _rewarded(self, event: ExperienceRecorded, at: float) -> None:
        """Both times are the stream's: the agent's clock may be an hour off. Of acts before this process: nothing."""
        if (acted := self._unpaid.pop(hash(event.action_id), None)) is not None:
            self._to.act_to_reward().observe(max(0.0, at - acted), event, at)

    def _open(self, action: str | None) -> None:
        self._scored[action] = set()
        if len(self._scored) > OPEN_ACTS:
            del self._scored[next(iter(self._scored))]

    def _count_scores(self, event: ExperienceRecorded, at: float) -> None:
        """Each component of an act once, when it is first scored. Of acts recorded before this process: nothing."""
        done = self._scored.get(event.action_id)
        if done is None:
            return
        # The weight set's own parts come first: another scorer's claim on a component does not count.
        own = {part.component: part for part in reversed(event.scores)}
        fresh = [(label, part) for part in own.values() if (label := self._components(part.component)) not in done]
        for component, part in fresh:
            if event.revision == 1 or part.status == "scored":
                self._to.scores(component, part.status).inc()
            if part.status == "scored" and part.value is not None:
                done.add(component)
                self._earn(component, part.value, event, at)

    def _earn(self, component: str, value: float, event: Event, at: float) -> None:
        own = self._earned.get(component)
        if own is None:
            labels = self._to.score(component), self._to.gained(component), self._to.lost(component)
            own = self._earned[component] = Component(*labels)
        own.score.observe(value, event, at)
        if value > 0:
            own.gained.inc(value)
        elif value < 0:
            own.lost.inc(-value)

    # -- what drives it ----------------------------------------------------------------------------------------------

    def _needed(self, event: NeedsChanged, _at: float) -> None:
        agent = self._agents(event.agent)
        for need, satisfaction in event.after.items():
            self._to.needs.set(satisfaction, agent, self._needs(need))

    def _measured(self, event: NoveltyMeasured, _at: float) -> None:
        agent = self._agents(event.agent)
        for drive in Drives.model_fields:
            if (level := getattr(event.drives, drive)) is not None:
                self._to.drives.set(level, agent, drive)
        self._to.novelty.set(event.novelty, agent)
        self._to.progress.set(event.learning_progress, agent)
        self._to.entropy.set(event.entropy, agent)

    # -- how the consumers are ---------------------------------------------------------------------------------------

    def _failed(self, event: ConsumerFailed, _at: float) -> None:
        self._to.letters(self._consumers(event.consumer)).inc()


_COUNTS: Final[dict[type[Event], Callable[[EventCounter, Any, float], None]]] = {
    ThoughtFormed: EventCounter._thought,
    ThoughtGrounded: EventCounter._grounded,
    ActionDecided: EventCounter._decided,
    ActionTaken: EventCounter._taken,
    CycleReflected: EventCounter._reflected,
    GoalReached: EventCounter._reached,
    MarkWitnessed: EventCounter._marked,
    ExperienceRecorded: EventCounter._recorded,
    NeedsChanged: EventCounter._needed,
    NoveltyMeasured: EventCounter._measured,
    ConsumerFailed: EventCounter._failed,
    AlarmRaised: EventCounter._alarmed,
}
