"""The eight features that the controller sees. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from conch.teams.coordinator import DWELL_STEPS
from conch.teams.topology import TOPOLOGIES

WINDOW: Final = 32
"""Finished steps whose messages count for the shares, besides those of the step in progress."""
FEATURES: Final = ("star", "chain", "flat", "dwelt", "planner", "coder_runner", "critic", "headroom")
"""Their names, in order."""
_SHARES: Final = {"planner": 0, "coder": 1, "runner": 1, "critic": 2}

Shares = tuple[float, float, float]


def feature_vector(
    topology: str,
    steps_since_switch: int,
    senders: Iterable[str],
    tokens_used: int,
    token_budget: int,
    *,
    dwell: int = DWELL_STEPS,
) -> tuple[float, ...]:
    """Eight features, each 0..1, in the order of FEATURES.

    Three bits of the topology (an unknown one has none), min(1, steps since the switch ÷ dwell), the shares of the
    senders, and the headroom of tokens max(0, 1 − used ÷ budget). A dwell or a budget of 0 gives 0 for its feature.
    """
    bits = (float(topology == one) for one in TOPOLOGIES)
    dwelt = min(1.0, steps_since_switch / dwell) if dwell > 0 else 0.0
    headroom = max(0.0, 1.0 - tokens_used / token_budget) if token_budget > 0 else 0.0
    return (*bits, dwelt, *role_shares(senders), headroom)


def window_shares(steps: Sequence[Sequence[str]], uncommitted: Sequence[str] = (), window: int = WINDOW) -> Shares:
    """The shares of the last `window` finished steps and of the step in progress. `steps`: the senders of each finished
    step's messages, the oldest first."""
    recent = steps[-window:] if window > 0 else ()
    return role_shares([sender for step in (*recent, uncommitted) for sender in step])


def role_shares(senders: Iterable[str]) -> Shares:
    """The shares of planner, coder and runner together, and critic; other senders do not count. All 0 without one."""
    counts = [0, 0, 0]
    for sender in senders:
        if (place := _SHARES.get(sender)) is not None:
            counts[place] += 1
    total = sum(counts) or 1
    return counts[0] / total, counts[1] / total, counts[2] / total
