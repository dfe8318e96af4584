"""Verifies that the ids of a cycle's event follow from its own fields."""

from __future__ import annotations

from typing import Final

from conch_schemas.cycle import ActionDecided, ActionTaken, CycleReflected, ThoughtFormed, ThoughtGrounded
from conch_schemas.envelope import Event, action_id, cycle_event_id
from conch_schemas.registry import ContractViolationError

_OF_CYCLE: Final = frozenset({ThoughtFormed, ThoughtGrounded, ActionDecided, ActionTaken, CycleReflected})

_GREATEST: Final = 2**63 - 1
"""Greatest cycle number: no store counts further, and no agent gets there."""


def verify_ids(event: Event) -> None:
    """Raises ContractViolationError for an event of a cycle with ids that are not the derived ones.

    Its source must name its agent; its id must follow from action and type; the action id of `action.taken` from agent,
    cycle and step. Other events pass: consumers in other languages may use ids of their own.
    """
    if type(event) in _OF_CYCLE and not _derived(event):
        raise ContractViolationError(
            f"forged or foreign id: {event.TYPE} {event.id[:100]!r} of cycle {event.cycle} does not bear the id that "
            f"follows from its source {event.source[:200]!r}"
        )


def _derived(event: Event) -> bool:
    action, cycle = event.action_id, event.cycle
    if action is None or cycle is None or cycle > _GREATEST or not event.source.startswith(f"conch/{event.agent}/"):
        return False
    try:
        if isinstance(event, ActionTaken) and action != action_id(event.agentuid, cycle, event.step):
            return False
        return event.id == cycle_event_id(action, type(event))
    except ValueError:
        return False  # not a UUID where one should be
