"""Facts of people: sent to the running agent, else published for its next run; and reading the stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from conch.cli.common import CommonOptions, open_bus
from conch.config import Masker, Settings
from conch.errors import BusError, BusUnreachableError, UsageError
from conch.home import Home
from conch.requests import ask_all, handed_over
from conch.tasks import OwnedTasks
from conch_schemas import Event

if TYPE_CHECKING:
    from conch.bus import Bus, Delivery

E = TypeVar("E", bound=Event)

POLL_SECONDS = 0.5
"""Seconds between two checks whether a run that is followed is still in progress."""

SHOWN = 5
"""Names of agents that a sentence shows."""


async def hand_over(
    common: CommonOptions,
    agent: str | None,
    verb: str,
    body: Mapping[str, object],
    otherwise: Callable[[Bus, Home, str], Awaitable[Event]] | None = None,
) -> dict[str, object]:
    """A request to the agent; its reply. Where it does not run, the fact of `otherwise` is published: `{}` then.

    Without `otherwise` it is for all agents of the run where none is named; raises BusUnreachableError when there is
    no run to ask.
    """
    home, settings = common.existing(), common.settings()
    running = home.running()
    every = otherwise is None and agent is None
    names = names_in(home, settings)
    if every and running is not None and not running.has_agent and len(names) > 1:
        raise several(names)  # each is a program of its own
    name = names[0] if every else agent_named(home, settings, agent)
    reachable = running is not None or settings.bus.url is not None
    if not reachable and otherwise is None:
        raise BusUnreachableError(f"no run is in progress in {home.path}: conch run starts one, --home names another")
    async with open_bus(home, settings) as bus:
        if every:
            try:
                return await ask_all(bus, names, verb, body)
            except BusError as error:
                raise BusUnreachableError(f"the agent {name} does not answer ({error}): see conch status") from None
        fact = None if otherwise is None else partial(otherwise, bus, home, name)
        return await handed_over(bus, home, name, verb, body, fact, reachable=reachable, masker=Masker.of(settings))


def names_in(home: Home, settings: Settings) -> list[str]:
    """The agents of the run in progress, else the one of the settings."""
    running = home.running()
    return list(running.agents) if running is not None and running.agents else [settings.agent]


def agent_named(home: Home, settings: Settings, named: str | None) -> str:
    """The agent that is meant: named, else the only one that runs, else that of the settings.

    Raises UsageError for one that the home does not know, or where several run and none is named.
    """
    usual = names_in(home, settings)
    if named is None and len(usual) > 1:
        raise several(usual)
    if named is not None and named not in usual and not (home.agent_dir(named) / "agentuid").exists():
        raise UsageError(f"there is no agent {named!r} in {home.path} (--agent)")
    return named or usual[0]


def several(names: Sequence[str]) -> UsageError:
    """The error where a command is about one agent and none is named."""
    shown = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
    return UsageError(f"there are {len(names)} agents ({shown}): name one with --agent")


async def following(
    bus: Bus, filters: Sequence[str], *, after: int, home: Home | None
) -> AsyncGenerator[Sequence[Delivery], None]:
    """Events as they come, those behind `after` first; until the home's run ends, without a home endlessly."""
    async with bus.follow(filters, after=after) as reader, OwnedTasks() as tasks:
        getting = tasks.start(reader.get(), name="conch.follow")
        while home is None or home.running() is not None or getting.done():
            await asyncio.wait({getting}, timeout=POLL_SECONDS)
            if getting.done():
                yield getting.result()
                getting = tasks.start(reader.get(), name="conch.follow")
