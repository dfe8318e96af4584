"""What waits for a person's decision, and the decision on an act that waits for an approval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from conch.errors import ConchError, UsageError
from conch.home import Home
from conch.requests.ask import handed_over
from conch_schemas import ActAsked, Event, Goal

if TYPE_CHECKING:
    from conch.bus import Bus
    from conch.cycle.approvals.answer import Said
    from conch.cycle.state.memory import AgentMemory


async def waiting_acts(bus: Bus, home: Home, agents: Sequence[str]) -> list[ActAsked]:
    """The acts of these agents that wait for an approval, as of the end of the stream, in the order of the agents.

    Raises BusError, and the error of an agent whose memory cannot be read.
    """
    found = await waiting_decisions(bus, home, agents)
    return [one.act for one in found.values() if one.act is not None]


class WaitingDecisions(NamedTuple):
    """What of one agent waits for a person's decision."""

    act: ActAsked | None
    """The act that waits for an approval."""
    goals: Sequence[Goal]
    """The goals that the agent set itself and that no person has accepted or vetoed."""
    is_team: bool
    """Whether the agent is a team that has begun."""


async def waiting_decisions(bus: Bus, home: Home, agents: Sequence[str]) -> Mapping[str, WaitingDecisions]:
    """What waits for a decision, by agent, as of the end of the stream, in the order of the agents.

    Raises BusError, and the error of an agent whose memory cannot be read.
    """
    from conch.cycle.approvals.answer import waiting_act

    return {
        name: WaitingDecisions(
            waiting_act(memory),
            [one.goal for one in memory.goals.values() if not one.pays],
            memory.team is not None,
        )
        for name, memory in (await _memories(bus, home, agents)).items()
    }


async def decide_act(
    bus: Bus, home: Home, agent: str, named: str, said: Said, why: str, *, reachable: bool = True
) -> bool:
    """Approve or deny the act that waits under the id `named`. Whether the agent runs, and goes on at once; of one that
    does not run the decision is published for its next run.

    Raises UsageError where no such act waits, one that was decided on among them, and after its time-out; ConchError
    with the agent's refusal. `reachable` as of `handed_over`.
    """
    from conch.cycle.approvals.answer import answer_to

    published: list[Event] = []

    async def otherwise() -> Event:
        memory = (await _memories(bus, home, [agent]))[agent]
        published.append(answer_to(memory, agent, named, said, why, datetime.now(UTC)))
        return published[0]

    request = {"act": named, "deny": said == "deny", "why": why}
    reply = await handed_over(bus, home, agent, "approve", request, otherwise, reachable=reachable)
    if published:
        await _check_counts(bus, home, agent, published[0])
    return bool(reply)


async def _check_counts(bus: Bus, home: Home, agent: str, published: Event) -> None:
    """Raises UsageError where a decision that was published meanwhile counts in place of this one."""
    memory = (await _memories(bus, home, [agent]))[agent]
    if memory.answer is not None and (memory.answer.id, memory.answer.time) != (published.id, published.time):
        raise UsageError(f"the act {str(published.action_id)[:8]} was decided on meanwhile: the first decision counts")


async def _memories(bus: Bus, home: Home, agents: Sequence[str]) -> dict[str, AgentMemory]:
    from conch.cycle.state.memory import AgentMemory
    from conch.cycle.state.recover import RecoveryStart, recover_all

    there = [name for name in agents if (home.agent_dir(name) / "agentuid").exists()]
    found = await recover_all(bus, {name: RecoveryStart(home.agentuid(name)) for name in there})
    memories = {name: AgentMemory() for name in agents}
    for name, at in found.items():
        if isinstance(at, ConchError):
            raise at
        memories[name] = at.memory
    return memories
