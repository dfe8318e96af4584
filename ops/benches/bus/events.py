"""What is published: acts as an agent's day brings them, and bytes of a given size."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime

from conch.config import RewardSettings
from conch.rewards.weights import weight_set, weights_version
from conch_schemas import (
    Action,
    ActionTaken,
    Cut,
    Event,
    Outcome,
    Usage,
    WeightsSet,
    action_id,
    cycle_event_id,
    encode,
    source_of,
    subject_of,
)

KINDS = 40
"""Different acts; an agent does much of what it does again and again."""
_TOOLS = ("filesystem", "shell", "git", "notes")
_PARAGRAPH = (
    "The tide pool at the northern end held eleven anemones, two hermit crabs and a star; one limpet had moved. "
)


def payload(size: int) -> bytes:
    """`size` bytes that do not compress to nothing."""
    return hashlib.shake_128(str(size).encode()).hexdigest(size // 2).encode()


def acts(agents: int, cycles: int, *, first: int = 1) -> Iterator[ActionTaken]:
    """`cycles` acts of each of `agents`, from cycle `first` on, the agents taking turns; about 1.2 KiB each."""
    for cycle in range(first, first + cycles):
        for agent in range(agents):
            yield act(f"echo-{agent + 1}", cycle)


def act(agent: str, cycle: int) -> ActionTaken:
    """One act."""
    kind = (cycle * 7 + len(agent)) % KINDS
    uid, tool = uid_of(agent), _TOOLS[kind % len(_TOOLS)]
    identity = action_id(uid, cycle)
    raw = f'TOOL: {tool}(operation="read", path="notes/page-{kind}.md")'
    output = f"page {kind}\n{_PARAGRAPH * (1 + kind % 3)}"
    return ActionTaken(
        id=cycle_event_id(identity, ActionTaken),
        source=source_of(agent, uid),
        subject=identity,
        agent=agent,
        cycle=cycle,
        action_id=identity,
        policy="0123456789abcdef",
        action=Action(kind="TOOL", valid=True, tool=tool, args={"operation": "read", "path": f"notes/page-{kind}.md"}),
        raw=raw,
        raw_length=len(raw),
        raw_sha256=hashlib.sha256(raw.encode()).hexdigest(),
        outcome=Outcome(
            status="error" if kind % 8 == 0 else "success",
            output=Cut(text=output, length=len(output), sha256=hashlib.sha256(output.encode()).hexdigest()),
            ms=3.2,
        ),
        needs={"sustainability": 0.71, "reliability": 0.64, "curiosity": 0.52, "excellence": 0.49},
        thought=f"Page {kind} may say what moved in the pool.",
        memory=("The northern pool is the deepest.",),
        tools=_TOOLS,
        model="reflex",
        usage=Usage(),
        ms={"think": 0.4, "ground": 0.9, "decide": 0.8, "act": 3.2},
    )


def uid_of(agent: str) -> uuid.UUID:
    """The agent's own id."""
    return uuid.uuid5(uuid.NAMESPACE_URL, agent)


def weights(agents: int) -> Iterator[WeightsSet]:
    """The built-in weight set of each agent, with a deadline that no measurement reaches."""
    parts = weight_set((), RewardSettings(deadline=3600))
    version = weights_version(parts)
    for number in range(agents):
        agent = f"echo-{number + 1}"
        uid = uid_of(agent)
        yield WeightsSet(
            id=str(uuid.uuid5(uid, version)),
            source=source_of(agent, uid),
            agent=agent,
            time=datetime.now(UTC),
            version=version,
            parts=parts,
        )


def rendered(events: Iterator[Event] | list[Event]) -> list[tuple[str, bytes, str]]:
    """(subject, bytes, id) of each."""
    return [(subject_of(event), encode(event), event.id) for event in events]
