"""The simulated comparison: the same luck for all, and what the controllers come to."""

from __future__ import annotations

from conch.teams.simulate import CONTROLLERS, HINDSIGHT, TASKS, best_fixed, compared, intervals


def test_no_topology_is_the_best_of_every_phase() -> None:
    """Each of the three is the fastest of a phase, in every task."""
    assert all({phase.best for phase in task.phases} == {"star", "chain", "flat"} for task in TASKS)


def test_the_learnt_controller_is_nearer_to_hindsight_than_random() -> None:
    """On 60 episodes after 60 others; the same seed gives the same figures."""
    found = compared(seed=3, episodes=120, counted=60)

    assert found == compared(seed=3, episodes=120, counted=60)
    assert found[HINDSIGHT].regret == 0.0
    assert found["frozen"].regret < found["random"].regret
    assert found["learned"].reward > found["random"].reward
    assert found["learned"].switches > 0 == found[best_fixed([found])].switches


def test_the_interval_of_equal_seeds_is_its_mean() -> None:
    """Without spread there is none."""
    one = compared(seed=1, episodes=4, counted=2)
    found = intervals([one, one])

    assert found.keys() == set(CONTROLLERS)
    assert found["star"]["reward"] == (one["star"].reward,) * 3
