"""Whether a team may switch its topology now: dwell and cooldown, which run together from each commit. Pure."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from conch.folds import evolve
from conch.teams.topology import TOPOLOGIES

DWELL_STEPS: Final = 2
"""Steps that a topology stays at least."""
COOLDOWN_STEPS: Final = 2
"""Steps after a switch in which no other one is taken."""


class SwitchReply(NamedTuple):
    """The reply to a request for a topology."""

    accepted: bool
    """Whether the request is taken: a switch is prepared, or the topology is the active one already."""
    committed: bool
    reason: str
    """`committed`, `prepared`, `same`, or why it is refused: `cooldown`, `dwell`, `unknown`, `busy` (another switch is
    prepared), `aborted` (the active epoch was not delivered in time)."""
    epoch: int
    """The active epoch."""


class CoordinatorState(BaseModel):
    """What dwell and cooldown are counted from."""

    model_config = ConfigDict(frozen=True)

    since_switch: Annotated[int, Field(ge=0)] = 0
    """Steps since the last committed switch, or since the start."""
    switched: bool = False
    """Whether there was a switch: without one there is no cooldown."""


def objection(
    state: CoordinatorState,
    topology: str,
    target: str,
    *,
    is_prepared: bool = False,
    dwell: int = DWELL_STEPS,
    cooldown: int = COOLDOWN_STEPS,
) -> str | None:
    """Why a switch from `topology` to `target` is not begun: `unknown`, `same`, `busy`, `cooldown` or `dwell`, the
    first that applies; None: it may be."""
    if target not in TOPOLOGIES:
        return "unknown"
    if is_prepared:
        return "busy"
    if target == topology:
        return "same"
    if state.switched and state.since_switch < cooldown:
        return "cooldown"
    if state.since_switch < dwell:
        return "dwell"
    return None


def stepped(state: CoordinatorState) -> CoordinatorState:
    """The state after one more step."""
    return evolve(state, since_switch=state.since_switch + 1)


def switched() -> CoordinatorState:
    """The state after a committed switch."""
    return CoordinatorState(switched=True)
