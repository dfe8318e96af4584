"""The views of walks, for `conch walk list | show --json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from conch.experience import ChainReader
from conch.views.base import View
from conch.witness import PolicyTrace, TraceStep, Walk, next_phase, phase_of
from conch_schemas import Mark


class WalkMark(View):
    """A mark of a walk, without its words."""

    sequence: int
    phase: Literal["sense", "act", "reflect"]
    domain: str
    hash: str


class WalkStep(View):
    """An act of a walk: one step of its policy trace."""

    sequence: int
    """Of the act's mark."""
    state: str
    """The thought that the act responds to."""
    action: str
    reward: float | None
    """The act's total; None while it is not recorded, or where retention removed it."""


class WalkShown(View):
    """One walk, as `conch walk show --json` prints it."""

    schema_: Literal["conch.v1.walk"] = Field(default="conch.v1.walk", alias="schema")
    walk: Walk
    marks: tuple[WalkMark, ...]
    steps: tuple[WalkStep, ...]
    next: Literal["sense", "act", "reflect"]
    """The phase that comes after its last mark."""
    gamma: float
    """Discount of the trace."""
    total: float
    """Σ gamma^i · reward over the steps with a reward."""


class WalkList(View):
    """Some walks, as `conch walk list --json` prints them."""

    schema_: Literal["conch.v1.walks"] = Field(default="conch.v1.walks", alias="schema")
    walks: tuple[Walk, ...]
    """Oldest first."""


class WalkChanged(View):
    """A walk that was started, paused, resumed or closed."""

    schema_: Literal["conch.v1.walk.changed"] = Field(default="conch.v1.walk.changed", alias="schema")
    walk: Walk


def walk_marks(chain: ChainReader, walk: Walk) -> list[Mark]:
    """The stored marks of a walk, in the order of the chain. Raises CheckError at a row that is no mark."""
    found: list[Mark] = []
    for mark in chain.marks(walk.agent, walk.spans[0].first):
        if walk.spans[-1].end is not None and mark.sequence >= walk.spans[-1].end:
            break
        if walk.takes(mark.sequence):
            found.append(mark)
    return found


def walk_shown(chain: ChainReader | None, walk: Walk) -> WalkShown:
    """A walk with its marks and its policy trace; `chain`: None where the home has no experiences yet."""
    marks = walk_marks(chain, walk) if chain is not None else []
    acts = [mark for mark in marks if mark.domain == "action"]
    stored = chain.stored(mark.action_id for mark in acts if mark.action_id) if chain is not None else {}
    steps = []
    for mark in acts:
        there = stored.get(mark.action_id or "")
        reward = there.figures[0] if there is not None and there.figures else None
        steps.append(WalkStep(sequence=mark.sequence, state=mark.stimulus, action=mark.response, reward=reward))
    trace = walk_trace(steps)
    return WalkShown(
        walk=walk,
        marks=tuple(
            WalkMark(sequence=one.sequence, phase=phase_of(one), domain=one.domain, hash=one.hash) for one in marks
        ),
        steps=tuple(steps),
        next=next_phase(phase_of(marks[-1])) if marks else "sense",
        gamma=trace.gamma,
        total=trace.total,
    )


def walk_trace(steps: Sequence[WalkStep]) -> PolicyTrace:
    """The policy trace of the steps that have a reward."""
    return PolicyTrace(tuple(TraceStep(one.state, one.action, one.reward) for one in steps if one.reward is not None))
