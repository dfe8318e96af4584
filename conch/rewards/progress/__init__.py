"""Progress of task episodes: the step reward and its fold over one agent's episodes."""

from conch.rewards.progress.fold import (
    SCORER,
    VERSION,
    EpisodeLogRow,
    EpisodeProgress,
    ProgressState,
    ProgressUpdate,
    episode_name,
    fold,
)
from conch.rewards.progress.rules import (
    PHASES,
    ROLES,
    ProgressStep,
    final_bonus,
    phase_advanced,
    rewarded_advances,
    role_share_phase_change,
    step,
    step_reward,
)

__all__ = [
    "PHASES",
    "ROLES",
    "SCORER",
    "VERSION",
    "EpisodeLogRow",
    "EpisodeProgress",
    "ProgressState",
    "ProgressStep",
    "ProgressUpdate",
    "episode_name",
    "final_bonus",
    "fold",
    "phase_advanced",
    "rewarded_advances",
    "role_share_phase_change",
    "step",
    "step_reward",
]
