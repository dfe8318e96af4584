"""Scores of curiosity besides exploration: the mix of drives, the diversity of acts, their repetition."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from conch.config import RewardSettings
from conch.curiosity.rules import repetition_penalty
from conch.folds import maker
from conch_schemas import Drives, Score

SCORER: Final = "curiosity"
VERSION: Final = "3"
"""Version of curiosity's fold and rules: it changes with any number in them. 1: without the measured effect of an act.
2: a repetition cost also where it moved a goal, or was a rest with no goal open."""

_UNIT: Final = (0.0, 1.0)
_FALL: Final = (-1.0, 0.0)
_CRASHED: Final = "A crash fell between the intent and its outcome, so nobody knows how it came out."


class Repeats(NamedTuple):
    """How often an act was done among the newest ones, itself included."""

    same: int
    """With the same arguments to the letter and the same result."""
    fruitless: int
    """Its tool × operation on its target, without an effect; 0 where this act had one, or has no target."""
    free: bool = False
    """Whether it costs nothing: it moved a goal, or is a rest while no goal is open."""

    @property
    def most(self) -> int:
        """The greater of the two: what is paid for."""
        return max(self.same, self.fruitless)


class Variety(NamedTuple):
    """The diversity of the newest acts, and of the skill of the last one."""

    entropy: float
    """Normalised, 0..1."""
    acts: int
    """The agent's acts so far."""
    uses: int
    """Uses of the act's skill among the newest acts, this one included; 0: not counted, the effect was not measured."""


def beside(
    drives: Drives, variety: Variety, repeats: Repeats, settings: RewardSettings, *, known: bool
) -> tuple[Score, Score, Score]:
    """`intrinsic` (0..1), `diversity` (0..1) and `repetition` (−1..0) of an act, each with an explanation.

    With fewer acts than the window (50 by default) diversity is not applicable, as few acts cannot be diverse. While it
    is low, it is not applicable to an act of a skill used 5 times among them: exploration pays no double for it. An
    act without a known outcome is not scored.
    """
    if not known:
        return _NOT_KNOWN
    return _intrinsic(drives), _diversity(variety, settings), _repetition(repeats, settings)


def _intrinsic(drives: Drives) -> Score:
    social = "social none, as no person has spoken" if drives.social is None else f"social {drives.social:.2f}"
    why = (
        f"curiosity {drives.curiosity:.2f}, competence {drives.competence:.2f}, autonomy {drives.autonomy:.2f}, "
        f"{social}."
    )
    return _score("intrinsic", drives.intrinsic, _UNIT, why)


def _diversity(variety: Variety, settings: RewardSettings) -> Score:
    window = settings.diversity_acts
    if variety.acts < window:
        return _too_few(variety.acts, window)
    if variety.entropy < settings.diversity and variety.uses >= settings.diversity_rare:
        why = f"Entropy {variety.entropy:.2f} of the last {window} acts; this skill was used {variety.uses} times."
        return _score("diversity", None, _UNIT, why)
    return _score("diversity", variety.entropy, _UNIT, f"Entropy of the last {window} acts, of 1 at most.")


@lru_cache(maxsize=64)
def _too_few(acts: int, window: int) -> Score:
    return _score("diversity", None, _UNIT, f"Diversity is told of {window} acts; there are {acts}.")


def _repetition(repeats: Repeats, settings: RewardSettings) -> Score:
    most = 1 if repeats.free else repeats.most
    value = repetition_penalty(most, settings.repetition, settings.repetition_most)
    return _repeated(repeats, value, settings.repetition_acts)


@lru_cache(maxsize=256)
def _repeated(repeats: Repeats, value: float, window: int) -> Score:
    """Cached: the same few counts come again."""
    if repeats.most <= 1:
        why = f"New among the last {window} acts."
    elif repeats.free:
        why = f"Done {repeats.most} times in the last {window} acts, at no cost: it moved a goal, or none is open."
    elif repeats.same >= repeats.fruitless:
        why = f"Done {repeats.same} times with the same result in the last {window} acts."
    else:
        why = f"Done {repeats.fruitless} times on the same target without an effect in the last {window} acts."
    return _score("repetition", value, _FALL, why)


def _score(component: str, value: float | None, limits: tuple[float, float], explanation: str) -> Score:
    """A score; its value is in range by construction."""
    return _a_score(
        {
            "component": component,
            "value": value,
            "range": limits,
            "status": "not_applicable" if value is None else "scored",
            "explanation": explanation,
            "scorer": SCORER,
            "version": VERSION,
        }
    )


_a_score = maker(Score)

_NOT_KNOWN: Final = (
    _score("intrinsic", None, _UNIT, _CRASHED),
    _score("diversity", None, _UNIT, _CRASHED),
    _score("repetition", None, _FALL, _CRASHED),
)
