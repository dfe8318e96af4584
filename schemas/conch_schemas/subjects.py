"""The subject table: the bus subject of each event, and of control requests."""

from __future__ import annotations

from conch_schemas.envelope import Event

STREAM_SUBJECTS = ("conch.v1.>",)
"""Subjects that the stream accepts: all events, nothing else."""


def subject_of(event: Event) -> str:
    """`conch.v1.<agent>.<noun>.<verb>`."""
    return f"conch.v1.{event.agent}.{event.TYPE}"


def subject_filter(kind: type[Event], agent: str = "*") -> str:
    """The filter that takes one kind of event, of one agent or of all."""
    return type_filter(kind.TYPE, agent)


def type_filter(type: str, agent: str = "*") -> str:
    """The filter that takes one type of event, `action.taken`, of one agent or of all."""
    return f"conch.v1.{agent}.{type}"


def agent_filter(agent: str) -> str:
    """The filter that takes every event of one agent."""
    return f"conch.v1.{agent}.>"


def control_subject(agent: str, verb: str) -> str:
    """`conch.ctl.<agent>.<verb>`: requests, outside the stream (a stream would acknowledge them itself)."""
    return f"conch.ctl.{agent}.{verb}"


def role_subject(team: str, role: str) -> str:
    """`conch.ctl.<team>.role.<role>`: a team's questions to the workers of a role."""
    return f"conch.ctl.{team}.role.{role}"


def type_of(subject: str) -> str:
    """The type in the subject of an event, `action.taken`; whatever follows the third dot, in another subject."""
    return subject.split(".", 3)[-1]


def agent_of(subject: str) -> str | None:
    """The agent's token in an event's subject; None for a foreign subject."""
    parts = subject.split(".")
    return parts[2] if len(parts) >= 4 and parts[:2] == ["conch", "v1"] else None
