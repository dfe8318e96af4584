"""How the workers of one consumer share its agents: positions, membership, lag."""

from . import lag as lag
from .lag import ReaderLag as ReaderLag
from .lag import forget as forget
from .lag import report_position as report_position
from .lag import standings as standings
from .membership import Membership as Membership
from .membership import joined as joined
from .membership import own_name as own_name
from .membership import signs as signs
from .position import holder_of as holder_of
from .position import take_position as take_position
from .shared import SharedConsumer as SharedConsumer
