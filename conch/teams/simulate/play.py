"""Plays one simulated episode with a controller: the team's own features, coordinator, bandit and step reward."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, NamedTuple

from conch.rewards.progress import final_bonus, step_reward
from conch.teams.controller import ControllerSetup, ControllerState, decided, with_decision, with_reward
from conch.teams.coordinator import DWELL_STEPS, CoordinatorState, objection, stepped, switched
from conch.teams.features import WINDOW, feature_vector
from conch.teams.simulate.tasks import STEP_LIMIT, TOKEN_BUDGET, SimulatedPhase, SimulatedTask
from conch.teams.topology import Topology, known_topology

MESSAGES: Final = 2
"""Messages of a step."""
NOISE: Final = 0.2
"""The tokens of a step differ from the phase's by this share at most."""


class PlayedEpisode(NamedTuple):
    """What an episode came to."""

    reward: float
    steps: int
    tokens: int
    switches: int
    done: bool


Chooser = Callable[[SimulatedTask, SimulatedPhase, Topology], str]
"""Chooses by what no controller sees: the task and its phase."""


class _Episode:
    """An episode in progress."""

    def __init__(self, task: SimulatedTask, topology: Topology, seed: str) -> None:
        self.task, self.topology, self.seed = task, topology, seed
        self.phase, self.units, self.tests, self.tokens, self.steps, self.switches = 0, 0, 0, 0, 0, 0
        self.coordinator, self.window = CoordinatorState(), list[tuple[str, ...]]()
        self.switch_committed = False

    @property
    def done(self) -> bool:
        return self.phase == len(self.task.phases)

    @property
    def now(self) -> SimulatedPhase:
        return self.task.phases[min(self.phase, len(self.task.phases) - 1)]

    def state(self) -> dict[str, object]:
        name = "done" if self.done else self.now.name
        return {"phase": name, "test_pass_rate": self.tests / self.task.tests, "tokens_used": self.tokens}

    def step(self) -> float:
        """Work one step; its reward. The draws are those of the episode and the step, whatever the topology is."""
        draws = random.Random(f"{self.seed}/{self.steps}")  # noqa: S311 - a simulation
        before, phase = self.state(), self.now
        works, noise = draws.random() < phase.speed[self.topology], draws.uniform(-NOISE, NOISE)
        senders = draws.choices([*phase.talk], [*phase.talk.values()], k=MESSAGES)
        self.tokens += round(phase.tokens[self.topology] * (1 + noise))
        if works:
            self.units += 1
            self.tests += phase.name in ("coding", "testing")
            if self.units == phase.units:
                self.phase, self.units = self.phase + 1, 0
        self.window = [*self.window, tuple(senders)][-WINDOW:]
        self.steps += 1
        self.coordinator = stepped(self.coordinator)
        value = step_reward(before, {**self.state(), "switch_committed": self.switch_committed})
        self.switch_committed = False
        ends = self.done or self.steps >= STEP_LIMIT
        return value + final_bonus(ends and self.done)

    def features(self) -> tuple[float, ...]:
        senders = [sender for step in self.window for sender in step]
        since = self.coordinator.since_switch
        return feature_vector(self.topology, since, senders, self.tokens, TOKEN_BUDGET, dwell=DWELL_STEPS)

    def ask(self, choice: str) -> bool:
        """Switch to the choice if that is allowed; whether it was refused."""
        target = known_topology(choice)
        if target is None or target == self.topology:
            return False
        if objection(self.coordinator, self.topology, target) is not None:
            return True
        self.topology, self.coordinator, self.switch_committed = target, switched(), True
        self.switches += 1
        return False


def played(
    task: SimulatedTask,
    state: ControllerState,
    setup: ControllerSetup,
    *,
    seed: str,
    start: Topology = "star",
    chooser: Chooser | None = None,
) -> tuple[ControllerState, PlayedEpisode]:
    """An episode, and the controller after it. `chooser` decides in the controller's place. The same seed draws the
    same luck, so controllers can be compared episode by episode."""
    episode, total, decision = _Episode(task, start, seed), 0.0, ""
    if chooser is not None:
        episode.topology = known_topology(chooser(task, episode.now, start)) or start
    while not episode.done and episode.steps < STEP_LIMIT:
        reward = episode.step()
        total += reward
        state = with_reward(state, decision, reward, learns=setup.kind == "learned", ridge=setup.ridge)
        if chooser is not None:
            episode.ask(chooser(task, episode.now, episode.topology))
            continue
        x = episode.features()
        choice = decided(state, x, setup).action
        refused = episode.ask(choice)
        decision = f"{seed}/{episode.steps}"
        state = with_decision(state, decision, x, "stay" if refused else choice)
    result = PlayedEpisode(total, episode.steps, episode.tokens, episode.switches, episode.done)
    return state, result
