"""Watchers against reward hacking: statistics of an agent's newest experiences compared with earlier ones."""

from conch.rewards.watch.figures import rank_shift, variance_shares
from conch.rewards.watch.fold import CONSUMER, VERSION, AlarmChange, fold
from conch.rewards.watch.look import WatchFinding, look
from conch.rewards.watch.state import ActiveAlarm, ComposedReward, WatchState, amounts
from conch.rewards.watch.words import MEANINGS, bounds

__all__ = [
    "CONSUMER",
    "MEANINGS",
    "VERSION",
    "ActiveAlarm",
    "AlarmChange",
    "ComposedReward",
    "WatchFinding",
    "WatchState",
    "amounts",
    "bounds",
    "fold",
    "look",
    "rank_shift",
    "variance_shares",
]
