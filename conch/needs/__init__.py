"""Needs: satisfaction levels of an agent, their changes by its events, and the reward for a change."""

from conch.needs.fold import SCORER, VERSION, NeedsMeasure, NeedsState, fold, initial_state
from conch.needs.rules import counted_reward, delta_reward, most_pressing, pressing
from conch.needs.table import EVENTS, NeedsTable, needs_of, priorities_of, table_of

__all__ = [
    "EVENTS",
    "SCORER",
    "VERSION",
    "NeedsMeasure",
    "NeedsState",
    "NeedsTable",
    "counted_reward",
    "delta_reward",
    "fold",
    "initial_state",
    "most_pressing",
    "needs_of",
    "pressing",
    "priorities_of",
    "table_of",
]
