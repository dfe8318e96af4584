"""The event with curiosity's measures of an action."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from conch_schemas.action import Unit
from conch_schemas.envelope import Event, Value
from conch_schemas.reward import Score


class Drives(Value):
    """The four drives and their mix, each 0..1."""

    curiosity: Unit
    competence: Unit
    autonomy: Unit
    social: Unit | None
    """None: no person has spoken, and the mix is the mean of the others by weight."""
    intrinsic: Unit


class NoveltyMeasured(Event):
    """Novelty of an action and its result, learning progress, and the drives."""

    TYPE: ClassVar = "novelty.measured"
    type: Literal["conch.v1.novelty.measured"] = "conch.v1.novelty.measured"
    fingerprint: str
    """Fingerprint of skill, arguments and result: text normalised, numbers, ids and times masked."""
    skill: str
    novelty: Unit
    """1/√n of the fingerprint over the decaying window."""
    new_information: bool
    """Whether the action brought new information: measured by the agent, else a successful output with a new
    fingerprint."""
    learning_progress: Unit
    success_rate: Unit
    """Recent success rate of this skill."""
    exploration_bonus: float
    events: tuple[Literal["new_tool", "new_information", "novel_problem_solved"], ...] = ()
    drives: Drives
    entropy: Unit
    """Normalised entropy of tool × operation over the last actions (50 by default)."""
    score: Score
    """The part *exploration*, before the cap."""
    repeats: int = Field(default=1, ge=1)
    """How often this action was repeated in the last acts (20 by default), this one included: the same to the letter
    with the same result, or without an effect on the same target, whichever is more often."""
    beside: tuple[Score, ...] = ()
    """`intrinsic`, `diversity` and `repetition`: further scores for the total, besides exploration."""
