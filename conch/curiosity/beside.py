"""Scores of curiosity besides exploration: the mix of drives, the diversity of acts, their repetition."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from conch.config import RewardSettings
from conch.curiosity.rules import repetition_penalty
from conch.curiosity.state import LATEST, RECENT
from conch.folds import maker
from conch_schemas import Drives, Score

SCORER: Final = "curiosity"
VERSION: Final = "1"
"""Version of curiosity's fold and rules: it changes with any number in them."""

_UNIT: Final = (0.0, 1.0)
_FALL: Final = (-1.0, 0.0)
_CRASHED: Final = "A crash fell between the intent and its outcome, so nobody knows how it came out."


def beside(
    drives: Drives, entropy: float, acts: int, repeats: int, settings: RewardSettings, *, known: bool
) -> tuple[Score, Score, Score]:
    """`intrinsic` (0..1), `diversity` (0..1) and `repetition` (−1..0) of an act, each with an explanation.

    `acts` are the agent's so far: with fewer than the window of 50, diversity is not applicable, as few acts cannot be
    diverse. An act without a known outcome is not scored.
    """
    if not known:
        return _NOT_KNOWN
    return _intrinsic(drives), _diversity(entropy, acts), _repetition(repeats, settings)


def _intrinsic(drives: Drives) -> Score:
    why = (
        f"curiosity {drives.curiosity:.2f}, competence {drives.competence:.2f}, "
        f"autonomy {drives.autonomy:.2f}, social {drives.social:.2f}."
    )
    return _score("intrinsic", drives.intrinsic, _UNIT, why)


def _diversity(entropy: float, acts: int) -> Score:
    if acts < RECENT:
        return _too_few(acts)
    return _score("diversity", entropy, _UNIT, f"Entropy of the last {RECENT} acts, of 1 at most.")


@lru_cache(maxsize=RECENT)
def _too_few(acts: int) -> Score:
    return _score("diversity", None, _UNIT, f"Diversity is told of {RECENT} acts; there are {acts}.")


def _repetition(repeats: int, settings: RewardSettings) -> Score:
    return _repeated(repeats, repetition_penalty(repeats, settings.repetition, settings.repetition_most))


@lru_cache(maxsize=256)
def _repeated(repeats: int, value: float) -> Score:
    """Cached: the same few counts come again."""
    why = f"Done {repeats} times with the same result in the last {LATEST} acts."
    return _score("repetition", value, _FALL, why if repeats > 1 else f"New among the last {LATEST} acts.")


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
