"""Whether an event bears the ids that follow from what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conch_schemas import ActionTaken, ContractViolationError, RewardAssigned, action_id, cycle_event_id, verify_ids

UID = "11111111-2222-4333-8444-555555555555"
OTHERS = action_id(UID, 1)


def test_what_is_derived_passes(act: Callable[..., ActionTaken]) -> None:
    """At every step; and a fact of another kind, whatever its id: whoever scores may name it as he likes."""
    stepped = act(3)
    action = action_id(stepped.agentuid, 3, 2)

    verify_ids(act(0))
    verify_ids(stepped.model_copy(update={"step": 2, "action_id": action, "id": cycle_event_id(action, ActionTaken)}))
    verify_ids(RewardAssigned(id="any", source="any", agent="echo", scorer="s", version="1", scores=()))


@pytest.mark.parametrize(
    "changes",
    [
        {"id": OTHERS},
        {"id": ""},
        {"action_id": None},
        {"action_id": "x", "id": "y"},
        {"action_id": OTHERS, "id": cycle_event_id(OTHERS, ActionTaken)},
        {"cycle": None},
        {"cycle": 2},
        {"step": 1},
        {"source": "conch/delta/" + UID},
        {"source": "conch/echo/nobody"},
        {"source": ""},
    ],
)
def test_what_is_not_derived_is_refused_in_one_sentence(
    act: Callable[..., ActionTaken], changes: dict[str, Any]
) -> None:
    """With its kind, id and cycle, cut to size."""
    forged = act(1).model_copy(update=changes)

    with pytest.raises(ContractViolationError, match=r"^forged or foreign id: action\.taken .* of cycle"):
        verify_ids(forged)


def test_a_cycle_that_no_store_counts_to_is_refused(act: Callable[..., ActionTaken]) -> None:
    """Well derived though its ids are."""
    verify_ids(act(2**63 - 1))

    with pytest.raises(ContractViolationError):
        verify_ids(act(2**63))
