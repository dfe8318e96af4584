"""Preparation before an agent's first cycle in this process: the checks and facts with which `conch run` begins,
too."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conch.bus import Bus
from conch.cli.run.agents import AgentIdentity, members
from conch.cli.run.history import with_numbers
from conch.cli.run.prepare import claim, reconciled, set_weights, without_strangers
from conch.config import Settings
from conch.consumer.plugins import Discovery, discover, reserved
from conch.errors import ContractError
from conch.experience import store_location
from conch.home import Home
from conch.log import get_logger
from conch.minds import refuse_minds
from conch.processes import messages
from conch.tools import installed_tools
from conch.trusted import refuse_writable, workspace_in
from conch.values import Values, in_force
from conch.workspace import record_made

log = get_logger(__name__)


@dataclass(frozen=True)
class Prepared:
    """The result of the preparation: the agent, plug-ins, values, and the stream's end before and after it."""

    member: AgentIdentity
    found: Discovery
    tools: tuple[str, ...]
    """Entry points of installed packages whose tools the agent has."""
    values: Values
    born: int
    """The end of the stream before anything of this run was published."""
    began: int
    """The end of the stream when the agent could begin."""


@dataclass(frozen=True)
class Order:
    """What an agent is made from in this process; see `conch.cycle.hosting.factory.AgentsOrder`."""

    spec: messages.AgentsSpec
    settings: Settings
    home: Path

    def report(self, report: messages.Report) -> None:
        """Log a change of the agent's state."""
        logged(report)


def logged(report: messages.Report) -> None:
    """Log what the children of `conch run` report to the supervisor."""
    log.info("run.reported", **report.model_dump(mode="json"))


async def prepare(bus: Bus, home: Home, settings: Settings, rules: Sequence[str]) -> Prepared:
    """Check the home against the stream, find the plug-ins and publish the weight set, as `conch run` does."""
    workspace = workspace_in(home, settings)
    if not workspace.exists():
        workspace.mkdir(parents=True)
        record_made(home, workspace)
    refuse_writable(home, settings, None, rules)
    values = await asyncio.to_thread(in_force, settings.values)
    found = await asyncio.to_thread(discover, rules, reserved(settings))
    _refuse_broken(found)
    await asyncio.to_thread(refuse_minds, settings.mind)
    tools = await asyncio.to_thread(installed_tools)
    for origin, why in tools.set_aside:
        log.warning("plugin.set_aside", origin=origin, why=why)
    born = (await bus.state()).last
    crew, failed = await asyncio.to_thread(members, home, [settings.agent])
    crew, left_out = await without_strangers(bus, crew)
    for error in (*failed.values(), *left_out.values()):
        raise error
    await claim(bus, home.agentuid(settings.agent), ["store"], "this bus")
    crew = await reconciled(bus, store_location(settings.store.url, home.path), crew, log.warning)
    crew = await with_numbers(bus, home, crew, log.warning)
    await set_weights(bus, crew, settings, found)
    return Prepared(crew[0], found, tools.points, values, born, (await bus.state()).last)


def _refuse_broken(found: Discovery) -> None:
    """Raises ContractError for a named file that cannot be loaded; a broken package is set aside, as in every run."""
    for broken in found.broken:
        if Path(broken.origin).is_file():
            raise ContractError(f"{broken.origin}: {broken.why}")
        log.warning("plugin.set_aside", origin=broken.origin, why=broken.why)


def agent_spec(found: Prepared, home: Home, settings: Settings, cycles: int | None) -> messages.AgentsSpec:
    """The spec of an `Order` of one agent, as `conch run` writes it."""
    member = found.member
    agent = messages.AgentStart(
        name=member.name,
        agentuid=member.agentuid,
        beyond=member.beyond,
        born=found.born if member.fresh else None,
    )
    return messages.AgentsSpec(
        cycles=cycles,
        agents=(agent,),
        resting={},
        workspace=workspace_in(home, settings),
        alone=True,
        values=found.values,
        tools=found.tools,
    )
