"""Weight sets, as `conch reward weights --json` shows them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from conch.views.base import View
from conch_schemas import Part


class WeightSetRow(View):
    """A weight set and the agents that it is in force for."""

    agents: tuple[str, ...]
    in_force: bool
    """False: it is the one of the first run."""
    version: str
    since: str | None
    """None: it is not in force yet."""
    why: str
    parts: tuple[Part, ...]


class Weights(View):
    """`conch reward weights --json`."""

    schema_: Literal["conch.v1.weights"] = Field(default="conch.v1.weights", alias="schema")
    sets: tuple[WeightSetRow, ...]


class WeightsChanged(View):
    """`conch reward weights --set --json`, `conch reward weights --reset --json`."""

    schema_: Literal["conch.v1.weights_set"] = Field(default="conch.v1.weights_set", alias="schema")
    version: str
    why: str
    agents: tuple[str, ...]
    """For which it is in force now."""
    file: str | None
    """The file that was changed; None: no file was, and the next start goes by the settings."""
    parts: tuple[Part, ...]
