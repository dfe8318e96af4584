"""A range as the cycles that it has in a store."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from starlette.requests import Request

from conch.experience import ExperiencePoint, ExperienceReader
from conch_services.dashboard.ranges.wanted import WantedRange, wanted_range
from conch_services.dashboard.world import DashboardContext

HOUR: Final = timedelta(hours=1)
MOST_POINTS: Final = 2000
"""Experiences of a range that figures and charts are made of: 32 ms of processor time to read."""
STRETCHES: Final = 40
"""Pieces of a longer range that these are taken from."""


class CycleWindow(NamedTuple):
    """Neighbouring cycles of an agent."""

    first: int
    last: int
    """Within it, as `first` is; below `first`: there is no such cycle."""

    @property
    def cycles(self) -> int:
        """How many numbers there are, acted or not."""
        return max(0, self.last + 1 - self.first)

    def has(self, cycle: int) -> bool:
        """Whether it holds the cycle."""
        return self.first <= cycle <= self.last


def window_of(reader: ExperienceReader, agent: str, wanted: WantedRange) -> CycleWindow:
    """The cycles of the range, up to the agent's newest recorded one.

    The last hour is that before its newest act, so that an ended run has one, too. About 25 short queries at most.
    """
    newest = reader.charts.points(agent, 1)
    if not newest:
        return CycleWindow(0, -1)
    last = newest[0].cycle
    match wanted.kind:
        case "hour":
            return CycleWindow(cycle_since(reader, agent, newest[0].acted_at - HOUR, last), last)
        case "last":
            return CycleWindow(max(0, last + 1 - wanted.first), last)
        case "cycles":
            return CycleWindow(wanted.first, min(wanted.last, last))
        case _:
            return CycleWindow(0, last)


async def range_asked(request: Request, agent: str) -> CycleWindow | None:
    """The range that the address of a request names, as cycles; None: it names none, or the whole life. Raises
    StoreError."""
    world: DashboardContext = request.app.state.world
    wanted, _ = wanted_range(request.query_params)
    if wanted.kind in ("usual", "life"):
        return None
    return await world.read(lambda reader: window_of(reader, agent, wanted))


def cycle_since(reader: ExperienceReader, agent: str, time: datetime, last: int) -> int:
    """The first cycle up to `last` that acted at this time or later; `last` + 1: none did. By halves."""
    low, high = 0, last + 1
    while low < high:
        middle = (low + high) // 2
        (acted,) = reader.charts.acted_at(agent, [middle])
        if acted is not None and acted < time:
            low = middle + 1
        else:
            high = middle
    return low


def points_in(reader: ExperienceReader, agent: str, window: CycleWindow, most: int) -> list[ExperiencePoint]:
    """The newest `most` experiences of the window, oldest first."""
    if not window.cycles:
        return []
    found = reader.charts.points(agent, min(most, window.cycles), before=window.last + 1)
    return [one for one in found if one.cycle >= window.first]


def sampled_in(
    reader: ExperienceReader, agent: str, window: CycleWindow, most: int = MOST_POINTS
) -> list[ExperiencePoint]:
    """The experiences of the window, oldest first; of a longer window about `most` of them, in stretches of neighbours
    that are spread evenly over it, the newest among them."""
    if window.cycles <= most:
        return points_in(reader, agent, window, most)
    ends = [window.first + (at + 1) * window.cycles // STRETCHES for at in range(STRETCHES)]
    found: list[ExperiencePoint] = []
    for begin, end in zip([window.first, *ends], ends, strict=False):
        found += [one for one in reader.charts.points(agent, most // STRETCHES, before=end) if one.cycle >= begin]
    return found


def taken_words(window: CycleWindow, count: int) -> str:
    """What the figures of a range are of, in words."""
    if not window.cycles:
        return "no cycle in this range"
    of = f"cycles {window.first:,} to {window.last:,}"
    return f"{count:,} cycles, taken evenly from {of}" if window.cycles > MOST_POINTS else of
