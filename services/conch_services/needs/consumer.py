"""The needs consumer: reads `action.taken`, people's `reward.assigned` and `agent.woke`, publishes `needs.changed`."""

from __future__ import annotations

from typing import NamedTuple

from conch import consumer, follow
from conch.consumer import ServiceContext
from conch.needs import SCORER, VERSION, NeedsState, NeedsTable, fold, initial_state, table_of
from conch_schemas import ActionTaken, AgentWoke, NeedsChanged, RewardAssigned


class _Needs(NamedTuple):
    """The needs of conch.yaml: their initial state and their table."""

    born: NeedsState
    table: NeedsTable


def _needs(context: ServiceContext) -> _Needs:
    """Raises ConfigError for needs that cannot be."""
    needs = context.settings.needs
    return _Needs(initial_state(needs), table_of(needs, context.settings.cycle.interval))


@consumer(
    ActionTaken,
    RewardAssigned,
    AgentWoke,
    name=SCORER,
    version=VERSION,
    state=NeedsState,
    initial=lambda own: own.born,
    emits=[NeedsChanged],
    setup=_needs,
)
def needs(
    state: NeedsState, fact: ActionTaken | RewardAssigned | AgentWoke, own: _Needs
) -> tuple[NeedsState, NeedsChanged | None]:
    """The fold of one agent's needs: one event per act, one per praise, one per sleep."""
    state, change = fold(state, fact, own.table)
    if change is None:
        return state, None
    return state, follow(fact, NeedsChanged, consumer=SCORER, version=VERSION, **change._asdict())
