"""`action.taken` in, `reward.assigned` out."""

from __future__ import annotations

from conch.consumer.follow import follow
from conch.consumer.service import ServiceContext
from conch.consumer.spec import ConsumerSpec
from conch.rewards import VERSION, builtin_scores, constitution_scores, principles_of
from conch_schemas import BUILTIN_SCORER, ActionTaken, RewardAssigned


def reward_consumer(context: ServiceContext) -> ConsumerSpec:
    """The built-in rules as one scorer: one event per act, with five scores and the seven principles."""

    def reward(action: ActionTaken) -> RewardAssigned:
        principles = principles_of(action)
        scores = (*builtin_scores(action, context.settings.rewards), *constitution_scores(principles))
        return follow(
            action,
            RewardAssigned,
            consumer=BUILTIN_SCORER,
            version=VERSION,
            scorer=BUILTIN_SCORER,
            scores=scores,
            principles=principles.principles(),
        )

    return ConsumerSpec(
        name=BUILTIN_SCORER, version=VERSION, kinds=(ActionTaken,), handle=reward, emits=(RewardAssigned,)
    )
