"""Which cycles are worth a fork, and how much of the hour's budget is left. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Final

from conch_schemas import ExperienceRecorded

MOST_WAITING: Final = 100
"""Cycles that wait for their fork: of more, those that are worth the least are dropped."""
WINDOW: Final = 100
"""Experiences over which an agent's mean runs."""
HOUR: Final = 3600.0


class ForkQueue:
    """Cycles that wait for a fork, by their worth: an invalid reply's is the highest, else the distance of the total
    from the agent's mean, from `advantage` on."""

    def __init__(self, advantage: float) -> None:
        self._advantage = advantage
        self._means: dict[str, tuple[int, float]] = {}
        self._waiting: dict[tuple[str, int], float] = {}

    def hear(self, experience: ExperienceRecorded) -> None:
        """Take an experience; later revisions of one are passed over."""
        if experience.revision > 1 or experience.cycle is None:
            return
        count, mean = self._means.get(experience.agent, (0, experience.total))
        worth = abs(experience.total - mean) if experience.action.valid else math.inf
        count = min(count + 1, WINDOW)
        self._means[experience.agent] = (count, mean + (experience.total - mean) / count)
        if worth >= self._advantage:
            self._waiting[experience.agent, experience.cycle] = worth
        if len(self._waiting) > MOST_WAITING:
            del self._waiting[min(self._waiting, key=self._waiting.__getitem__)]

    def take(self, ready: Callable[[str], bool]) -> tuple[str, int] | None:
        """The (agent, cycle) that is worth the most, of the agents that are `ready`; of equals the newest. None: none
        waits."""
        there = [(worth, cycle, agent) for (agent, cycle), worth in self._waiting.items() if ready(agent)]
        if not there:
            return None
        _, cycle, agent = max(there)
        del self._waiting[agent, cycle]
        return agent, cycle

    def put_back(self, agent: str, cycle: int) -> None:
        """Let a cycle whose fork was ended wait again, before the others."""
        self._waiting[agent, cycle] = math.inf

    def __len__(self) -> int:
        return len(self._waiting)


class HourlyRate:
    """At most so many within 3,600 seconds."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._times: deque[float] = deque()

    def left(self, now: float) -> int:
        """How many more there may be at `now`, in seconds of any clock that does not go back."""
        while self._times and self._times[0] <= now - HOUR:
            self._times.popleft()
        return self._most - len(self._times)

    def took(self, now: float) -> None:
        """Count one."""
        self._times.append(now)
