"""Formulas for novelty, exploration and the four drives: pure functions of values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Final, Literal

from conch.config import (
    AutonomyDriveWeights,
    CompetenceDriveWeights,
    CuriosityDriveWeights,
    CuriositySettings,
    DiscoverySettings,
    ExplorationBonusSettings,
    IntrinsicMotivationSettings,
)
from conch.folds import valid
from conch_schemas import Drives

Discovery = Literal["new_tool", "new_information", "novel_problem_solved"]

DEFAULTS: Final = CuriositySettings()
MIX: Final = IntrinsicMotivationSettings()

_LEAST_TRIES: Final = 4
"""Least number of tries for learning progress: two before, two after."""


def exploration_reward(events: Collection[str], values: DiscoverySettings = DEFAULTS.discoveries) -> float:
    """In [0, 1], before the cap: the largest of new_tool 0.3, new_information 0.5, novel_problem_solved 1.0; else 0."""
    table: dict[str, float] = vars(values)
    return max((table.get(event, 0.0) for event in events), default=0.0)


def novelty(count: float) -> float:
    """1/√n, where n is the number of times it was met, this one included; in (0, 1] for n ≥ 1."""
    return 1.0 / math.sqrt(max(1.0, count))


def exploration_bonus(uses: int, valid_tool: bool = True, bonus: ExplorationBonusSettings = DEFAULTS.bonus) -> float:
    """For a tool used `uses` times before: 0 → 0.5; 1..4 → 0.3·e^(−n/5); else 0.1·e^(−n/20); no valid tool → 0.

    In [0, 0.5] by default, in [0, 1] for any settings.
    """
    if not valid_tool:
        return 0.0
    if uses <= 0:
        return bonus.first
    if uses < bonus.few_uses:
        return bonus.few * math.exp(-uses / bonus.few_fade)
    return bonus.many * math.exp(-uses / bonus.many_fade)


def repetition_penalty(times: int, each: float = 0.1, most: float = 0.5) -> float:
    """Penalty on the total for an act done `times` times with the same result, this time included.

    −min(each × (times − 1), most), in [−1, 0] where `each` and `most` are in 0..1; once costs nothing.
    """
    return -min(each * max(0, times - 1), most) + 0.0


def success_rate(outcomes: Sequence[bool]) -> float:
    """Share of `outcomes` that succeeded, in [0, 1]; 0 for none."""
    return sum(outcomes) / len(outcomes) if outcomes else 0.0


def learning_progress(outcomes: Sequence[bool]) -> float:
    """Success rate of the recent half minus that of the earlier half, at least 0; in [0, 1].

    `outcomes` oldest first; with an odd number the middle one is recent. Fewer than four give 0.
    """
    if len(outcomes) < _LEAST_TRIES:
        return 0.0
    half = len(outcomes) // 2
    return max(0.0, success_rate(outcomes[half:]) - success_rate(outcomes[:half]))


def challenge_level(rate: float, sweet_spot: float = DEFAULTS.sweet_spot) -> float:
    """1 − |rate − 0.7| / 0.7, clamped to [0, 1]: greatest where about 70 % succeed."""
    return _unit(1.0 - abs(rate - sweet_spot) / sweet_spot)


def curiosity_drive(
    novelty: float,
    exploration_bonus: float,
    learning_progress: float,
    weights: CuriosityDriveWeights = DEFAULTS.curiosity,
) -> float:
    """0.5 novelty + 0.3 exploration bonus + 0.2 learning progress; in [0, 1] where the inputs are."""
    return (
        weights.novelty * novelty
        + weights.exploration_bonus * exploration_bonus
        + weights.learning_progress * learning_progress
    )


def competence_drive(
    success_rate: float, improvement: float, challenge: float, weights: CompetenceDriveWeights = DEFAULTS.competence
) -> float:
    """0.4 recent success rate + 0.3 skill improvement + 0.3 challenge level; in [0, 1] where the inputs are."""
    return weights.success_rate * success_rate + weights.improvement * improvement + weights.challenge * challenge


def autonomy_drive(
    self_initiated: float, goals_set: float, independence: float, weights: AutonomyDriveWeights = DEFAULTS.autonomy
) -> float:
    """0.4 self-initiated acts + 0.3 goals set by itself + 0.3 independence; in [0, 1] where the inputs are."""
    return weights.self_initiated * self_initiated + weights.goals_set * goals_set + weights.independence * independence


def intrinsic_motivation(
    curiosity: float,
    competence: float,
    autonomy: float,
    social: float | None,
    weights: IntrinsicMotivationSettings = MIX,
) -> float:
    """0.3 curiosity + 0.3 competence + 0.2 autonomy + 0.2 social; in [0, 1] where the inputs are.

    Without *social* (None) the mean of the others by weight; 0 where they weigh nothing.
    """
    rest = (
        weights.curiosity_weight * curiosity
        + weights.competence_weight * competence
        + weights.autonomy_weight * autonomy
    )
    if social is not None:
        return rest + weights.social_weight * social
    share = weights.curiosity_weight + weights.competence_weight + weights.autonomy_weight
    return rest / share if share else 0.0


def drives(
    curiosity: float,
    competence: float,
    autonomy: float,
    social: float | None,
    weights: IntrinsicMotivationSettings = MIX,
) -> Drives:
    """The four drives and their mix, each clamped to 0..1 against rounding; `social` None: no person has spoken."""
    return valid(
        Drives,
        curiosity=_unit(curiosity),
        competence=_unit(competence),
        autonomy=_unit(autonomy),
        social=None if social is None else _unit(social),
        intrinsic=_unit(intrinsic_motivation(curiosity, competence, autonomy, social, weights)),
    )


def entropy(skills: Iterable[str], on_offer: int = 0) -> float:
    """Shannon entropy of the skills over the most that there could be, in [0, 1]; 0 for fewer than two acts.

    The most is the entropy of `on_offer` skills used evenly, or of the acts where they are fewer: three of twelve used
    evenly give 0.44. Of one skill on offer it is 1: there is nothing else to do. Where the number on
    offer is not known (0), that of the acts counts: alternating between two skills is then little diversity.
    """
    counts = Counter(skills)
    acts = counts.total()
    if acts < 2:
        return 0.0
    most = min(acts, on_offer) if on_offer else acts
    if most < 2:
        return 1.0
    return _unit(-math.fsum(_surprise(count, acts) for count in counts.values()) / math.log(most))


@lru_cache(maxsize=4096)
def _surprise(count: int, acts: int) -> float:
    share = count / acts
    return share * math.log(share)


def _unit(value: float) -> float:
    return max(0.0, min(1.0, value)) + 0.0
