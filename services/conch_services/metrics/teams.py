"""The metrics of teams: turns, tokens and totals by role and topology, passed turns and messages by role, switches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conch_schemas import (
    ActionTaken,
    Event,
    ExperienceRecorded,
    TeamMessage,
    TeamPassed,
    TeamSwitchAborted,
    TeamSwitched,
    TeamTurn,
)
from conch_services.metrics.instruments import Instruments
from conch_services.metrics.labels import BoundedLabels

MOST_ROLES: Final = 20
"""Roles with a label of their own, of all teams together."""


class TeamFigures:
    """Counts the events of teams; of an agent that is none there are no series."""

    def __init__(self, instruments: Instruments, label: Callable[[str], str]) -> None:
        """`label`: the label of an agent."""
        self._to, self._label, self._roles = instruments, label, BoundedLabels(MOST_ROLES)

    def count(self, event: Event) -> None:
        """Take one fact."""
        match event:
            case ActionTaken(team=turn) if turn is not None:
                labels = self._labels(event.agent, turn)
                self._to.team_turns(*labels).inc()
                self._to.team_tokens(*labels).inc(event.usage.output_tokens)
            case ExperienceRecorded() if event.team is not None and event.revision == 1:
                to = self._to.team_gained if event.total >= 0 else self._to.team_lost
                to(*self._labels(event.agent, event.team)).inc(abs(event.total))
            case TeamMessage():
                self._to.team_messages(self._label(event.agent), self._roles(event.sender)).inc()
            case TeamPassed():
                self._to.team_passed(self._label(event.agent), self._roles(event.role)).inc()
            case TeamSwitched():
                self._to.team_switches(self._label(event.agent), "committed").inc()
            case TeamSwitchAborted():
                self._to.team_switches(self._label(event.agent), "aborted").inc()
            case _:
                pass

    def _labels(self, agent: str, turn: TeamTurn) -> tuple[str, str, str]:
        return self._label(agent), self._roles(turn.role), turn.topology
