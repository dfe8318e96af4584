"""Swaps of adapters with kills: no act bears another adapter than the one that decided it, and no cycle fails."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.swaps import EngineProcess, Swaps

if TYPE_CHECKING:
    from tests.cycle.conftest import CrashingBus, Life

SWAPS = 20


@pytest.mark.parametrize("seed", [0])
async def test_twenty_swaps_with_kills_at_random_leave_every_act_true(
    life: Life, crashing_bus: type[CrashingBus], tmp_path: Path, seed: int
) -> None:
    """Agent and engine are killed between and within questions, proofs and moves of the pointer."""
    engine = EngineProcess()
    engine.start()
    try:
        swaps = Swaps(life, crashing_bus, tmp_path, engine, seed)
        for _ in range(SWAPS):
            await swaps.swap()
    finally:
        engine.kill()
    found = swaps.count()

    assert found.wrong == 0
    assert found.failed == 0
    assert found.cycles >= 3 * SWAPS
    assert found.by_base == 0
    assert found.agent_kills > 0
    assert found.engine_kills > 1
