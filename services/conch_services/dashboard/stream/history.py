"""History that is on the stream and not in the store: an agent's drives and its goals, read within bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from conch.bus import Bus
from conch.views import check_words
from conch_schemas import (
    ContractViolationError,
    Drives,
    Event,
    GoalAccepted,
    GoalDropped,
    GoalReached,
    GoalSet,
    NoveltyMeasured,
    decode,
    subject_filter,
)

BACK: Final = 20_000
"""Stream sequences that are read back for drives, at first."""
NEWEST: Final = 400
"""Acts with remembered drives."""
MOST_AGENTS: Final = 32
"""Agents with remembered drives."""


class StreamHistory:
    """The drives of the agents whose page was opened; later queries read only what is new."""

    def __init__(self) -> None:
        self._epoch = ""
        self._of: dict[str, tuple[int, deque[tuple[int, Drives]]]] = {}
        """Agent -> (how far the stream was read, (cycle, drives), oldest first)."""

    async def drives(self, bus: Bus, agent: str) -> Sequence[tuple[int, Drives]]:
        """(cycle, drives) of the last acts that the stream has, oldest first. Raises BusError."""
        stream = await bus.state()
        if stream.epoch != self._epoch:
            self._epoch = stream.epoch
            self._of.clear()
        read, found = self._of.pop(agent, (0, deque(maxlen=NEWEST)))
        self._of[agent] = (stream.last, found)
        while len(self._of) > MOST_AGENTS:
            del self._of[next(iter(self._of))]
        async for event in _events(bus, [subject_filter(NoveltyMeasured, agent)], max(read, stream.last - BACK)):
            if isinstance(event, NoveltyMeasured) and event.cycle is not None and event.cycle > _last(found):
                found.append((event.cycle, event.drives))
        return list(found)


def _last(found: Sequence[tuple[int, Drives]]) -> int:
    return found[-1][0] if found else -1


@dataclass(frozen=True)
class GoalHistory:
    """A goal and its changes, from when it was set."""

    id: str
    statement: str
    check: str
    """In a few words."""
    priority: float
    by: str
    begun: datetime | None
    state: str = "active"
    """active, proposed (the agent set it itself, and no person accepted it), reached, dropped, vetoed."""
    ended: datetime | None = None
    why: str = ""


async def goals(bus: Bus, agent: str) -> dict[str, GoalHistory]:
    """Every goal that the stream still has an event of, by id, in the order of being set. Raises BusError."""
    found: dict[str, GoalHistory] = {}
    kinds = [subject_filter(kind, agent) for kind in (GoalSet, GoalAccepted, GoalReached, GoalDropped)]
    async for event in _events(bus, kinds, 0):
        match event:
            case GoalSet(goal=goal, by=by, time=time):
                told = (goal.statement, check_words(goal.check, hidden=goal.hidden), goal.priority, by, time)
                found[goal.id] = GoalHistory(goal.id, *told, state="proposed" if by == "agent" else "active")
            case GoalAccepted(goal=name) if name in found and found[name].state == "proposed":
                found[name] = replace(found[name], state="active")
            case GoalReached(goal=name, time=time):
                known = found.get(name) or GoalHistory(name, event.statement, "", 0.0, "", None)
                found[name] = replace(known, state="reached", ended=time)
            case GoalDropped(goal=name, why=why, time=time):
                known = found.get(name) or GoalHistory(name, "", "", 0.0, "", None)
                state = "vetoed" if event.vetoed else "dropped"
                found[name] = replace(known, state=state, ended=time, why=why)
    return found


async def _events(bus: Bus, filters: Sequence[str], after: int) -> AsyncIterator[Event]:
    """The events behind `after`. What is no event is skipped: consumers write dead letters of it."""
    async for delivery in bus.read(filters, after=after):
        try:
            yield decode(delivery.data)
        except ContractViolationError:
            continue
