"""From a fact to the metrics it moves. Knows nothing of the bus; the same fact is not to be given twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from typing import Any, Final, get_args

from conch.config import BUILTIN_WEIGHTS, Settings
from conch.consumer.retention import Held
from conch.consumer.standing import Standing
from conch.rewards.watch import Finding, WatchState, look
from conch_schemas import (
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
from conch_services.metrics.instruments import Instruments
from conch_services.metrics.labels import OTHER, Names, exemplar_of

MOST_COMPONENTS = 50
MOST_CONSUMERS = 100
MOST_MODELS = 20
MOST_NEEDS = 20
MOST_TOOLS = 50
OPEN_ACTS = 1024
"""Acts whose scored components are remembered, so that a revision counts only what came late."""
MOST_TOKENS = 2**53
"""Beyond, a float counts no single token any more."""


class Counting:
    """Counts facts. Labels stay few: beyond the bounds above and `metrics.max_agents`, names are `other`."""

    def __init__(self, settings: Settings, instruments: Instruments) -> None:
        self._to = instruments
        self._agents = Names(settings.metrics.max_agents, [settings.agent])
        self._components = Names(MOST_COMPONENTS, BUILTIN_WEIGHTS)
        self._consumers = Names(MOST_CONSUMERS)
        self._models = Names(MOST_MODELS)
        self._needs = Names(MOST_NEEDS)
        self._tools = Names(MOST_TOOLS)
        self._watch, self._diversity = settings.watch, settings.rewards.diversity
        self._newest: dict[str, int] = {}
        """Agent's label -> place of the newest act that was recorded."""
        self._scored: dict[str | None, set[str]] = {}
        """Action id -> labels of the components that were scored; at most OPEN_ACTS, the oldest first."""

    def count(self, event: Event, at: float) -> None:
        """Take one fact; `at` is when the stream stored it, seconds since the epoch."""
        self._to.events(event.TYPE).inc()
        if (count := _COUNTS.get(type(event))) is not None:
            count(self, event, at)

    def set_standings(self, standings: Sequence[Standing]) -> None:
        """Take how far the consumers are; those that are gone are no longer shown."""
        self._to.pending.clear()
        for standing in standings:
            consumer = self._consumers(standing.name)
            self._to.pending.labels(consumer).inc(standing.lag)  # `other` is the sum of many
            self._to.letters(consumer)  # there at 0: a rate misses a first letter that comes with its series

    def set_held(self, held: Sequence[Held], stream_bytes: int) -> None:
        """Take who holds up the trimming of the stream, and how large that is."""
        self._to.stream_bytes.set(stream_bytes)
        self._to.keep_blocked.clear()
        for one in held:
            self._to.keep_blocked.labels(self._consumers(one.name)).inc(one.blocked)

    def is_shown(self, agent: str) -> bool:
        """Whether the agent has labels of its own."""
        return self._agents(agent) != OTHER

    def set_watched(self, states: Mapping[str, WatchState]) -> None:
        """Take what the watchers know, by agent; of whom they know nothing any more, nothing is shown."""
        for gauge in (self._to.alarms_active, self._to.share, self._to.variance, self._to.length, self._to.gap):
            gauge.clear()
        for name, state in states.items():
            agent = self._agents(name)
            for alarm in get_args(AlarmKind):
                self._to.alarms(agent, alarm)
                self._to.alarms_active.labels(agent, alarm).set(sum(one.alarm == alarm for one in state.active))
            for finding in look(state, self._watch, self._diversity):
                self._show(agent, finding)

    def _show(self, agent: str, finding: Finding) -> None:
        match finding.alarm:
            case "dominance":
                component = self._components(finding.component or OTHER)
                self._to.share.labels(agent, component).inc(finding.value)  # `other` is the sum of many
            case "held_out":
                self._to.gap.labels(agent, self._components(finding.component or OTHER)).set(finding.value)
            case "collapse":
                self._to.variance.labels(agent).set(finding.value)
            case "length_drift":
                self._to.length.labels(agent).set(finding.value)
            case "falling_entropy":
                pass  # conch_action_entropy_ratio is the same figure

    # -- what the agents do ------------------------------------------------------------------------------------------

    def _thought(self, event: ThoughtFormed, _at: float) -> None:
        self._phase("think", event.ms, event)
        self._spend(event)

    def _grounded(self, event: ThoughtGrounded, _at: float) -> None:
        self._phase("ground", event.ms, event)

    def _decided(self, event: ActionDecided, _at: float) -> None:
        self._phase("decide", event.ms, event)
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
        if outcome != "unknown":  # of an act that a crash cut short nobody knows the time
            self._phase("act", event.ms.get("act", 0.0), event)
        self._to.last_cycle(agent).set(at)

    def _reflected(self, event: CycleReflected, _at: float) -> None:
        if event.reflection:
            self._phase("reflect", event.ms, event)

    def _reached(self, event: GoalReached, _at: float) -> None:
        self._to.goals_reached(self._agents(event.agent)).inc(exemplar=exemplar_of(event))

    def _marked(self, event: MarkWitnessed, _at: float) -> None:
        self._to.marks(self._agents(event.agent)).inc()

    def _alarmed(self, event: AlarmRaised, _at: float) -> None:
        if event.active:
            self._to.alarms(self._agents(event.agent), event.alarm).inc()

    def _phase(self, phase: str, ms: float, event: Event) -> None:
        self._to.phases(phase).observe(max(0.0, ms) / 1000, exemplar=exemplar_of(event))

    def _spend(self, event: ThoughtFormed | ActionDecided) -> None:
        usage = event.usage
        if not usage.input_tokens and not usage.output_tokens:
            return  # no model was asked
        model = self._models(event.model)
        self._to.tokens(model, "input").inc(min(usage.input_tokens, MOST_TOKENS))
        self._to.tokens(model, "output").inc(min(usage.output_tokens, MOST_TOKENS))

    # -- what it was worth -------------------------------------------------------------------------------------------

    def _recorded(self, event: ExperienceRecorded, at: float) -> None:
        agent, exemplar = self._agents(event.agent), exemplar_of(event)
        if event.seq >= self._newest.get(agent, 0):  # an act whose scores came late is not the last one
            self._newest[agent] = event.seq
            self._to.reward_last(agent).set(event.total)
            self._to.coverage(agent).set(event.coverage)
        if event.revision == 1:
            self._to.experiences(agent, str(event.complete).lower()).inc()
            self._to.act_to_reward.observe(max(0.0, at - _acted_at(event)), exemplar=exemplar)
            self._open(event.action_id)
        self._count_scores(event, exemplar)

    def _open(self, action: str | None) -> None:
        self._scored[action] = set()
        if len(self._scored) > OPEN_ACTS:
            del self._scored[next(iter(self._scored))]

    def _count_scores(self, event: ExperienceRecorded, exemplar: dict[str, str]) -> None:
        """Each component of an act once, when it is first scored. Of acts recorded before this process: nothing."""
        done = self._scored.get(event.action_id)
        if done is None:
            return
        # The weight set's own parts stand first: somebody else's claim on a component counts for nothing.
        own = {part.component: part for part in reversed(event.scores)}
        fresh = [(label, part) for part in own.values() if (label := self._components(part.component)) not in done]
        for component, part in fresh:
            if event.revision == 1 or part.status == "scored":
                self._to.scores(component, part.status).inc()
            if part.status == "scored" and part.value is not None:
                done.add(component)
                self._to.score(component).observe(part.value, exemplar=exemplar)
                self._to.gained(component).inc(max(0.0, part.value))
                self._to.lost(component).inc(max(0.0, -part.value))

    # -- what drives it ----------------------------------------------------------------------------------------------

    def _needed(self, event: NeedsChanged, _at: float) -> None:
        agent = self._agents(event.agent)
        for need, satisfaction in event.after.items():
            self._to.needs(agent, self._needs(need)).set(satisfaction)

    def _measured(self, event: NoveltyMeasured, _at: float) -> None:
        agent = self._agents(event.agent)
        for drive in Drives.model_fields:
            self._to.drives(agent, drive).set(getattr(event.drives, drive))
        self._to.novelty(agent).set(event.novelty)
        self._to.progress(agent).set(event.learning_progress)
        self._to.entropy(agent).set(event.entropy)

    # -- how the consumers are ---------------------------------------------------------------------------------------

    def _failed(self, event: ConsumerFailed, _at: float) -> None:
        self._to.letters(self._consumers(event.consumer)).inc()


def _acted_at(event: ExperienceRecorded) -> float:
    acted = event.acted_at
    return (acted if acted.tzinfo is not None else acted.replace(tzinfo=UTC)).timestamp()


_COUNTS: Final[dict[type[Event], Callable[[Counting, Any, float], None]]] = {
    ThoughtFormed: Counting._thought,
    ThoughtGrounded: Counting._grounded,
    ActionDecided: Counting._decided,
    ActionTaken: Counting._taken,
    CycleReflected: Counting._reflected,
    GoalReached: Counting._reached,
    MarkWitnessed: Counting._marked,
    ExperienceRecorded: Counting._recorded,
    NeedsChanged: Counting._needed,
    NoveltyMeasured: Counting._measured,
    ConsumerFailed: Counting._failed,
    AlarmRaised: Counting._alarmed,
}
