"""Which teams there are, and each as of now: from the stream, a later look reads what is new."""

from __future__ import annotations

from typing import Final

from conch.bus import Bus
from conch.errors import BusUnreachableError
from conch.requests import team_state
from conch.teams import TEAM_KINDS, TeamState, followed
from conch.views import TeamHistory, TeamView, team_row, team_view
from conch_schemas import ActionTaken, ContractViolationError, Event, TaskProgressed, TeamFormed, decode, subject_filter
from conch_services.dashboard.world import DashboardContext

MOST_READ: Final = 200_000
"""The last facts of the stream from which a team's figures are made: some 10,000 steps."""
_FOLDED: Final[tuple[type[Event], ...]] = (*TEAM_KINDS, ActionTaken, TaskProgressed)
MOST_WATCHED: Final = 16
"""Teams that are kept as they were last looked at."""


def _bus_of(world: DashboardContext) -> Bus:
    """Raises BusUnreachableError while there is none."""
    try:
        return world.bus
    except BusUnreachableError:
        raise BusUnreachableError(
            "what a team does is read from the bus, which is away: conch team run NAME starts a team"
        ) from None


class WatchedTeam:
    """One team as of the last look."""

    def __init__(self, name: str) -> None:
        self._name, self._history = name, TeamHistory(name, MOST_READ)
        self._state: TeamState | None = None
        self._epoch, self._read = "", 0

    async def look(self, world: DashboardContext) -> TeamView | None:
        """The team as of now; None for an agent that is none. One look at a time. Raises BusError."""
        bus = _bus_of(world)
        stream = await bus.state()
        if self._state is None or stream.epoch != self._epoch:
            self._epoch, self._read = stream.epoch, stream.last
            self._state = await team_state(bus, world.home, self._name)
        await self._follow(bus)
        row = team_row(world.settings, self._name, self._state)
        return None if row is None else team_view(row, self._state, await self._history.look(bus))

    async def _follow(self, bus: Bus) -> None:
        async for delivery in bus.read([subject_filter(kind, self._name) for kind in _FOLDED], after=self._read):
            self._read = max(self._read, delivery.seq)
            try:
                event = decode(delivery.data)
            except ContractViolationError:  # a consumer's dead letter says so
                continue
            if self._state is not None:
                self._state = followed(self._state, event)


class TeamsNow:
    """All teams of a home."""

    def __init__(self) -> None:
        self._epoch, self._read = "", 0
        self._formed: set[str] = set()
        self._watched: dict[str, WatchedTeam] = {}

    async def names(self, world: DashboardContext) -> tuple[str, ...]:
        """The teams that have begun, else those of the settings; sorted. One look at a time. Raises BusError."""
        bus = _bus_of(world)
        stream = await bus.state()
        if stream.epoch != self._epoch:
            self._epoch, self._read = stream.epoch, 0
            self._formed.clear()
        async for delivery in bus.read([subject_filter(TeamFormed)], after=self._read):
            self._formed.add(delivery.subject.split(".")[2])
        self._read = stream.last
        return tuple(sorted(self._formed or world.settings.team))

    async def look(self, world: DashboardContext, name: str) -> TeamView | None:
        """One team as of now; None for an agent that is none. One look at a time for each. Raises BusError."""
        team = self._watched.pop(name, None) or WatchedTeam(name)
        self._watched[name] = team
        while len(self._watched) > MOST_WATCHED:
            del self._watched[next(iter(self._watched))]
        return await team.look(world)
