"""What stays of rounds: the adapters that may act again, the data that are replayed, the evidence of each."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from typing import Final

from conch.errors import CheckError
from conch.home import Home
from conch.log import get_logger
from conch.rounds.log import retained
from conch.rounds.making.plan import RoundPlan, data_folder, round_folder
from conch.rounds.making.prepare import HELD_OUT
from conch.training import AdapterShelf, LineageState

log = get_logger(__name__)

REPLAYED: Final = 3
"""Newest rounds of a lineage with an adapter whose data sets stay, as later rounds train on some of their rows."""


def tidy_rounds(home: Home, states: Iterable[LineageState], keep: int) -> list[str]:
    """Remove the adapters beyond `training.keep`, and of ended rounds the held-out decisions and the child's files; the
    plan, the log and the evidence stay. `states`: of all lineages of the home. Returns the removed adapters.

    Raises OSError.
    """
    known = list(states)
    gone = AdapterShelf(home.adapters).keep(retained(known, keep))
    if gone:
        log.info("training.adapters_removed", adapters=[one[:12] for one in gone])
    needed, made = set[str](), set[str]()
    for state in known:
        finished = [one for one in state.rounds if one.finished is not None][-REPLAYED:]
        for one in state.rounds:
            plan = _plan(home, one.started.round)
            if plan is not None:
                made |= set(plan.made)
                needed |= set(_names(plan)) if one.is_open or one in finished else set()
            if not one.is_open:
                for name in (HELD_OUT, "adapter", ".adapter.work"):
                    shutil.rmtree(round_folder(home, one.started.round) / name, ignore_errors=True)
    for name in made - needed:
        shutil.rmtree(data_folder(home) / name, ignore_errors=True)
    return gone


def _plan(home: Home, round: str) -> RoundPlan | None:
    try:
        return RoundPlan.read(home, round)
    except CheckError:
        return None


def _names(plan: RoundPlan) -> list[str]:
    return [one for one in (plan.snapshot_name, plan.format_snapshot_name, plan.replay) if one is not None]
