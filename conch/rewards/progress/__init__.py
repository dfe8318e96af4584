"""Progress of task episodes: the step reward and its fold over one agent's episodes."""

from conch.rewards.progress.fold import (
    SCORER,
    VERSION,
    Episode,
    ProgressState,
    Row,
    Told,
    episode_name,
    fold,
)
from conch.rewards.progress.rules import (
    PHASES,
    ROLES,
    Step,
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
    "Episode",
    "ProgressState",
    "Row",
    "Step",
    "Told",
    "episode_name",
    "final_bonus",
    "fold",
    "phase_advanced",
    "rewarded_advances",
    "role_share_phase_change",
    "step",
    "step_reward",
]
