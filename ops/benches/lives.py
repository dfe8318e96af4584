"""Lives of scripted agents: a notebook of their own with its goals and new material, real tools, measured acts. The
acts are scored by the consumers' own folds, the weight set and the total.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conch.bus import MemoryBus, shared_subscription
from conch.config import Settings
from conch.consumer import ServiceContext, bind
from conch.cycle.hosting.factory import AgentFactory
from conch.cycle.hosting.host import AgentHost
from conch.experience.assemble import ExperienceVerdict, judge
from conch.home import Home
from conch.library.preparing import Order
from conch.minds import Completion, Mind, Prompt, Situation
from conch.processes.messages import AgentsSpec, AgentStart
from conch.rewards import parts_of_act, weight_set
from conch.rewards.progress import ProgressState
from conch.rewards.progress import fold as progress_fold
from conch.rules import RuleInfo
from conch.values import Values
from conch.workspace import default_goals, fill, record_filled
from conch_schemas import (
    ActionTaken,
    Event,
    ExperienceRecorded,
    Goal,
    GoalSet,
    MessageReceived,
    Score,
    TaskProgressed,
    TestsCheck,
    Usage,
    decode,
    subject_filter,
)
from conch_services.curiosity.consumer import curiosity as curiosity_consumer
from conch_services.needs.consumer import needs as needs_consumer
from conch_services.reward.consumer import reward as reward_consumer

TESTS_GOAL: Final = Goal(
    id="tests",
    statement="All tests of tidepool pass: python3 -m unittest says OK.",
    check=TestsCheck(command="python3 -m unittest"),
    priority=0.7,
)
"""Some of them ask for what the program does not do yet: only a mind that can program reaches it."""
UID: Final = "6f3f0d1e-56a0-4a3f-9c6b-0a8f3f1f1c11"
HELD_OUT: Final = "moves_a_goal"
HEARD: Final = (ActionTaken, GoalSet, MessageReceived, TaskProgressed)

Reply = Callable[[Situation, random.Random], str]
"""A decision of a scripted agent; the draws depend on the seed alone."""


class ReplyMind:
    """Gives the replies of one function."""

    kind, model, learns = "replies", "replies", False

    def __init__(self, reply: Reply, seed: int) -> None:
        self._reply, self._draw = reply, random.Random(seed)

    async def complete(self, prompt: Prompt) -> Completion:
        """The reply to *decide*; the same thought for every cycle."""
        text = self._reply(prompt.situation, self._draw) if prompt.purpose == "decide" else "I go on."
        return Completion(text, "stop", Usage(), self.model, 0.0)

    def learn(self, experience: ExperienceRecorded) -> None:
        """Does nothing."""

    async def close(self) -> None:
        """Does nothing."""


@dataclass(frozen=True)
class Agent:
    """A scripted agent."""

    mind: Callable[[Path, int], Mind]
    """Makes it, from a directory that exists and the seed."""
    tests: bool = False
    """Whether it has the goal that the notebook's tests pass. No agent here reaches that goal, and its check takes a
    tenth of a second, so it is set only for agents that work on it."""


def replies(reply: Reply, *, tests: bool = False) -> Agent:
    """The agent with these replies."""
    return Agent(lambda _, seed: ReplyMind(reply, seed), tests)


@dataclass(frozen=True)
class Lived:
    """What an agent's acts were worth."""

    acts: tuple[ActionTaken, ...]
    verdicts: tuple[ExperienceVerdict, ...]
    progress: tuple[float, ...]
    """What the steps of its tasks paid; empty without one."""

    def mean(self, component: str) -> float | None:
        """Mean value of what was scored; None: nothing was."""
        scores = (score for verdict in self.verdicts for score in verdict.scores if score.component == component)
        values = self.progress if component == "progress" else [one.value for one in scores if one.value is not None]
        return statistics.fmean(values) if values else None

    def paid(self, *steps: str) -> float:
        """Mean of what lines of these steps put into the totals."""
        lines = (line.amount for verdict in self.verdicts for line in verdict.breakdown if line.step in steps)
        return sum(lines) / len(self.verdicts)

    @property
    def total(self) -> float:
        """Mean total."""
        return statistics.fmean(verdict.total for verdict in self.verdicts)

    @property
    def goals(self) -> int:
        """Goals reached by an act."""
        return sum(check.outcome == "achieved" for act in self.acts for check in act.goals)

    @property
    def effects(self) -> dict[str, int]:
        """Acts by the kind of their measured effect."""
        kinds = [act.effect.kind for act in self.acts if act.effect is not None]
        return {kind: kinds.count(kind) for kind in sorted(set(kinds))}


def lived(agent: Agent, acts: int, seed: int = 1, settings: Settings | None = None) -> Lived:
    """So many acts of `agent` in a new notebook, scored as a run scores them."""
    own = _settings(agent, seed, settings or Settings())
    return scored(events_of(agent, acts, seed, settings), own)


def events_of(agent: Agent, acts: int, seed: int = 1, settings: Settings | None = None) -> list[Event]:
    """What `agent` publishes of these kinds: HEARD."""
    with tempfile.TemporaryDirectory(prefix="conch-bench-") as home:
        return asyncio.run(_events(agent, acts, Path(home), _settings(agent, seed, settings or Settings())))


async def _events(agent: Agent, acts: int, home: Path, settings: Settings) -> list[Event]:
    workspace = home / "workspace"
    record_filled(home, home, workspace)
    fill(workspace)
    Home(home).agent_dir(settings.agent).mkdir(parents=True)
    start = AgentStart(name=settings.agent, agentuid=UID)
    spec = AgentsSpec(
        cycles=acts, agents=(start,), resting={}, workspace=workspace, alone=True, values=Values()
    )  # fmt: skip
    async with (
        MemoryBus() as bus,
        shared_subscription(bus) as shared_events,
        AgentFactory(Order(spec, settings, home), shared_events, agent.mind(home, settings.seed)) as agents,
    ):
        await AgentHost(shared_events, agents.agent_runner).run()
        return [decode(one.data) async for one in bus.read([subject_filter(kind) for kind in HEARD])]


def _settings(agent: Agent, seed: int, settings: Settings) -> Settings:
    goals = (*default_goals(), *([TESTS_GOAL] if agent.tests else []))
    # Only the benchmark's own commands run, so that nothing needs to hold them.
    tools = settings.tools.model_copy(update={"sandbox": "off"})
    cycle = settings.cycle.model_copy(update={"interval": 0, "reflect_every": 1000})
    return settings.model_copy(update={"seed": seed, "goals": goals, "tools": tools, "cycle": cycle})


def moves_a_goal(act: ActionTaken) -> Score:
    """The held-out rule: 1 where the act reached a goal or raised its measure, else 0. It is never paid."""
    moved = any(check.outcome in ("achieved", "partial") for check in act.goals)
    return Score(component=HELD_OUT, value=float(moved), range=(0, 1), status="scored", scorer=HELD_OUT, version="1")


def scored(events: Iterable[Event], settings: Settings) -> Lived:
    """The acts among `events`, in order, and what each is worth."""
    context = ServiceContext(settings, Path())
    parts = weight_set((RuleInfo(HELD_OUT, held_out=True),), settings.rewards, settings.constitution)
    reward, needs, curiosity = (bind(one, context) for one in (reward_consumer, needs_consumer, curiosity_consumer))
    assert needs.initial is not None
    assert curiosity.initial is not None
    levels, history = needs.initial(), curiosity.initial()
    episodes = ProgressState(weighed=True, tasks_only=True)
    found: list[tuple[ActionTaken, list[Score]]] = []
    steps: dict[str | None, Score] = {}
    progress: list[float] = []
    for event in events:
        if isinstance(event, TaskProgressed | ActionTaken):
            episodes, step = progress_fold(episodes, event)
            progress += [step.row.r_step] if step.row is not None and step.row.cycle is not None else []
            if step.score is not None:
                steps[event.action_id] = step.score
        if isinstance(event, TaskProgressed):
            continue
        history, measured = curiosity.handle(history, event)
        if not isinstance(event, ActionTaken):
            continue
        levels, changed = needs.handle(levels, event)
        scores: list[Score] = [
            *reward.handle(event).scores,
            *(changed.score, *changed.beside),
            *(measured.score, *measured.beside),
            moves_a_goal(event),
        ]
        found.append((event, scores))
    verdicts = [
        judge(
            "bench",
            parts_of_act(parts, task=act.episode is not None),
            [*scores, *([steps[act.action_id]] if act.action_id in steps else [])],
        )
        for act, scores in found
    ]
    assert all(verdict.complete for verdict in verdicts)
    return Lived(tuple(act for act, _ in found), tuple(verdicts), tuple(progress))
