"""Curiosity: novelty, learning progress, intrinsic drives, and the reward part *exploration*."""

from conch.curiosity.beside import SCORER, VERSION
from conch.curiosity.fold import CuriosityMeasure, fold
from conch.curiosity.rules import (
    autonomy_drive,
    challenge_level,
    competence_drive,
    curiosity_drive,
    drives,
    entropy,
    exploration_bonus,
    exploration_reward,
    intrinsic_motivation,
    learning_progress,
    novelty,
    repetition_penalty,
    success_rate,
)
from conch.curiosity.state import CuriosityState

__all__ = [
    "SCORER",
    "VERSION",
    "CuriosityMeasure",
    "CuriosityState",
    "autonomy_drive",
    "challenge_level",
    "competence_drive",
    "curiosity_drive",
    "drives",
    "entropy",
    "exploration_bonus",
    "exploration_reward",
    "fold",
    "intrinsic_motivation",
    "learning_progress",
    "novelty",
    "repetition_penalty",
    "success_rate",
]
