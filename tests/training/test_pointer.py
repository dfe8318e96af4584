"""The pointer of a lineage: one writer moves it at a time, and a move said twice is one move."""

from __future__ import annotations

import asyncio

from conch.bus import MemoryBus, PolicyRecord, TrialRecord
from conch.training import move_pointer, on_trial, promoted, read_pointer, rolled_back

FIRST, SECOND = "a" * 64, "b" * 64


async def test_without_a_pointer_the_base_acts() -> None:
    """At generation 0, with nothing on trial."""
    assert await read_pointer(MemoryBus(), "echo") == (PolicyRecord(), 0)


async def test_a_promotion_and_a_rollback_are_one_move_each_however_often_they_are_said() -> None:
    """What acted before is named, so that it stays loaded."""
    bus = MemoryBus()
    for _ in range(2):
        await move_pointer(bus, "echo", lambda one: promoted(one, FIRST, 1, why="better"))
        await move_pointer(bus, "echo", lambda one: promoted(one, SECOND, 2, why="better"))
        await move_pointer(bus, "echo", lambda one: promoted(one, SECOND, 2, why="better"))
        now, _ = await read_pointer(bus, "echo")
        assert (now.adapter, now.generation, now.previous) == (SECOND, 2, FIRST)
        await move_pointer(bus, "echo", lambda one: rolled_back(one, SECOND, why="worse"))
        await move_pointer(bus, "echo", lambda one: rolled_back(one, SECOND, why="worse"))
        now, _ = await read_pointer(bus, "echo")
        assert (now.adapter, now.generation, now.previous) == (FIRST, 1, None)
    assert now.move == 5  # the first promotion of the second turn moves nothing: FIRST acts already


async def test_two_writers_at_once_move_one_after_the_other() -> None:
    """Neither move is lost."""
    bus = MemoryBus()
    names = [f"{number:064x}" for number in range(8)]

    await asyncio.gather(
        *(move_pointer(bus, "echo", lambda one, name=name: promoted(one, name, 1, why="")) for name in names)  # type: ignore[misc]
    )

    assert (await read_pointer(bus, "echo"))[0].move == 8


async def test_a_rollback_of_a_candidate_ends_its_trial_and_moves_nothing() -> None:
    """What acts goes on acting."""
    bus = MemoryBus()
    trial = TrialRecord(adapter=SECOND, generation=2, stage="canary", begun=10)
    await move_pointer(bus, "echo", lambda one: promoted(one, FIRST, 1, why=""))
    await move_pointer(bus, "echo", lambda one: on_trial(one, trial))

    before, after = await move_pointer(bus, "echo", lambda one: rolled_back(one, SECOND, why="worse"))

    assert before.trial == trial
    assert (after.adapter, after.trial, after.move) == (FIRST, None, 1)
