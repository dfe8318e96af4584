"""The minds of a team's roles, asked as one: the role that has the turn says which."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from conch.bus import Bus
from conch.config import MindSettings, RoleSettings, Settings, TeamSettings
from conch.cycle.team.workers import WorkerMind
from conch.minds import Completion, Mind, MindFactory, MindWrapper, Prompt
from conch.teams import TeamState


class RoleMinds(MindWrapper):
    """Asks the mind of the role that has the turn: its own one, or the one that the others share. Its kind and model
    are those of the mind that was asked last."""

    def __init__(self, shared: Mind, own: Mapping[str, Mind]) -> None:
        """`own`: by role."""
        super().__init__(shared)
        self._shared, self._own = shared, own

    async def complete(self, prompt: Prompt) -> Completion:
        """The mind's reply. Raises what it raises."""
        turn = prompt.situation.turn
        self.mind = self._shared if turn is None else self._own.get(turn.role, self._shared)
        return await self.mind.complete(prompt)

    @property
    def learns(self) -> bool:
        """Whether the shared mind learns: a role's own does not."""
        return self._shared.learns

    async def close(self) -> None:
        """Close all of them. A second call does nothing."""
        for mind in (self._shared, *self._own.values()):
            await mind.close()


def own_mind(role: RoleSettings, shared: MindSettings) -> MindSettings:
    """The settings of a role's mind: its own, or the shared one's."""
    return shared if role.mind is None else MindSettings.model_validate(role.mind.model_dump())


def with_role_minds(
    shared: Mind,
    settings: Settings,
    team: TeamSettings,
    directory: Path,
    state: TeamState | None,
    bus: Bus,
    made: list[MindFactory],
) -> Mind:
    """The shared mind, or with it those that roles have of their own, or workers on the bus. `settings`: of the agent
    that is the team; `state`: the team as of now, which says how much of a role's script is used up. The factories are
    added to `made`; the caller closes them."""
    own: dict[str, Mind] = {}
    seed = settings.seed
    for name, role in team.roles.items():
        if role.worker:
            mind = own_mind(role, settings.mind)
            own[name] = WorkerMind(bus, settings.agent, name, mind, team.turn_seconds)
        elif role.mind is not None:
            factory = MindFactory(own_mind(role, settings.mind))
            made.append(factory)
            did = None if state is None else state.by_role.get(name)
            own[name] = factory.make(seed=seed, memory=directory / name, decided=0 if did is None else did.turns)
    return RoleMinds(shared, own) if own else shared
