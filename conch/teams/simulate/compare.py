"""Compares controllers on the same simulated episodes: reward, steps, tokens, and regret against hindsight."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from conch.teams.controller import ControllerSetup, ControllerState
from conch.teams.simulate.play import PlayedEpisode, played
from conch.teams.simulate.tasks import SimulatedPhase, SimulatedTask, drawn_task
from conch.teams.topology import TOPOLOGIES, Topology

HINDSIGHT: Final = "hindsight"
"""Name of the policy that knows task and phase, and takes the phase's fastest topology."""
CONTROLLERS: Final = (*TOPOLOGIES, "random", "learned", "frozen", HINDSIGHT)
"""The policies that are compared: each topology fixed, random, the bandit, what it learnt without exploring, and
hindsight."""
_DRAWS: Final = 2000
"""Resamples of an interval."""


class ControllerResult(NamedTuple):
    """Means over the counted episodes of one seed."""

    reward: float
    steps: float
    tokens: float
    switches: float
    done: float
    """Share of episodes that were done."""
    regret: float
    """Reward of hindsight on the same episodes, less this one."""


class MeanInterval(NamedTuple):
    """A mean over seeds, with its interval of 95 %."""

    mean: float
    low: float
    high: float


def compared(seed: int, episodes: int, counted: int) -> dict[str, ControllerResult]:
    """Each of CONTROLLERS on the same `episodes`; the last `counted` are counted. `frozen` has learnt on the episodes
    before those."""
    tasks = [drawn_task(random.Random(f"{seed}/task/{number}")) for number in range(episodes)]  # noqa: S311
    results: dict[str, list[PlayedEpisode]] = {}
    for topology in TOPOLOGIES:
        results[topology] = _run(tasks, ControllerSetup("fixed"), seed, counted, start=topology)[0]
    results["random"] = _run(tasks, ControllerSetup("random", seed=seed), seed, counted)[0]
    setup = ControllerSetup("learned", seed=seed)
    results["learned"], learnt = _run(tasks, setup, seed, counted)
    results["frozen"] = _run(tasks, ControllerSetup("frozen"), seed, counted, state=learnt)[0]
    results[HINDSIGHT] = [
        played(tasks[number], ControllerState(), setup, seed=f"{seed}/{number}", chooser=_fastest)[1]
        for number in range(episodes - counted, episodes)
    ]
    best = fmean(one.reward for one in results[HINDSIGHT])
    return {name: _mean(results[name], best) for name in CONTROLLERS}


def intervals(results: Sequence[Mapping[str, ControllerResult]]) -> dict[str, dict[str, MeanInterval]]:
    """Of each controller and figure the mean over the seeds, with the interval of its bootstrap."""
    return {
        name: {
            figure: _interval([getattr(one[name], figure) for one in results]) for figure in ControllerResult._fields
        }
        for name in CONTROLLERS
    }


def gain(results: Sequence[Mapping[str, ControllerResult]], name: str, other: str) -> MeanInterval:
    """The mean gain in reward of a controller over another one, seed by seed, with its interval."""
    return _interval([one[name].reward - one[other].reward for one in results])


def best_fixed(results: Sequence[Mapping[str, ControllerResult]]) -> Topology:
    """The topology with the highest mean reward over the seeds: the best that no switch could be."""
    return max(TOPOLOGIES, key=lambda topology: fmean(one[topology].reward for one in results))


def _run(
    tasks: Sequence[SimulatedTask],
    setup: ControllerSetup,
    seed: int,
    counted: int,
    *,
    state: ControllerState | None = None,
    start: Topology = "star",
) -> tuple[list[PlayedEpisode], ControllerState]:
    """The counted episodes, and the controller before them. A controller that does not learn plays those alone."""
    state, first = state or ControllerState(), len(tasks) - counted
    if setup.kind == "learned":
        for number in range(first):
            state, _ = played(tasks[number], state, setup, seed=f"{seed}/{number}", start=start)
    before, found = state, []
    for number in range(first, len(tasks)):
        state, one = played(tasks[number], state, setup, seed=f"{seed}/{number}", start=start)
        found.append(one)
    return found, before


def _fastest(task: SimulatedTask, phase: SimulatedPhase, topology: Topology) -> str:
    return phase.best


def _mean(episodes: Sequence[PlayedEpisode], best: float) -> ControllerResult:
    reward = fmean(one.reward for one in episodes)
    return ControllerResult(
        reward,
        fmean(one.steps for one in episodes),
        fmean(one.tokens for one in episodes),
        fmean(one.switches for one in episodes),
        fmean(one.done for one in episodes),
        best - reward,
    )


def _interval(values: Sequence[float]) -> MeanInterval:
    draws = random.Random(0)  # noqa: S311 - resampling
    means = sorted(fmean(draws.choices(values, k=len(values))) for _ in range(_DRAWS))
    return MeanInterval(fmean(values), means[int(0.025 * _DRAWS)], means[int(0.975 * _DRAWS) - 1])
