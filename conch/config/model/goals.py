"""Settings of the goals that an agent sets itself."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from conch.config.model.section import SettingsSection


class OwnGoalSettings(SettingsSection):
    """How many goals an agent may set itself."""

    open: Annotated[int, Field(ge=0, le=50)] = 3
    """Goals of its own that are active at once, at most; 0: it sets none, and has no tool `goal`."""
    per_day: Annotated[int, Field(ge=1, le=100)] = 5
    """Goals that it sets itself within 24 hours, at most."""
