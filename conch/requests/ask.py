"""Send a request to a running agent; publish facts of people for an agent that is not running."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID, uuid5

from conch.config import NO_SECRETS, Masker
from conch.errors import BusError, BusUnreachableError, ConchError, UsageError
from conch.home import Home
from conch_schemas import Event, JsonObject, control_subject, encode, source_of, subject_of

if TYPE_CHECKING:
    from conch.bus import Bus

E = TypeVar("E", bound=Event)


async def ask(bus: Bus, subject: str, body: Mapping[str, object], *, timeout: float = 5.0) -> JsonObject:
    """A request to the run in progress; its reply. Raises BusError when there is no answer, ConchError with a
    refusal: UsageError where it is the request that is wrong, such as one about a goal that there is not."""
    reply: JsonObject = json.loads(await bus.request(subject, json.dumps(body).encode(), timeout=timeout))
    if "error" in reply:
        raise (UsageError if reply.get("usage") is True else ConchError)(str(reply["error"]))
    return reply


async def ask_all(
    bus: Bus, agents: Sequence[str], verb: str, body: Mapping[str, object], *, timeout: float = 5.0
) -> JsonObject:
    """A request to all agents of a run, in the order of its agents; the reply. Raises as `ask`.

    The first one's process passes it on to the run's other agent processes. Where that process does not answer, the
    last agent's is asked, which is another one where there are several.
    """
    every = {**body, "all": True}
    try:
        return await ask(bus, control_subject(agents[0], verb), every, timeout=timeout)
    except BusError:
        if len(agents) == 1:
            raise
        return await ask(bus, control_subject(agents[-1], verb), every, timeout=timeout)


async def handed_over(
    bus: Bus,
    home: Home,
    agent: str,
    verb: str,
    body: Mapping[str, object],
    otherwise: Callable[[], Awaitable[Event]] | None = None,
    *,
    reachable: bool = True,
    masker: Masker = NO_SECRETS,
) -> JsonObject:
    """A request to the agent; its reply. Where it does not run, the fact of `otherwise` is published: `{}` then.

    `reachable`: an agent may be there to be asked; on a bus that runs share, one that this home's run has not may act
    in another one. Raises BusUnreachableError where one that runs does not answer, or
    there is nothing else to do; ConchError with a refusal. `masker`: of the fact that is published.
    """
    running = home.running()
    rests = running is not None and agent not in running.agents
    if reachable and not (rests and running is not None and running.bus.embedded):
        try:
            return await ask(bus, control_subject(agent, verb), body)
        except BusError as error:
            if (running is not None and not rests) or otherwise is None:
                raise BusUnreachableError(f"the agent {agent} does not answer ({error}): see conch status") from None
    if otherwise is None:
        raise UsageError(f"the agent {agent} does not run: the run in progress has others (conch status)")
    if rests and not (home.agent_dir(agent) / "agentuid").exists():
        raise UsageError(f"the agent {agent} does not answer, and its home is another one: start it there")
    fact = masker.event(await otherwise())
    await bus.publish(subject_of(fact), encode(fact), id=fact.id)
    return {}


def told_by_person(home: Home, agent: str, kind: type[E], key: str, **data: Any) -> E:
    """An event outside of any cycle; `key` makes its id unique among its type. The running agent derives the same
    id."""
    agentuid = home.agentuid(agent)
    identity = str(uuid5(UUID(agentuid), f"{kind.TYPE}/{key}"))
    return kind.model_validate({"id": identity, "source": source_of(agent, agentuid), "agent": agent, **data})
