"""`action.taken` and a person's `reward.assigned` in, `needs.changed` out."""

from __future__ import annotations

from conch.consumer.follow import follow
from conch.consumer.service import ServiceContext
from conch.consumer.spec import ConsumerSpec
from conch.needs import SCORER, VERSION, NeedsState, fold, initial_state, table_of
from conch_schemas import ActionTaken, NeedsChanged, RewardAssigned


def needs_consumer(context: ServiceContext) -> ConsumerSpec:
    """The fold of one agent's needs: one event per act, one per praise. Raises ConfigError for needs that cannot be."""
    born, table = initial_state(context.settings.needs), table_of(context.settings.needs)

    def needs(state: NeedsState, fact: ActionTaken | RewardAssigned) -> tuple[NeedsState, NeedsChanged | None]:
        state, change = fold(state, fact, table)
        if change is None:
            return state, None
        return state, follow(fact, NeedsChanged, consumer=SCORER, version=VERSION, **change._asdict())

    return ConsumerSpec(
        name=SCORER,
        version=VERSION,
        kinds=(ActionTaken, RewardAssigned),
        handle=needs,
        state=NeedsState,
        initial=lambda: born,
        emits=(NeedsChanged,),
    )
