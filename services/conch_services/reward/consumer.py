"""The reward consumer: reads `action.taken`, publishes `reward.assigned`."""

from __future__ import annotations

from conch import consumer, follow
from conch.config.model import RewardSettings
from conch.rewards import VERSION, builtin_scores, constitution_scores, principles_of, unjudged_reason
from conch_schemas import BUILTIN_SCORER, ActionTaken, RewardAssigned


@consumer(
    ActionTaken,
    name=BUILTIN_SCORER,
    version=VERSION,
    emits=[RewardAssigned],
    setup=lambda context: context.settings.rewards,
)
def reward(action: ActionTaken, settings: RewardSettings) -> RewardAssigned:
    """The built-in rules as one scorer: one event per act, with five scores and the seven principles, or no
    principle where there is nothing to judge by."""
    principles = principles_of(action)
    return follow(
        action,
        RewardAssigned,
        consumer=BUILTIN_SCORER,
        version=VERSION,
        scorer=BUILTIN_SCORER,
        scores=(*builtin_scores(action, settings), *constitution_scores(principles, unjudged_reason(action))),
        principles=() if principles is None else principles.principles(),
    )
