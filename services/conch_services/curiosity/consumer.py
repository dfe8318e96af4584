"""The curiosity consumer: reads `action.taken`, `goal.set` and `message.received`, publishes `novelty.measured`."""

from __future__ import annotations

from conch import consumer, follow
from conch.config import Settings
from conch.curiosity import SCORER, VERSION, CuriosityState, fold
from conch_schemas import ActionTaken, GoalSet, MessageReceived, NoveltyMeasured


@consumer(
    ActionTaken,
    GoalSet,
    MessageReceived,
    name=SCORER,
    version=VERSION,
    state=CuriosityState,
    emits=[NoveltyMeasured],
    setup=lambda context: context.settings,
)
def curiosity(
    state: CuriosityState, fact: ActionTaken | GoalSet | MessageReceived, settings: Settings
) -> tuple[CuriosityState, NoveltyMeasured | None]:
    """The fold of one agent's history: one event per act."""
    state, measure = fold(state, fact, settings.rewards, settings.curiosity, settings.training.intrinsic_motivation)
    if measure is None:
        return state, None
    return state, follow(fact, NoveltyMeasured, consumer=SCORER, version=VERSION, **measure._asdict())
