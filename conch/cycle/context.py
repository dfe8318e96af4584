"""What an agent acts with."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from conch.bus import Bus, SharedSubscription
from conch.config import Settings
from conch.cycle.state.count import CycleCount
from conch.minds import Mind
from conch.tools import Notes, Sandbox, Toolbox, ToolContext
from conch.values import Values


@dataclass(frozen=True)
class AgentContext:
    """One agent's means. Whoever makes it closes what it opened."""

    shared_events: SharedSubscription
    mind: Mind
    toolbox: Toolbox
    sandbox: Sandbox
    notes: Notes
    workspace: Path
    settings: Settings
    values: Values
    agentuid: str
    publish_watch: asyncio.Semaphore
    """Held while tools and checks run: so many agents of a process at once."""
    count: CycleCount | None = None
    """Of its cycles, where there is a home to keep it in."""

    @property
    def bus(self) -> Bus:
        """What the feed reads."""
        return self.shared_events.bus

    def context(self, message: tuple[str, str] | None) -> ToolContext:
        """What its tools work with; `message`: id and text of the one that waits for an answer."""
        return ToolContext(self.workspace, self.sandbox, self.notes, self.settings.tools, message)
