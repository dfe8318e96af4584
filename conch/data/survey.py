"""What has to be known of all acts before the first row: sums of each state, and which states are in eval. Pure."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from conch.data.row import Split
from conch.experience import ExampleMark

SHRUNK: Final = 2.0
"""Acts that the agent's mean counts for in the mean of a state. With one other act in a state, a third of the baseline
is that act's; with 18, nine tenths."""


@dataclass(slots=True)
class _Sums:
    first: float
    """Time of the first act, seconds since the epoch."""
    count: int = 0
    total: float = 0.0


@dataclass
class Survey:
    """Sums over the acts of a store. Two surveys of the same acts are equal, whatever their order."""

    states: dict[str, _Sums] = field(default_factory=dict)
    agents: dict[str, _Sums] = field(default_factory=dict)
    newest: float = float("inf")
    """A state that was first met from this moment on is in eval."""
    eval_share: float = 0.0
    last: int = 0
    """Greatest `seq` of the acts."""
    _splits: dict[str, Split] = field(default_factory=dict, compare=False)

    def split(self, state_key: str) -> Split:
        """The split of a state, with all its rows: by a hash of the key, and by the time of its first act."""
        if (split := self._splits.get(state_key)) is None:
            digest = hashlib.sha256(state_key.encode()).digest()
            by_key = int.from_bytes(digest[:8]) < self.eval_share * 2**64
            known = self.states.get(state_key)
            split = "eval" if by_key or (known is not None and known.first >= self.newest) else "train"
            self._splits[state_key] = split
        return split

    def advantage(self, agent: str, state_key: str, total: float) -> float | None:
        """The total of an act less the mean of the other acts of its state, shrunk to the mean of the agent's other
        acts; None where the agent has no other act, and for a state that was recorded after the survey. Else the act
        itself is one of those surveyed."""
        own, state = self.agents.get(agent), self.states.get(state_key)
        if own is None or state is None or own.count < 2:
            return None
        others = (own.total - total) / (own.count - 1)
        alike = state.count - 1
        return total - (state.total - total + SHRUNK * others) / (alike + SHRUNK)


def survey_of(marks: Iterable[ExampleMark], eval_share: float) -> Survey:
    """The survey of these acts. `eval_share`: as `Selection.eval_share`. Memory: 8 bytes an act, and each state."""
    survey, times = Survey(eval_share=eval_share), array("d")
    for mark in marks:
        times.append(mark.acted)
        survey.last = max(survey.last, mark.seq)
        for sums, key in ((survey.states, mark.state_key), (survey.agents, mark.agent)):
            found = sums.get(key)
            if found is None:
                found = sums[key] = _Sums(mark.acted)
            found.first = min(found.first, mark.acted)
            found.count += 1
            found.total += mark.total
    survey.newest = _newest(times, eval_share)
    return survey


@dataclass
class FirstMet:
    """When each state was first met, and when each act was: what the splits follow from. Of the same acts it is the
    same, whatever their order, and however they are parted. Memory: 8 bytes an act, and each state."""

    states: dict[str, float] = field(default_factory=dict)
    """Seconds since the epoch."""
    times: array[float] = field(default_factory=lambda: array("d"))

    def note(self, state_key: str, acted: float) -> None:
        """Take in an act."""
        self.times.append(acted)
        first = self.states.get(state_key)
        if first is None or acted < first:
            self.states[state_key] = acted

    def add(self, other: FirstMet) -> None:
        """Take in the acts of another one."""
        self.times.extend(other.times)
        for state, first in other.states.items():
            self.states[state] = min(first, self.states.get(state, first))

    def survey(self, eval_share: float) -> Survey:
        """The survey of these acts, without their sums."""
        states = {state: _Sums(first) for state, first in self.states.items()}
        return Survey(states=states, newest=_newest(self.times, eval_share), eval_share=eval_share)


def _newest(times: array[float], eval_share: float) -> float:
    newest = int(len(times) * eval_share)
    return sorted(times)[-newest] if newest else float("inf")
