"""Whether an agent's marks hold, as `conch mark verify --json` and the pages say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from conch.bus import Bus
from conch_schemas import (
    ActionTaken,
    ContractViolationError,
    Event,
    MarkWitnessed,
    NeedsChanged,
    NoveltyMeasured,
    RewardAssigned,
    decode,
    subject_filter,
)

if TYPE_CHECKING:
    from conch.witness import Problem

_WITNESSED: tuple[type[Event], ...] = (ActionTaken, RewardAssigned, NeedsChanged, NoveltyMeasured)


def verification(agent: str, problems: Sequence[Problem], *, acts: int, marks: int, waiting: int) -> dict[str, Any]:
    """What was found wrong with the marks of so many acts, `waiting` of which have a mark yet to come."""
    figures = {"agent": agent, "ok": not problems, "acts": acts, "marks": marks, "waiting": waiting}
    return {"schema": "conch.v1.verification"} | figures | {"problems": [asdict(problem) for problem in problems]}


async def unmarked_yet(bus: Bus, agent: str, position: int, epoch: str | None) -> set[str]:
    """Actions with a mark that is not in the store *yet*: the witness has not read the fact, or the store not the mark.

    `position`, `epoch`: of the store, as they were before its acts were read. Raises BusError.
    """
    from conch.consumer.standing import standings
    from conch.witness import CONSUMER

    # The witness first: a mark that it publishes meanwhile is on the stream when that is read.
    read = next((one.seq for one in await standings(bus) if one.name == CONSUMER), 0)
    stored = position if epoch == (await bus.state()).epoch else 0
    unread = await _actions(bus, [subject_filter(kind, agent) for kind in _WITNESSED], read)
    return unread | await _actions(bus, [subject_filter(MarkWitnessed, agent)], stored)


async def _actions(bus: Bus, filters: Sequence[str], after: int) -> set[str]:
    """That the facts behind `after` are about; what is no event is passed over: its readers make dead letters of it."""
    found: set[str | None] = set()
    async for delivery in bus.read(filters, after=after):
        try:
            event = decode(delivery.data)
        except ContractViolationError:
            continue
        found.add(event.mark.action_id if isinstance(event, MarkWitnessed) else event.action_id)
    return {action for action in found if action is not None}
