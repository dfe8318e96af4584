"""Homes with cycles in them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import conch
from conch.experience import SqliteStore
from conch.home import Home
from conch.testing import make_action_taken

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MakeHome = Callable[..., Awaitable[Path]]
FillHome = Callable[..., Path]


@pytest.fixture
def make_home(tmp_path: Path) -> MakeHome:
    """`await make_home(replies)`: the directory of a home in which a scripted agent lived."""

    async def make(replies: Sequence[str] = ("DO_NOTHING: rest",)) -> Path:
        home = tmp_path / "home"
        async with conch.MemoryBus() as bus, conch.running(bus, mind=replies, home=home) as run:
            await run.finished()
        return home

    return make


@pytest.fixture
def fill_home(tmp_path: Path) -> FillHome:
    """`fill_home(echo=250, bee=3)`: a home with so many cycles of each agent, a minute apart from NOON on."""

    def fill(**cycles: int) -> Path:
        home = Home(tmp_path / "filled")
        home.make()
        store = SqliteStore(home.path / "store.db")
        acts = [
            make_action_taken(cycle, agent, time=NOON + timedelta(minutes=cycle))
            for agent, number in cycles.items()
            for cycle in range(number)
        ]
        store.apply(list(enumerate(acts, 1)), upto=len(acts), now=NOON + timedelta(days=1))
        while store.expire(NOON + timedelta(days=2)):
            pass
        store.close()
        return home.path

    return fill
