"""The dependencies of one agent: bus, mind, tools, notes, settings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from conch.bus import Bus, SharedSubscription
from conch.config import NO_SECRETS, Masker, Settings
from conch.cycle.effects.meter import EffectMeter
from conch.cycle.hosting.questions import OpenQuestion
from conch.cycle.state.count import CycleCount
from conch.cycle.state.remembered import MemoryKeeper
from conch.minds import Mind
from conch.snapshots import SnapshotKeeper
from conch.tools import Notes, Sandbox, Toolbox, ToolContext
from conch.values import Values
from conch.workspace import MaterialScript
from conch_schemas import Goal

if TYPE_CHECKING:
    from conch.cycle.acting.proven import ProvenAdapters
    from conch.cycle.team.context import TeamContext
    from conch.engine import TokenCounter
    from conch.minds import FrozenShelf, ReflexMind


@dataclass(frozen=True)
class AgentContext:
    """The dependencies of one agent: subscription, mind, tools, notes, workspace, settings, values.

    The caller that makes it closes what it opened.
    """

    shared_events: SharedSubscription
    mind: Mind
    toolbox: Toolbox
    sandbox: Sandbox
    notes: Notes
    workspace: Path
    settings: Settings
    values: Values
    agentuid: str
    tool_slots: asyncio.Semaphore
    """Held while tools and checks run: bounds how many agents of a process act concurrently."""
    reading_slots: asyncio.Semaphore
    """Held in its place while a tool runs that only reads, inside this process: there are more of these."""
    count: CycleCount | None = None
    """The counter of its cycles, where it has a home."""
    meter: EffectMeter | None = None
    """Measures what its acts bring about, where it has a home."""
    snapshots: SnapshotKeeper | None = None
    """Keeps its decisions, each with the workspace as it was, where that is done."""
    long_memory: MemoryKeeper | None = None
    """What it remembers beyond its last acts, where that is kept."""
    tokens: TokenCounter | None = None
    """Counts a prompt's tokens as its model does, where the model's endpoint can."""
    adapters: ProvenAdapters | None = None
    """The adapters of the engine of the mind that decides; None: that serves none."""
    frozen: tuple[ReflexMind, FrozenShelf] | None = None
    """Its reflex mind whose parameters are frozen now and then, and where; None: that is not done."""
    team: TeamContext | None = None
    """The team that it is; None: it is an agent alone."""
    script: Callable[[], MaterialScript | None] | None = None
    """Finds what its workspace is brought, once that is filled: None for nothing. Raises HomeError."""

    outputs: Path | None = None
    """Where outputs of its commands are kept that are too long for a result; None: nowhere."""
    masker: Masker = NO_SECRETS
    """Masks the secrets of the settings and the environment."""
    asks: Callable[[OpenQuestion | None], None] = lambda _: None
    """Called when its mind is asked, and with None when it has replied or failed."""

    @property
    def bus(self) -> Bus:
        """The bus of the shared subscription."""
        return self.shared_events.bus

    def context(
        self,
        message: tuple[str, str] | None,
        goal_objection: Callable[[Goal], str | None] = lambda _: None,
        message_objection: Callable[[Sequence[str], str], str | None] | None = None,
    ) -> ToolContext:
        """The context for its tools; `message`: id and text of the message that waits for an answer; `goal_objection`:
        why it may not set a goal itself; `message_objection`: why a role may not send a message."""
        return ToolContext(
            self.workspace,
            self.sandbox,
            self.notes,
            self.settings.tools,
            message,
            goal_objection,
            message_objection,
            self.outputs,
        )
