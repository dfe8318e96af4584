"""Whether an agent's marks hold, as `conch mark verify --json` and the pages say it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    from conch.experience import Removal
    from conch.witness import ChainStart, MarkProblem

_WITNESSED: tuple[type[Event], ...] = (ActionTaken, RewardAssigned, NeedsChanged, NoveltyMeasured)


def chain_start(removals: Iterable[Removal]) -> ChainStart | None:
    """Where the chain goes on behind the marks that were removed; None where none was."""
    from conch.witness import ChainStart

    ends = [
        (one.last_mark, one.first_mark, one.hash)
        for one in removals
        if one.first_mark is not None and one.last_mark is not None and one.hash is not None
    ]
    if not ends:
        return None
    last, _, digest = max(ends)
    return ChainStart(min(first for _, first, _ in ends), last + 1, digest)


def removed_marks_words(removals: Sequence[Removal]) -> str:
    """Which marks were removed, and where the chain goes on; empty where none was."""
    start = chain_start(removals)
    if start is None:
        return ""
    days = sorted(f"{one.time:%Y-%m-%d}" for one in removals if one.marks)
    when = f"on {days[0]}" if days[0] == days[-1] else f"from {days[0]} to {days[-1]}"
    last = start.sequence - 1
    which = f"mark {last} was" if start.first == last else f"marks {start.first} to {last} were"
    return f"{which} removed by store.keep {when}, the chain goes on from hash {start.previous[:12]}…"


def verification(
    agent: str,
    problems: Sequence[MarkProblem],
    *,
    acts: int,
    marks: int,
    waiting: int,
    removals: Sequence[Removal] = (),
) -> dict[str, Any]:
    """What was found wrong with the marks of so many acts, `waiting` of which have a mark yet to come."""
    figures = {"agent": agent, "ok": not problems, "acts": acts, "marks": marks, "waiting": waiting}
    start = chain_start(removals)
    figures["removed"] = (
        {"first": start.first, "last": start.sequence - 1, "marks": sum(one.marks for one in removals)}
        | {"hash": start.previous, "removals": [_removal(one) for one in removals if one.marks]}
        if start is not None
        else None
    )
    return {"schema": "conch.v1.verification"} | figures | {"problems": [asdict(problem) for problem in problems]}


def _removal(one: Removal) -> dict[str, Any]:
    return {"why": one.why, "first": one.first_mark, "last": one.last_mark, "time": one.time.isoformat()}


async def unmarked_yet(bus: Bus, agent: str, position: int, epoch: str | None) -> set[str]:
    """Actions with a mark that is not in the store *yet*: the witness has not read the fact, or the store not the mark.

    `position`, `epoch`: of the store, as they were before its acts were read. Raises BusError.
    """
    from conch.consumer.group.lag import standings
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
