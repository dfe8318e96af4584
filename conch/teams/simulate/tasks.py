"""The simulated tasks: how fast each topology works in each phase, what a step costs, and which roles talk.

The numbers are made up, so that no topology is best everywhere: they test the controller and say nothing of real teams.
A phase has units of work. In a step a unit is done with the probability of the phase's topology. Units of coding and
testing are tests that pass then; the phase ends with its last unit.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from conch.teams.topology import Topology

STEP_LIMIT: Final = 60
"""Steps after which an episode ends undone."""
TOKEN_BUDGET: Final = 10_000
PHASES: Final = ("planning", "coding", "testing", "critique")


@dataclass(frozen=True)
class SimulatedPhase:
    """One phase of a task."""

    name: str
    units: int
    speed: Mapping[Topology, float]
    """Probability that a step does a unit, by topology."""
    tokens: Mapping[Topology, int]
    """Output tokens of a step, on average."""
    talk: Mapping[str, float]
    """The share of each role in the messages; they sum to 1."""

    @property
    def best(self) -> Topology:
        """The topology that does the most work."""
        return max(self.speed, key=lambda topology: self.speed[topology])


@dataclass(frozen=True)
class SimulatedTask:
    """A task: phases in order."""

    name: str
    phases: tuple[SimulatedPhase, ...]

    @property
    def tests(self) -> int:
        """Units that are tests."""
        return sum(phase.units for phase in self.phases if phase.name in ("coding", "testing"))


def _of(star: float, chain: float, flat: float) -> Mapping[Topology, float]:
    return MappingProxyType({"star": star, "chain": chain, "flat": flat})


def _tokens(star: int, chain: int, flat: int) -> Mapping[Topology, int]:
    return MappingProxyType({"star": star, "chain": chain, "flat": flat})


_COST = _tokens(240, 160, 320)
_TALK: Final[Mapping[str, Mapping[str, float]]] = MappingProxyType(
    {
        "planning": {"planner": 0.85, "coder": 0.1, "critic": 0.05},
        "coding": {"planner": 0.05, "coder": 0.75, "runner": 0.2},
        "testing": {"coder": 0.25, "runner": 0.7, "critic": 0.05},
        "critique": {"planner": 0.1, "coder": 0.05, "critic": 0.85},
    }
)


def _phase(name: str, units: int, speed: Mapping[Topology, float]) -> SimulatedPhase:
    return SimulatedPhase(name, units, speed, _COST, _TALK[name])


TASKS: Final = (
    SimulatedTask(
        "feature",
        (
            _phase("planning", 2, _of(0.65, 0.2, 0.3)),
            _phase("coding", 3, _of(0.15, 0.7, 0.25)),
            _phase("testing", 2, _of(0.15, 0.7, 0.25)),
            _phase("critique", 1, _of(0.2, 0.15, 0.7)),
        ),
    ),
    SimulatedTask(
        "defect",
        (
            _phase("planning", 1, _of(0.6, 0.25, 0.35)),
            _phase("coding", 2, _of(0.2, 0.65, 0.35)),
            _phase("testing", 3, _of(0.2, 0.65, 0.3)),
            _phase("critique", 2, _of(0.15, 0.15, 0.65)),
        ),
    ),
    SimulatedTask(
        "research",
        (
            _phase("planning", 3, _of(0.7, 0.15, 0.3)),
            _phase("coding", 2, _of(0.2, 0.55, 0.3)),
            _phase("testing", 1, _of(0.25, 0.55, 0.3)),
            _phase("critique", 3, _of(0.15, 0.1, 0.7)),
        ),
    ),
)
"""Of each episode one is drawn."""


def drawn_task(draws: random.Random) -> SimulatedTask:
    """One of TASKS, each as likely."""
    return draws.choice(TASKS)
