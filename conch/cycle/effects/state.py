"""What the measuring of one act leaves for the next. Pure."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

MOST_CHECKS = 200
"""Most checks and test programs whose last run is remembered: the oldest go first."""


class MeterState(BaseModel):
    """The state of an agent's measuring, kept in its home beside the lines that it knows."""

    model_config = ConfigDict(frozen=True)

    program_acts: tuple[int, ...] = ()
    """Cycles of the last acts in which another program's output brought information."""
    previous_path: str | None = None
    """Path of the last navigation."""
    version: int = 0
    """Number of changes of the workspace that were seen, by this agent or from outside."""
    workspace: int | None = None
    """Digest of the workspace when it was last looked at; None: not known, so that no change is from outside."""
    checks: dict[str, int] = Field(default_factory=dict)
    """The version of the workspace that a check was last run on, by the check's key."""
    low: tuple[str, ...] = ()
    """Resources that are low: tokens, disk."""
    letters: dict[str, int] = Field(default_factory=dict)
    """Letters read, by script."""
    met: bool = False
    """Whether the trigrams of what the workspace held at the first look were learnt."""

    def changed_since(self, check: str) -> bool:
        """Whether the workspace has changed since this check ran, or it never ran."""
        return self.checks.get(check) != self.version

    def ran(self, check: str, version: int) -> MeterState:
        """The state after a check ran on this version of the workspace."""
        others = [(key, at) for key, at in self.checks.items() if key != check]
        return self.model_copy(update={"checks": dict([*others, (check, version)][-MOST_CHECKS:])})

    def changed_outside(self) -> MeterState:
        """The state after a change of the workspace that no act of the agent made."""
        return self.model_copy(update={"version": self.version + 1})
