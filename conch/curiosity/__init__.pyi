"""Curiosity: novelty, learning progress, the drives, and the part *exploration*."""

from .beside import SCORER as SCORER
from .beside import VERSION as VERSION
from .fold import CuriosityMeasure as CuriosityMeasure
from .fold import fold as fold
from .rules import autonomy_drive as autonomy_drive
from .rules import challenge_level as challenge_level
from .rules import competence_drive as competence_drive
from .rules import curiosity_drive as curiosity_drive
from .rules import drives as drives
from .rules import entropy as entropy
from .rules import exploration_bonus as exploration_bonus
from .rules import exploration_reward as exploration_reward
from .rules import intrinsic_motivation as intrinsic_motivation
from .rules import learning_progress as learning_progress
from .rules import novelty as novelty
from .rules import repetition_penalty as repetition_penalty
from .rules import success_rate as success_rate
from .state import CuriosityState as CuriosityState
