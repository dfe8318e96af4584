"""Samples of a gate: held-out states that both answered, alike but for what a test says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from conch.training.gate import GateFigures, GateReply, GateSample

FIGURES = GateFigures(kl=0.1, probe_differs=True, servable=True)
SKILLS = ("notes.read", "notes.write", "shell.run", "git.add", "git.commit")


def sample(
    place: int,
    difference: float = 0.2,
    *,
    seed: int = 0,
    change: Callable[[int, GateReply], GateReply] = lambda _, reply: reply,
) -> GateSample:
    """A state that the candidate answers with a total that is higher by `difference`, and with `change` of it."""
    incumbent = GateReply(0.2, valid=True, length=20, skill=SKILLS[place % 5], held_out=0.5)
    candidate = replace(incumbent, total=0.2 + difference)
    return GateSample(f"state{place:03}", seed, incumbent, change(place, candidate))


def samples(
    number: int = 100,
    difference: float = 0.2,
    change: Callable[[int, GateReply], GateReply] = lambda _, reply: reply,
) -> list[GateSample]:
    """As many states; their differences vary by 0.1 to both sides."""
    return [sample(place, difference + (0.1 if place % 2 else -0.1), change=change) for place in range(number)]


def drawn(seed: int, number: int, difference: float, sd: float = 0.4) -> list[GateSample]:
    """States whose differences are drawn from a normal distribution."""
    return [
        sample(place, float(each))
        for place, each in enumerate(np.random.default_rng(seed).normal(difference, sd, number))
    ]
