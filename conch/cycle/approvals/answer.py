"""A person's decision on an act that waits for an approval, and its end when no decision comes. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, TypedDict

from conch.cycle.state.memory import AgentMemory
from conch.errors import UsageError
from conch.text import safe_text, well_formed
from conch_schemas import (
    ActApproved,
    ActAsked,
    ActDenied,
    Action,
    Cost,
    Decoding,
    PromptMessage,
    Usage,
    consequence_id,
    source_of,
    traceparent_of,
)

ID_SHOWN = 8
"""Characters of an action's id by which people name the act; the first of it, at least this many, are enough."""
WHY_CHARACTERS = 500
"""Most characters of a person's reason; the rest is cut."""
Said = Literal["approve", "deny"]
"""What a person says of an act that waits."""


class DecidedFields(TypedDict):
    """The fields of an event about a decision; see `DecidedReply`."""

    messages: tuple[PromptMessage, ...]
    raw: str
    raw_length: int
    raw_sha256: str
    action: Action
    constrained: bool
    usage: Usage
    model: str
    finish_reason: str
    ms: float
    decoding: Decoding | None
    cost: Cost | None


def reply_fields(asked: ActAsked) -> DecidedFields:
    """The fields of the decision that waits, for the intent that follows it."""
    return DecidedFields(
        messages=asked.messages,
        raw=asked.raw,
        raw_length=asked.raw_length,
        raw_sha256=asked.raw_sha256,
        action=asked.action,
        constrained=asked.constrained,
        usage=asked.usage,
        model=asked.model,
        finish_reason=asked.finish_reason,
        ms=asked.ms,
        decoding=asked.decoding,
        cost=asked.cost,
    )


def short_id(asked: ActAsked) -> str:
    """The id by which people name the act."""
    return str(asked.action_id)[:ID_SHOWN]


def waiting_act(memory: AgentMemory) -> ActAsked | None:
    """The act that waits for an approval; None: none does, or it was decided on."""
    return memory.asked if memory.asked is not None and memory.decided is None and memory.answer is None else None


def answer_to(
    memory: AgentMemory, agent: str, named: str, said: Said, why: str, now: datetime
) -> ActApproved | ActDenied:
    """A person's decision on the act that waits under this id. The same decision has the same id, in every process.

    Raises UsageError where no such act waits, one that was decided on among them, and where its time is over.
    """
    asked = waiting_act(memory)
    if asked is None or len(named) < ID_SHOWN or not str(asked.action_id).startswith(named):
        raise UsageError(_refusal(memory, agent, named))
    if now > asked.until:
        raise UsageError(
            f"the act {short_id(asked)} waited for an approval until {clock(asked.until)}: it is denied "
            "(tools.approval_timeout)"
        )
    reason = well_formed(why).strip()[:WHY_CHARACTERS]
    if said == "approve":
        return ActApproved.model_validate(_envelope(asked, ActApproved) | {"time": now, "why": reason})
    return ActDenied.model_validate(_envelope(asked, ActDenied) | {"time": now, "why": reason})


def timed_out(asked: ActAsked) -> ActDenied:
    """The denial of an act that no decision came for."""
    seconds = (asked.until - asked.time).total_seconds()
    why = f"no person approved it within {seconds:.0f} s"
    # An id beside that of a person's denial: one that a process beside the agent publishes now is no contradiction.
    return ActDenied.model_validate(_envelope(asked, ActDenied, "timeout") | {"by": "timeout", "why": why})


def guard_of(answer: ActApproved | ActDenied) -> str | None:
    """Why the act is blocked after this decision, in a sentence; None: it was approved."""
    if isinstance(answer, ActApproved):
        return None
    if answer.by == "timeout":
        return answer.why
    return f"a person denied it: {answer.why}" if answer.why else "a person denied it"


def clock(when: datetime) -> str:
    """A time of today or of another day, for a person, UTC."""
    return when.astimezone(UTC).strftime("%H:%M:%S UTC" if when.date() == datetime.now(UTC).date() else "%F %H:%M UTC")


def _refusal(memory: AgentMemory, agent: str, named: str) -> str:
    for settled in reversed(memory.settled):
        if len(named) >= ID_SHOWN and settled.action_id.startswith(named):
            how = "as no decision came in time" if settled.by == "timeout" else "by a person"
            return (
                f"the act {settled.action_id[:ID_SHOWN]} was {settled.said} at {clock(settled.time)} {how}: the first "
                "decision counts"
            )
    shown = safe_text(named, one_line=True)[:60]
    return f"no act {shown!r} of {agent} waits for an approval: conch approve list shows those that do"


def _envelope(
    asked: ActAsked, kind: type[ActApproved | ActDenied], decider: Literal["people", "timeout"] = "people"
) -> dict[str, object]:
    identity = consequence_id(asked.id, decider, "1", kind)
    assert asked.action_id is not None
    return {
        "id": identity,
        "source": source_of(asked.agent, asked.agentuid),
        "agent": asked.agent,
        "cycle": asked.cycle,
        "action_id": asked.action_id,
        "subject": asked.action_id,
        "causation_id": asked.id,
        "traceparent": traceparent_of(asked.action_id, identity),
        "policy": asked.policy,
    }
