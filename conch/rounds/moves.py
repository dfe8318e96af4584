"""Moves of the pointer, each with its event: the pointer first, by compare-and-set, then the event.

The id of the event is derived from the number of the move. After a kill between the two the event is missing, and
`say_missing` publishes it from what the pointer says of its last move: nothing is moved twice.
"""

from __future__ import annotations

from typing import Literal, get_args

from conch.bus import PolicyRecord, TrialRecord
from conch.errors import CheckError, TrainingError
from conch.home import Home
from conch.minds import FrozenShelf
from conch.rounds.log import LineageLog
from conch.training import (
    AdapterShelf,
    LineageState,
    move_pointer,
    on_trial,
    promoted,
    read_pointer,
    rolled_back,
    send_adapter,
)
from conch_schemas import AdapterPromoted, AdapterRefused, AdapterRolledBack

Trigger = Literal["worse", "format", "guard", "probe", "load", "person"]


async def promote(
    log: LineageLog, home: Home, adapter: str, *, by: Literal["trial", "person"], why: str, evidence: str = ""
) -> AdapterPromoted:
    """Let an adapter of the lineage, or frozen parameters of the embedded mind, act from the next cycle on; one that
    acts already stays, and its promotion is returned.

    Raises CheckError where the home has no such adapter, whole, or it is of another agent; TrainingError where it acts
    by a move that is not known; ContractError, BusError.
    """
    await say_missing(log)
    made = log.state.made(adapter)
    if made is not None and made.started.method == "bandit":
        FrozenShelf(home.generations(log.agent)).get(adapter)
        generation = made.started.generation
    else:
        generation = await _whole(log, AdapterShelf(home.adapters), adapter)
    _, after = await move_pointer(
        log.bus,
        log.agent,
        lambda before: promoted(before, adapter, generation, why=why, by=by, evidence=evidence),
    )
    said = await say_missing(log, after)
    known = said or next((one for one in reversed(log.state.moves) if one.move == after.move), None)
    if not isinstance(known, AdapterPromoted):
        raise TrainingError(f"the adapter {adapter[:12]} acts already, since a rollback (move {after.move})")
    return known


async def _whole(log: LineageLog, shelf: AdapterShelf, adapter: str) -> int:
    """The generation of an adapter of this lineage, which agents of other machines can have from now on."""
    found = shelf.get(adapter)
    if found.identity.agentuid != log.agentuid:
        raise CheckError(
            f"the adapter {adapter[:12]} was trained for another agent ({found.identity.agentuid}): an adapter "
            f"acts for its own agent alone, {log.agent} is {log.agentuid}"
        )
    await send_adapter(log.bus, shelf, adapter)
    return found.identity.generation


async def roll_back(
    log: LineageLog, adapter: str | None, *, trigger: Trigger, why: str, evidence: str = ""
) -> AdapterRolledBack | None:
    """Take an adapter back: what acted before it acts from the next cycle on. `adapter` None: the one that acts.

    None: it does not act, or its trial was ended. Raises TrainingError where the base acts alone; ContractError,
    BusError.
    """
    await say_missing(log)
    pointer, _ = await read_pointer(log.bus, log.agent)
    meant = adapter or pointer.adapter
    if meant is None:
        raise TrainingError(
            f"there is nothing to roll back to: {log.agent} acts by its base model alone (conch train list)"
        )
    before, after = await move_pointer(
        log.bus, log.agent, lambda record: rolled_back(record, meant, why=why, by=trigger, evidence=evidence)
    )
    if before.trial is not None and before.trial.adapter == meant:
        await refuse_tried(log, before.trial, at="person" if trigger == "person" else before.trial.stage, why=why)
    said = await say_missing(log, after)
    return said if isinstance(said, AdapterRolledBack) else None


async def begin_trial(log: LineageLog, trial: TrialRecord) -> None:
    """Put a candidate on trial; the same again changes nothing. Raises TrainingError where another one is on trial."""
    _, after = await move_pointer(
        log.bus,
        log.agent,
        lambda before: (
            on_trial(before, trial) if before.trial is None or before.trial.adapter == trial.adapter else before
        ),
    )
    if after.trial != trial:
        other = after.trial.adapter[:12] if after.trial is not None else "none"
        raise TrainingError(f"the adapter {other} of {log.agent} is on trial: end its trial first (conch train stop)")


async def end_trial(log: LineageLog, adapter: str) -> None:
    """End the trial of a candidate; the pointer is not moved. A second call changes nothing."""
    await move_pointer(
        log.bus,
        log.agent,
        lambda before: (
            on_trial(before, None) if before.trial is not None and before.trial.adapter == adapter else before
        ),
    )


async def refuse_tried(
    log: LineageLog, trial: TrialRecord, *, at: Literal["shadow", "canary", "person"], why: str
) -> AdapterRefused | None:
    """Set a candidate aside whose trial was ended."""
    round = trial.round or next((one.started.round for one in log.state.rounds if one.adapter == trial.adapter), None)
    if round is None:
        return None
    return await log.publish(AdapterRefused, round, trial.adapter, round=round, adapter=trial.adapter, at=at, why=why)


async def say_missing(
    log: LineageLog, pointer: PolicyRecord | None = None
) -> AdapterPromoted | AdapterRolledBack | None:
    """Publish the event of the pointer's last move where it is missing; None: it is there. Of several missing ones the
    last is published, as the pointer knows no other."""
    if pointer is None:
        pointer, _ = await read_pointer(log.bus, log.agent)
    if pointer.move <= log.state.move:
        return None
    acted = log.state.adapter
    if is_rollback(pointer, log.state):
        trigger: str = pointer.by if pointer.by in get_args(Trigger) else "person"
        assert acted is not None
        return await log.publish(
            AdapterRolledBack,
            pointer.move,
            adapter=acted,
            to=pointer.adapter,
            generation=pointer.generation,
            move=pointer.move,
            trigger=trigger,
            why=pointer.why,
        )
    if pointer.adapter is None:
        return None
    made = log.state.made(pointer.adapter)
    return await log.publish(
        AdapterPromoted,
        pointer.move,
        adapter=pointer.adapter,
        previous=pointer.previous,
        generation=pointer.generation,
        move=pointer.move,
        by="trial" if pointer.by == "trial" else "person",
        round=None if made is None else made.started.round,
        why=pointer.why,
        evidence=pointer.evidence,
    )


def is_rollback(pointer: PolicyRecord, before: LineageState) -> bool:
    """Whether the pointer's last move was one back. A promotion keeps what acted as `previous`, a rollback keeps
    nothing."""
    return before.adapter is not None and pointer.previous is None and pointer.adapter != before.adapter
