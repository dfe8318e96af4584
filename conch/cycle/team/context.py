"""What an agent that is a team has beside an agent's own: its settings, its name, its directory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from conch.config import MindSettings, Settings, TeamSettings
from conch.cycle.prompts.budget import UNREAD_KINDS
from conch.teams import ControllerSetup

_NUMBERED = re.compile(r"-\d+$", re.ASCII)


@dataclass(frozen=True)
class TeamContext:
    """The team that an agent is."""

    name: str
    """The agent's name."""
    settings: TeamSettings
    directory: Path
    """The agent's own files: the logs of the controller go there."""
    seed: int = 0

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles, in the order of the chain."""
        return tuple(self.settings.roles)

    @property
    def setup(self) -> ControllerSetup:
        """The constants of the controller."""
        of = self.settings.controller
        return ControllerSetup(of.kind, of.ridge, of.epsilon_start, of.epsilon_end, of.epsilon_decisions, self.seed)


def lead_mind(settings: Settings, team: TeamSettings) -> MindSettings:
    """The mind by which prompts are written for all roles: the first that reads them, of the shared one and the roles'
    own."""
    own = [MindSettings.model_validate(role.mind.model_dump()) for role in team.roles.values() if role.mind]
    shared = [settings.mind] if len(own) < len(team.roles) else []
    return next((one for one in (*shared, *own) if one.deciding.kind not in UNREAD_KINDS), (*shared, *own)[0])


def team_of(settings: Settings, agent: str) -> TeamSettings | None:
    """The team that an agent of this name is: of that name, or of that name without the number that agents of one run
    have. None: it is an agent alone."""
    return settings.team.get(agent) or settings.team.get(_NUMBERED.sub("", agent))


def team_context(settings: Settings, directory: Path) -> TeamContext | None:
    """The team that the agent of these settings is; None: it is an agent alone."""
    team = team_of(settings, settings.agent)
    return None if team is None else TeamContext(settings.agent, team, directory, settings.seed)
