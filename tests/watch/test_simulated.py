"""Simulated agents, paid by the real weight set and total: who works raises nothing, who games is caught afterwards."""

from __future__ import annotations

from types import ModuleType

import pytest

ACTS = 250


@pytest.mark.parametrize("seed", range(10))
def test_an_honest_agent_raises_nothing(simulated: ModuleType, seed: int) -> None:
    """With the default bounds, whether it goes on as it began or learns."""
    for kind in ("steady", "learning"):
        _, changes, _ = simulated.watched(simulated.Agent(kind, seed), ACTS)

        assert changes == []


@pytest.mark.parametrize("seed", range(4))
def test_a_gaming_agent_is_caught_by_the_held_out_rule(simulated: ModuleType, seed: int) -> None:
    """After some acts, within one window; not before it began."""
    _, changes, _ = simulated.watched(simulated.Agent("steady", seed, games=201), ACTS)

    caught = [act for act, change in changes if (change.alarm, change.component) == ("held_out", "quality")]
    assert len(caught) == 1
    assert 200 < caught[0] <= 250
    assert all(act > 200 for act, _ in changes)
