"""Lives of the embedded mind: a workspace with its goals and supply, real tools, each act scored before the next."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lives import UID
from workspaces import BenchWorkspace

from conch.bus import MemoryBus, shared_subscription
from conch.config import Settings
from conch.consumer import ServiceContext, bind
from conch.cycle.hosting.factory import AgentFactory
from conch.cycle.hosting.host import AgentHost
from conch.experience.assemble import judge
from conch.home import Home
from conch.library.preparing import Order
from conch.minds import Completion, Prompt, ReflexMind
from conch.processes.messages import AgentsSpec, AgentStart
from conch.rewards import parts_of_act, weight_set
from conch.rewards.progress import ProgressState
from conch.rewards.progress import fold as progress_fold
from conch.values import Values
from conch_schemas import (
    ActionTaken,
    Event,
    ExperienceRecorded,
    GoalDropped,
    GoalReached,
    GoalSet,
    MessageReceived,
    NeedsChanged,
    Score,
    TaskProgressed,
    decode,
    encode,
    subject_filter,
    subject_of,
)
from conch_services.curiosity.consumer import curiosity as curiosity_consumer
from conch_services.needs.consumer import needs as needs_consumer
from conch_services.reward.consumer import reward as reward_consumer

HEARD = (ActionTaken, GoalSet, GoalReached, GoalDropped, MessageReceived, TaskProgressed)


class _Scorer:
    """Scores each act of one agent as the consumers of a run do, and keeps what was published."""

    def __init__(self, settings: Settings) -> None:
        context = ServiceContext(settings, Path())
        self._parts = weight_set((), settings.rewards, settings.constitution)
        self._reward, self._needs, self._curiosity = (
            bind(one, context) for one in (reward_consumer, needs_consumer, curiosity_consumer)
        )
        assert self._needs.initial is not None
        assert self._curiosity.initial is not None
        self._levels, self._history = self._needs.initial(), self._curiosity.initial()
        self._episodes = ProgressState(weighed=True, tasks_only=True)
        self._steps: dict[str | None, Score] = {}

    def heard(self, event: Event) -> tuple[NeedsChanged | None, ExperienceRecorded | None]:
        """What follows from an event: of an act, its needs and its experience."""
        if isinstance(event, TaskProgressed | ActionTaken):
            self._episodes, step = progress_fold(self._episodes, event)
            if step.score is not None:
                self._steps[event.action_id] = step.score
        if isinstance(event, TaskProgressed | GoalReached | GoalDropped):
            return None, None
        self._history, measured = self._curiosity.handle(self._history, event)
        if not isinstance(event, ActionTaken):
            return None, None
        self._levels, changed = self._needs.handle(self._levels, event)
        scores = [
            *self._reward.handle(event).scores,
            *(changed.score, *changed.beside),
            *(measured.score, *measured.beside),
            *([self._steps[event.action_id]] if event.action_id in self._steps else []),
        ]
        verdict = judge("bench", parts_of_act(self._parts, task=event.episode is not None), scores)
        return changed, ExperienceRecorded(
            id=f"experience-{event.cycle}", source=event.source, time=event.time, agent=event.agent, cycle=event.cycle,
            action_id=event.action_id, seq=(event.cycle or 0) + 1, acted_at=event.time, raw=event.raw,
            action=event.action, outcome=event.outcome, goals=event.goals, scores=verdict.scores, total=verdict.total,
            breakdown=verdict.breakdown, coverage=verdict.coverage, complete=verdict.complete, revision=1,
            weights="bench", model=event.model, ms={},
        )  # fmt: skip


class _ScoredMind:
    """A reflex mind that learns each act's reward before the next thought, so that a life depends on its seed alone."""

    kind, learns = "reflex", False

    def __init__(self, mind: ReflexMind, bus: MemoryBus, scorer: _Scorer) -> None:
        self._mind, self._bus, self._scorer = mind, bus, scorer
        self._after = 0
        self.events: list[Event] = []
        self.totals: list[float] = []

    @property
    def model(self) -> str:
        return self._mind.model

    async def complete(self, prompt: Prompt) -> Completion:
        """The mind's reply; before a thought it learns what it earned."""
        if prompt.purpose == "think":
            await self.catch_up()
        return await self._mind.complete(prompt)

    async def catch_up(self) -> None:
        """Score what was published since."""
        found = [one async for one in self._bus.read([subject_filter(kind) for kind in HEARD], after=self._after)]
        for delivery in found:
            self._after = delivery.seq
            event = decode(delivery.data)
            self.events.append(event)
            changed, experience = self._scorer.heard(event)
            if isinstance(changed, NeedsChanged):
                await self._bus.publish(subject_of(changed), encode(changed), id=changed.id)
            if experience is not None:
                self.totals.append(experience.total)
                self._mind.learn(experience)

    def learn(self, experience: ExperienceRecorded) -> None:
        """Does nothing: it has learnt."""

    async def close(self) -> None:
        """Does nothing."""


MakeMind = Callable[[Path, int], ReflexMind]


@dataclass(frozen=True)
class Lived:
    """A life: what was published, and the acts' totals in their order."""

    events: list[Event]
    totals: list[float]


def live(workspace: BenchWorkspace, cycles: int, seed: int, make: MakeMind) -> Lived:
    """So many cycles of the mind that `make` makes of its file and the seed."""
    with tempfile.TemporaryDirectory(prefix="conch-bench-") as home:
        return asyncio.run(_live(workspace, cycles, seed, make, Path(home)))


async def _live(workspace: BenchWorkspace, cycles: int, seed: int, make: MakeMind, home: Path) -> Lived:
    settings = Settings()
    # Only the benchmark's own commands run, so that nothing needs to hold them.
    settings = settings.model_copy(
        update={
            "seed": seed,
            "goals": workspace.goals,
            "tools": settings.tools.model_copy(update={"sandbox": "off"}),
            "cycle": settings.cycle.model_copy(update={"interval": 0, "reflect_every": 0}),
        }
    )
    workspace.furnish(home)
    Home(home).agent_dir(settings.agent).mkdir(parents=True, exist_ok=True)
    start = AgentStart(name=settings.agent, agentuid=UID)
    spec = AgentsSpec(
        cycles=cycles, agents=(start,), resting={}, workspace=home / "workspace", alone=True, values=Values()
    )  # fmt: skip
    mind = make(home / "reflex.npz", seed)
    async with MemoryBus() as bus, shared_subscription(bus) as shared_events:
        scored = _ScoredMind(mind, bus, _Scorer(settings))
        async with AgentFactory(Order(spec, settings, home), shared_events, scored) as agents:
            await AgentHost(shared_events, agents.agent_runner).run()
        await scored.catch_up()
    return Lived(scored.events, scored.totals)
