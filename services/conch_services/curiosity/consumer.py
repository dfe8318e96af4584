"""`action.taken`, `goal.set` and `message.received` in, `novelty.measured` out."""

from __future__ import annotations

from conch.consumer.follow import follow
from conch.consumer.service import ServiceContext
from conch.consumer.spec import ConsumerSpec
from conch.curiosity import SCORER, VERSION, CuriosityState, fold
from conch_schemas import ActionTaken, GoalSet, MessageReceived, NoveltyMeasured


def curiosity_consumer(context: ServiceContext) -> ConsumerSpec:
    """The fold of one agent's history: one event per act."""
    rewards = context.settings.rewards

    def curiosity(
        state: CuriosityState, fact: ActionTaken | GoalSet | MessageReceived
    ) -> tuple[CuriosityState, NoveltyMeasured | None]:
        state, measure = fold(state, fact, rewards)
        if measure is None:
            return state, None
        return state, follow(fact, NoveltyMeasured, consumer=SCORER, version=VERSION, **measure._asdict())

    return ConsumerSpec(
        name=SCORER,
        version=VERSION,
        kinds=(ActionTaken, GoalSet, MessageReceived),
        handle=curiosity,
        state=CuriosityState,
        initial=CuriosityState,
        emits=(NoveltyMeasured,),
    )
