"""The bandit finds out what pays, late rewards, corrections and changes of the world included."""

from __future__ import annotations

import numpy as np
import pytest

from conch.minds.embedded.bandit import LinUCB, Sparse

ARMS = np.eye(4)
CHOICES = [Sparse.of(arm) for arm in ARMS]


def play(bandit: LinUCB, pay: list[float], rounds: int, lag: int = 0) -> list[int]:
    """Play arms without context; the reward of a choice comes `lag` rounds later."""
    chosen: list[int] = []
    waiting: list[tuple[int, int]] = []
    for _ in range(rounds):
        arm = int(bandit.scores(ARMS).argmax())
        bandit.choose(CHOICES[arm])
        chosen.append(arm)
        waiting.append((arm, bandit.choices))
        while len(waiting) > lag:
            arm, at = waiting.pop(0)
            bandit.learn(CHOICES[arm], pay[arm], at)
    return chosen


@pytest.mark.parametrize("lag", [0, 30])
def test_it_settles_on_what_pays_best(lag: int) -> None:
    """Rewards that come thirty choices late are learnt from like those that come at once."""
    chosen = play(LinUCB(4, alpha=0.3, gamma=0.998, ridge=0.1), [0.1, 0.2, 0.9, 0.3], 300, lag)

    assert chosen[-100:].count(2) > 90


def test_choices_that_wait_for_their_reward_are_not_made_again_and_again() -> None:
    """Optimism leaves a choice when it is made, not when its reward comes."""
    bandit = LinUCB(4, alpha=1.0, gamma=1.0, ridge=1.0)

    assert sorted(play(bandit, [0.0] * 4, 4, lag=99)) == [0, 1, 2, 3]


def test_a_world_that_flips_is_followed() -> None:
    """What was learnt fades: the arm that pays now wins over the one that paid for long."""
    bandit = LinUCB(4, alpha=0.3, gamma=0.99, ridge=0.1)
    play(bandit, [0.9, 0.1, 0.1, 0.1], 300)

    chosen = play(bandit, [0.0, 0.1, 0.1, 0.9], 500)

    assert chosen[-100:].count(3) > 90


def test_a_correction_leaves_what_the_right_reward_would_have_left() -> None:
    """Learning 0.2 and then 0.5 more is learning 0.7, many choices and forgettings later too."""
    bandits = [LinUCB(4, alpha=0.1, gamma=0.99, ridge=0.5) for _ in range(2)]
    for bandit, first in zip(bandits, (0.2, 0.7), strict=True):
        bandit.choose(CHOICES[0])
        bandit.learn(CHOICES[0], first, 1)
        play(bandit, [0.5] * 4, 0)
        for at in range(2, 200):
            bandit.choose(CHOICES[1])
            bandit.learn(CHOICES[1], 0.4, at)

    bandits[0].correct(CHOICES[0], 0.5, 1)

    assert bandits[0].scores(ARMS) == pytest.approx(bandits[1].scores(ARMS), rel=1e-5)


def test_step_by_step_and_afresh_come_to_the_same() -> None:
    """The running inverse agrees with the inversion, context and lag included."""
    bandit, draw = LinUCB(6, alpha=0.2, gamma=0.998, ridge=0.05), np.random.default_rng(1)
    for _ in range(60):
        x = Sparse.of(draw.random(6))
        bandit.choose(x)
        bandit.learn(x, float(draw.random()), bandit.choices)
    bandit.choose(Sparse.of(draw.random(6)))
    probe = draw.random((5, 6))
    running = bandit.scores(probe)

    bandit.refresh()

    assert bandit.scores(probe) == pytest.approx(running, rel=1e-4)


def test_optimism_stays_bounded_in_what_is_never_tried() -> None:
    """Forgetting does not make an untried direction explode."""
    bandit = LinUCB(2, alpha=1.0, gamma=0.9, ridge=0.25)
    x = Sparse.of(np.array([1.0, 0.0]))
    for _ in range(2000):
        bandit.choose(x)
        bandit.learn(x, 0.5, bandit.choices)

    untried = bandit.scores(np.array([[0.0, 1.0]]))

    assert untried[0] == pytest.approx(2.0, rel=1e-5)  # alpha / sqrt(ridge), as at the start
