"""The pointer of a lineage: which adapter of an agent acts. Moved by compare-and-set, one move at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conch.bus import Bus, PolicyRecord, TrialRecord, policy_key
from conch.errors import ContractError, FencedError

TRIES: Final = 20
"""Compare-and-sets of one move that another writer may win; then the move is given up."""


async def read_pointer(bus: Bus, agent: str) -> tuple[PolicyRecord, int]:
    """The pointer of an agent with its revision; without one the base acts, at revision 0. Raises ContractError where
    it cannot be read."""
    entry = await bus.get(policy_key(agent))
    if entry is None:
        return PolicyRecord(), 0
    return (PolicyRecord.decode(entry.value) if entry.value else PolicyRecord()), entry.revision


async def move_pointer(
    bus: Bus, agent: str, change: Callable[[PolicyRecord], PolicyRecord]
) -> tuple[PolicyRecord, PolicyRecord]:
    """Apply `change` to the pointer: (what stood there, what stands there now). `change` is called again where another
    writer was first. What it returns unchanged is not written. Raises ContractError, BusError."""
    for _ in range(TRIES):
        before, revision = await read_pointer(bus, agent)
        if (after := change(before)) == before:
            return before, before
        try:
            await bus.put(policy_key(agent), after.encode(), revision=revision)
        except FencedError:
            continue
        return before, after
    raise ContractError(f"the pointer of {agent}'s adapters was moved by others {TRIES} times in a row: try again")


def promoted(
    before: PolicyRecord, adapter: str, generation: int, *, why: str, by: str = "", evidence: str = ""
) -> PolicyRecord:
    """The pointer with this adapter as the one that acts. Of the one that acts already nothing changes, but that a
    trial ends."""
    if before.adapter == adapter:
        return before.model_copy(update={"trial": None})
    return before.model_copy(
        update={
            "move": before.move + 1,
            "adapter": adapter,
            "generation": generation,
            "previous": before.adapter,
            "previous_generation": before.generation,
            "trial": None,
            "by": by,
            "why": why,
            "evidence": evidence,
        }
    )


def rolled_back(before: PolicyRecord, adapter: str, *, why: str, by: str = "", evidence: str = "") -> PolicyRecord:
    """The pointer without this adapter: what acted before it acts again; of a candidate the trial ends. Where it does
    not act nothing changes, so a second call moves nothing."""
    if before.trial is not None and before.trial.adapter == adapter:
        return before.model_copy(update={"trial": None})
    if before.adapter != adapter:
        return before
    return before.model_copy(
        update={
            "move": before.move + 1,
            "adapter": before.previous,
            "generation": before.previous_generation,
            "previous": None,
            "previous_generation": 0,
            "trial": None,
            "by": by,
            "why": why,
            "evidence": evidence,
        }
    )


def on_trial(before: PolicyRecord, trial: TrialRecord | None) -> PolicyRecord:
    """The pointer with this trial; None: with none."""
    return before.model_copy(update={"trial": trial})
