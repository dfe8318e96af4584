"""Facts of people: handed to the agent that runs, else put on the stream for when it does; and reading the stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid5

from conch.cli.common import Common, ask, open_bus
from conch.config import Settings
from conch.errors import BusError, BusUnreachableError, UsageError
from conch.home import Home
from conch_schemas import ContractViolationError, Event, control_subject, decode, encode, source_of, subject_of

if TYPE_CHECKING:
    from conch.bus import Bus

E = TypeVar("E", bound=Event)


async def hand_over(
    common: Common,
    agent: str | None,
    verb: str,
    body: Mapping[str, Any],
    otherwise: Callable[[Bus, Home, str], Awaitable[Event]] | None = None,
) -> dict[str, Any]:
    """A request to the agent; its reply. Where it does not run, the fact of `otherwise` is published: `{}` then.

    Without `otherwise`, raises BusUnreachableError when there is no run to ask.
    """
    home, settings = common.existing(), common.settings()
    running, name = home.running(), agent_named(home, settings, agent)
    reachable = running is not None or settings.bus.url is not None
    if not reachable and otherwise is None:
        raise BusUnreachableError(f"no run is in progress in {home.path}: conch run starts one, --home names another")
    async with open_bus(home, settings) as bus:
        if reachable:
            try:
                return await ask(bus, control_subject(name, verb), body)
            except BusError as error:
                if running is not None or otherwise is None:
                    raise BusUnreachableError(f"the agent {name} does not answer ({error}): see conch status") from None
        assert otherwise is not None
        fact = await otherwise(bus, home, name)
        await bus.publish(subject_of(fact), encode(fact), id=fact.id)
        return {}


def agent_named(home: Home, settings: Settings, named: str | None) -> str:
    """The agent that is meant: named, else the one that runs, else that of the settings.

    Raises UsageError for one that the home does not know.
    """
    usual = str((home.running() or {}).get("agent", settings.agent))
    if named is not None and named != usual and not (home.agent_dir(named) / "agentuid").exists():
        raise UsageError(f"there is no agent {named!r} in {home.path} (--agent)")
    return named or usual


def told_by_person(home: Home, agent: str, kind: type[E], key: str, **data: Any) -> E:
    """A fact of no cycle; `key` tells it from others of its kind. As the running agent makes it: the same id."""
    agentuid = home.agentuid(agent)
    identity = str(uuid5(UUID(agentuid), f"{kind.TYPE}/{key}"))
    return kind.model_validate({"id": identity, "source": source_of(agent, agentuid), "agent": agent, **data})


async def events(bus: Bus, subject: str, after: int) -> AsyncIterator[Event]:
    """What the stream holds behind `after`; what is no event is passed over: its readers make dead letters of it."""
    async for delivery in bus.read([subject], after=after):
        try:
            yield decode(delivery.data)
        except ContractViolationError:
            continue
