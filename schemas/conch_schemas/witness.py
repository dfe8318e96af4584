"""Marks: an append-only, hash-chained audit trail of acts and scores."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from conch_schemas.envelope import Event, Value

Relation = Literal["CAUSES", "CONTINUES", "BRANCHES", "FULFILLS"]


class MarkLink(Value):
    """A link from an earlier mark (or, for FULFILLS, from a plan's path)."""

    source: str
    relation: Relation


class Mark(Value):
    """One mark. `hash` is SHA-256 over the canonical JSON (RFC 8785) of every other field; empty `facts` are left out
    of it."""

    id: str
    agent: str
    action_id: str | None
    """The action that it is about."""
    origin: str
    """The consumer or person that published the witnessed event."""
    domain: str
    """`action`, `score`, `alarm`, `message`, `goal`, `pause`, `approval`, `forgetting`, `review`, `needs`, `weights`,
    `policy`, `reflection`, `fork` or `training`."""
    stimulus: str
    """What it responds to."""
    response: str
    """What was done or stated."""
    reasoning: str
    """The reason."""
    principles: dict[str, float] = Field(default_factory=dict)
    """Scores by the constitution's principles, if there are any."""
    evidence: Literal["fact", "check", "judgement", "none"] = "fact"
    """The tier: a structured fact, a program's check, a judgement, or none."""
    links: tuple[MarkLink, ...] = ()
    tags: tuple[str, ...] = ()
    values: str = ""
    """Digest of the values file in force, or empty."""
    event: str
    """The id of the witnessed event."""
    content: str
    """SHA-256 of the witnessed event's canonical JSON, hexadecimal; of `facts` where the event is
    `experience.recorded`."""
    sequence: int = Field(ge=0)
    """Position in the agent's chain, from 0, without a gap."""
    previous: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Hash of the mark before; the first mark has 64 zeros."""
    hash: str = Field(pattern=r"^[0-9a-f]{64}$")
    facts: dict[str, str] = Field(default_factory=dict)
    """What the mark seals beside or in place of the event itself: fact -> SHA-256 of its canonical JSON, hexadecimal.

    A fact is its kind and its id with a blank between: an event's type without its prefix and the event's id, `score`
    and its scorer, version and component joined by "/", `verdict` (or `figures`) and the experience's revision,
    `recorded` and the revision (its place and time), `reflection` and its event's id, `prompt` and the policy's digest,
    `correction` and its event's id."""


class MarkWitnessed(Event):
    """A mark was added to the chain."""

    TYPE: ClassVar = "mark.witnessed"
    type: Literal["conch.v1.mark.witnessed"] = "conch.v1.mark.witnessed"
    mark: Mark
