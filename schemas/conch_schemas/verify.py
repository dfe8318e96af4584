"""Whether a fact of a cycle bears the ids that follow from what it says of itself."""

from __future__ import annotations

from typing import Final

from conch_schemas.cycle import ActionDecided, ActionTaken, CycleReflected, ThoughtFormed, ThoughtGrounded
from conch_schemas.envelope import Event, action_id, cycle_event_id
from conch_schemas.registry import ContractViolationError

_OF_CYCLE: Final = frozenset({ThoughtFormed, ThoughtGrounded, ActionDecided, ActionTaken, CycleReflected})


def verify_ids(event: Event) -> None:
    """Raises ContractViolationError for a fact of a cycle whose ids are not the derived ones.

    Its source names its agent; its id follows from action and type; the action of `action.taken` from agent, cycle and
    step. Other facts pass: consumers in other languages may use ids of their own.
    """
    if type(event) in _OF_CYCLE and not _derived(event):
        raise ContractViolationError(
            f"forged or foreign id: {event.TYPE} {event.id[:100]!r} of cycle {event.cycle} does not bear the id that "
            f"follows from its source {event.source[:200]!r}"
        )


def _derived(event: Event) -> bool:
    action, agentuid = event.action_id, event.agentuid
    try:
        if action is None or event.cycle is None or event.id != cycle_event_id(action, type(event)):
            return False
        if isinstance(event, ActionTaken) and action != action_id(agentuid, event.cycle, event.step):
            return False
    except ValueError:
        return False  # what should be a UUID is none
    return event.source.startswith(f"conch/{event.agent}/")
