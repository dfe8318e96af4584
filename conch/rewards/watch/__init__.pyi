"""Watchers against reward hacking: what the newest experiences of an agent look like beside the earlier ones."""

from .figures import rank_shift as rank_shift
from .figures import variance_shares as variance_shares
from .fold import CONSUMER as CONSUMER
from .fold import VERSION as VERSION
from .fold import AlarmChange as AlarmChange
from .fold import fold as fold
from .look import WORK as WORK
from .look import WatchFinding as WatchFinding
from .look import look as look
from .state import ActiveAlarm as ActiveAlarm
from .state import ComposedReward as ComposedReward
from .state import WatchState as WatchState
from .state import amounts as amounts
from .words import MEANINGS as MEANINGS
from .words import Severity as Severity
from .words import alarm_name as alarm_name
from .words import bounds as bounds
from .words import severity as severity
