"""The views of weight sets, for `conch reward weights --json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from conch.views.base import View
from conch_schemas import Part


class WeightSetRow(View):
    """A weight set and the agents for which it is in force."""

    agents: tuple[str, ...]
    in_force: bool
    """False: it is the one of the first run."""
    version: str
    since: str | None
    """None: it is not in force yet."""
    why: str
    parts: tuple[Part, ...]


class Weights(View):
    """The weight sets in force, as `conch reward weights --json` prints them."""

    schema_: Literal["conch.v1.weights"] = Field(default="conch.v1.weights", alias="schema")
    sets: tuple[WeightSetRow, ...]


class WeightsChanged(View):
    """The result of `conch reward weights --set --json` or `conch reward weights --reset --json`."""

    schema_: Literal["conch.v1.weights_set"] = Field(default="conch.v1.weights_set", alias="schema")
    version: str
    why: str
    agents: tuple[str, ...]
    """For which it is in force now."""
    file: str | None
    """The file that was changed; None: no file was, and the next start uses the settings."""
    parts: tuple[Part, ...]
