"""Settings of the agent's memory."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from conch.config.model.section import SettingsSection


class MemorySettings(SettingsSection):
    """What the agent remembers beyond its last acts."""

    keep: Literal["auto", "always", "never"] = "auto"
    """auto: kept where the mind reads prompts, and in a run with at most 100 agents for all of them."""
    recalled: Annotated[int, Field(ge=0, le=50)] = 6
    """Memories in a prompt at most; 0: none. They take at most 12 % of the prompt's tokens before other sections."""
    most: Annotated[int, Field(ge=100, le=10_000_000)] = 50_000
    """Memories kept for an agent; beyond, the least important and oldest are dropped."""
    mib: Annotated[float, Field(ge=1)] = 64.0
    """MiB of their texts; the file takes about three times that."""
    embeddings: Literal["auto", "off"] = "auto"
    """auto: memories are found by their sense too, where the extra memory is installed; off: by their words alone."""
    consolidate_every: Annotated[int, Field(ge=0)] = 100
    """Cycles from one consolidation to the next, with the reflection; 0: never."""
