"""The event of a fork: a candidate for a recorded prompt, tried in a copy of the workspace as it was."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from conch_schemas.action import Action, Cost, GoalCheck, Outcome, Unit, Usage
from conch_schemas.decoding import Decoding
from conch_schemas.effect import MeasuredEffect
from conch_schemas.envelope import Event
from conch_schemas.reward import Score


class ForkScored(Event):
    """A candidate for the decision of a recorded cycle, executed in a copy of the workspace, with its scores.

    `cycle` and `action_id` name the cycle that was forked, `causation_id` its `action.taken`. It is no act of the
    agent: it counts in no total, changes no need, and earns nothing. Its id follows from act, fork and seed.
    """

    TYPE: ClassVar = "fork.scored"
    type: Literal["conch.v1.fork.scored"] = "conch.v1.fork.scored"
    fork: str
    """Digest of what all candidates of one fork share: mind, prompt, workspace, rules. Candidates of one fork differ by
    their seeds alone."""
    seed: int = Field(ge=0)
    """Seed of the mind that made the reply."""
    mind: str
    """The kind of mind."""
    raw: str
    """The reply of the mind, shortened."""
    raw_length: int = Field(ge=0)
    raw_sha256: str
    action: Action
    constrained: bool = False
    model: str
    finish_reason: str
    usage: Usage = Usage()
    cost: Cost | None = None
    """Price of the tokens; None: not known, as tokens were not counted or there is no price."""
    decoding: Decoding | None = None
    """`prompt_sha256` and `state_key` are those of the recorded decision."""
    workspace: str
    """SHA-256 of the snapshot of the workspace that was copied."""
    executed: bool
    """Whether a tool was run in the copy."""
    why_not: str = ""
    """Why a valid call of a tool was not run, in one sentence; else empty."""
    outcome: Outcome
    """`blocked`: it was not run. `none`: there was nothing to run."""
    goals: tuple[GoalCheck, ...] = ()
    """The checks of the goals that were active then, on the copy after the candidate. Empty where none was."""
    effect: MeasuredEffect | None = None
    """What the candidate changed in the copy; None: it was not run, or its effect depends on what the agent knew."""
    scores: tuple[Score, ...]
    """*format*, *execution* and *goal*, by the rules as they are now. What needs the history of the cycle is not
    applicable, and its explanation says so."""
    weights: str
    """Version of the weight set of the recorded act, by which these scores count."""
    total: float
    """Σ weight × value of these scores: comparable within a fork, not with the total of an act."""
    coverage: Unit
    """Scored weight ÷ the whole weight of the three parts, the not applicable ones included."""
    ms: dict[str, float]
    """Milliseconds of decide, copy, act and score."""
