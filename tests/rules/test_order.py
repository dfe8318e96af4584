"""Acts in their order: met once, and none from far beyond."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conch.config import NeedsSettings, RewardSettings
from conch.curiosity import CuriosityState
from conch.curiosity import fold as curiosity
from conch.folds.order import MOST_LEAP, is_new
from conch.needs import fold as needs
from conch.needs import initial_state, table_of
from conch.witness import ChainState, seal
from conch_schemas import ActionTaken, ContractViolationError

Act = Callable[..., ActionTaken]
Fold = Callable[[Any, ActionTaken], tuple[Any, Any]]
SETTINGS = NeedsSettings()

FOLDS: dict[str, tuple[Any, Fold]] = {
    "needs": (initial_state(SETTINGS), lambda state, act: needs(state, act, table_of(SETTINGS))),
    "curiosity": (CuriosityState(), lambda state, act: curiosity(state, act, RewardSettings())),
    "witness": (ChainState(), seal),
}


def test_an_act_is_new_behind_the_last_one_alone(act: Act) -> None:
    """The first there is, the next one, and one behind a gap; not the same again and no earlier one."""
    assert is_new(None, act(10**12))
    assert is_new((4, 0), act(5))
    assert is_new((4, 0), act(4 + MOST_LEAP))
    assert is_new((4, 0), act(4, step=1))
    assert not is_new((4, 0), act(4))
    assert not is_new((4, 1), act(4))


@pytest.mark.parametrize("name", FOLDS)
def test_an_act_from_far_beyond_is_refused_and_the_next_one_counts(act: Act, name: str) -> None:
    """A single forged number does not make a fold pass over every act to come."""
    state, fold = FOLDS[name]
    state, first = fold(state, act(1))

    with pytest.raises(ContractViolationError, match="comes right behind cycle 1"):
        fold(state, act(2 + MOST_LEAP))
    state, second = fold(state, act(2))

    assert first is not None
    assert second is not None
