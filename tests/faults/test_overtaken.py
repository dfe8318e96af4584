"""Folds whose workers are stopped, woken and killed at any moment: nothing lost, nothing doubled, no chain forks."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import structlog

from conch.bus import MemoryBus
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.bus.server import EmbeddedServer
from conch.consumer import ConsumerSpec
from tests.conftest import TOKEN
from tests.faults.overtaken import AGENTS, QUICK, Life, as_undisturbed, folds, life

FOLDS = ("witness", "needs", "curiosity", "progress", "watch", "count", "rule-ordinal", "rule-window")
SEEDS = int(os.environ.get("CONCH_TEST_SEEDS", "6"))
"""Lives of each fold in memory, at the same time."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, values in QUICK.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


@pytest.mark.parametrize("name", FOLDS)
async def test_a_fold_whose_workers_are_overtaken_ends_as_one_that_was_left_alone(name: str, tmp_path: Path) -> None:
    """Whatever was in hand when a worker stopped, and whenever it wakes: the same facts, each once, the same state."""
    spec = folds(tmp_path)[name]

    async def lived(seed: int) -> list[str]:
        async with MemoryBus() as bus:
            return await _life(spec, tmp_path, lambda: nullcontext(bus), seed).live()

    wrong = await asyncio.gather(*(lived(seed) for seed in range(SEEDS)))

    assert [one for some in wrong for one in some] == []


@pytest.mark.parametrize("name", FOLDS)
async def test_on_a_server_an_overtaken_fold_ends_as_one_that_was_left_alone(
    name: str, tmp_path: Path, nats_server: EmbeddedServer
) -> None:
    """The same, where what a worker had asked for is on its way while it stands still."""
    spec = folds(tmp_path)[name]
    one = _life(spec, tmp_path, lambda: JetStreamBus(Access(nats_server.url, token=TOKEN)), seed=SEEDS)

    wrong = await one.live()

    assert wrong == []


def _life(spec: ConsumerSpec, home: Path, entered: Callable[[], Any], seed: int) -> Life:
    told = {agent: life(spec, home, agent) for agent in AGENTS}
    return Life(spec, told, as_undisturbed(spec), entered, seed)
