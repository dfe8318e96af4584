"""Simulated tasks of a team, whose best topology differs by phase and by task: to compare controllers. Pure."""

from .compare import CONTROLLERS as CONTROLLERS
from .compare import HINDSIGHT as HINDSIGHT
from .compare import ControllerResult as ControllerResult
from .compare import MeanInterval as MeanInterval
from .compare import best_fixed as best_fixed
from .compare import compared as compared
from .compare import gain as gain
from .compare import intervals as intervals
from .play import PlayedEpisode as PlayedEpisode
from .play import played as played
from .tasks import TASKS as TASKS
from .tasks import SimulatedPhase as SimulatedPhase
from .tasks import SimulatedTask as SimulatedTask
