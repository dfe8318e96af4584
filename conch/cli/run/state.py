"""What a run knows of itself: its settings, its agents, its processes, and what those have reported."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from conch.bus import Access, MqttListener
from conch.cli.common import CommonOptions
from conch.cli.run.agents import workspace_of
from conch.config import Settings
from conch.consumer.plugins import ConsumerInfo, Discovery, wanted_builtin
from conch.engine import EngineAddress
from conch.errors import ConchError
from conch.home import Home
from conch.processes import ChildProcess, ChildRecord, messages
from conch.rules import RuleInfo
from conch.tools import InstalledTools
from conch.trusted import workspace_in
from conch.values import Values


@dataclass
class RunState:
    """One run of one home, as of now. The run changes it; the specs of the children and run.json are made from it."""

    home: Home
    settings: Settings
    agents: list[str]
    """Their names; those that cannot act in this run have been told of and taken out."""
    cycles: int | None
    skipped: frozenset[str]
    """Consumers and rules that this run is to leave out."""
    reloads: bool
    alone: bool
    """Whether the run was asked for one agent."""
    processes: int = 1
    """Agent processes; at most as many as agents. 0: programs act, by `conch.agent`."""
    has_consumers: bool = True
    """Whether consumers and the dashboard run here, too; not in a worker, whose agents others score."""
    common: CommonOptions = field(default_factory=CommonOptions)
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    watched: list[ChildRecord] = field(default_factory=list)
    """Records of all processes, the embedded server's first."""
    children: list[ChildProcess] = field(default_factory=list)
    looked: Mapping[str, Discovery] = field(default_factory=dict)
    """What each file and package brings."""
    found: Discovery = field(default_factory=Discovery)
    """What all of them bring together."""
    tools: InstalledTools = field(default_factory=InstalledTools)
    """Tools of installed packages, which the agents have."""
    values: Values = field(default_factory=Values)
    """Read once, before the first process: an agent that is started again goes by the same."""
    access: Access = field(default_factory=lambda: Access(""))
    embedded: bool = True
    """Whether the bus is the run's own server."""
    listener: MqttListener | None = None
    since: int | None = None
    """Where the stream ended when this run began, until the consumers have been told."""
    begun: dict[str, messages.AgentBegun] = field(default_factory=dict)
    """Of each agent, where it stood at its first start."""
    at_rest: dict[str, ConchError | None] = field(default_factory=dict)
    """By the name of an agent process in which no agent goes on: None where all have ended, else the error for which
    the last one was set aside."""
    rested: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when `at_rest` has changed."""
    failed: dict[str, ConchError] = field(default_factory=dict)
    """What agents failed of that did not go on."""
    metrics: str | None = None
    """Where the metrics are served."""
    page: str | None = None
    """Where the dashboard is."""
    engine: EngineAddress = field(default_factory=EngineAddress)
    """Where the engine of the mind `local` is."""
    model: Path | None = None
    """The model that the engine serves; None: the mind is of another kind."""

    @property
    def has_agent(self) -> bool:
        """Whether agents of Conch's own act in this run; else programs do."""
        return self.processes > 0

    @property
    def workspace(self) -> Path:
        """The folder in which the agents work."""
        return workspace_in(self.home, self.settings)

    @property
    def workspaces(self) -> list[Path]:
        """The folder of each agent."""
        return [workspace_of(self.workspace, name, alone=self.alone) for name in self.agents]

    def wanted_builtin(self) -> list[str]:
        """Names of the consumers that come with Conch and run here."""
        return wanted_builtin(self.settings, self.skipped) if self.has_consumers else []

    def wanted_rules(self) -> list[RuleInfo]:
        """The rules that score here."""
        rules = self.found.rules if self.has_consumers else ()
        return [rule for rule in rules if not {rule.name, rule.consumer} & self.skipped]

    def wanted_plugins(self) -> list[ConsumerInfo]:
        """The plug-in consumers that run here, each in a process of its own."""
        plugins = self.found.consumers if self.has_consumers else ()
        return [plugin for plugin in plugins if plugin.name not in self.skipped]
