"""Watchers against reward hacking: what the newest experiences of an agent look like beside the earlier ones."""

from conch.rewards.watch.figures import rank_shift, variance_shares
from conch.rewards.watch.fold import CONSUMER, VERSION, Change, fold
from conch.rewards.watch.look import Finding, look
from conch.rewards.watch.state import Active, Composed, WatchState, amounts

__all__ = [
    "CONSUMER",
    "VERSION",
    "Active",
    "Change",
    "Composed",
    "Finding",
    "WatchState",
    "amounts",
    "fold",
    "look",
    "rank_shift",
    "variance_shares",
]
