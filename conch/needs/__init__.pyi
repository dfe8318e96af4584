"""Needs: satisfaction levels of an agent, their changes by its events, and the reward for a change."""

from .fold import SCORER as SCORER
from .fold import VERSION as VERSION
from .fold import NeedsMeasure as NeedsMeasure
from .fold import NeedsState as NeedsState
from .fold import fold as fold
from .fold import initial_state as initial_state
from .rules import counted_reward as counted_reward
from .rules import delta_reward as delta_reward
from .rules import most_pressing as most_pressing
from .rules import pressing as pressing
from .rules import starving_factor as starving_factor
from .table import EVENTS as EVENTS
from .table import NeedsTable as NeedsTable
from .table import needs_of as needs_of
from .table import priorities_of as priorities_of
from .table import table_of as table_of
