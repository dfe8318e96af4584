"""The store service, cancelled while its thread works."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from conch.bus import MemoryBus, shared_subscription
from conch.config import Settings
from conch.consumer import ServiceContext
from conch.experience import SqliteStore
from conch_services.store.consumer import StoreService


async def test_a_cancelled_store_is_closed_after_the_call_in_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite crashes the process where one thread closes a connection that another one uses."""
    order: list[str] = []
    entered, go_on, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()
    close = SqliteStore.close

    def set_epoch(_: SqliteStore, __: str) -> None:
        loop.call_soon_threadsafe(entered.set)
        go_on.wait(30)
        order.append("done")

    def closed(store: SqliteStore) -> None:
        order.append("closed")
        close(store)

    monkeypatch.setattr(SqliteStore, "set_epoch", set_epoch)
    monkeypatch.setattr(SqliteStore, "close", closed)

    async with MemoryBus() as bus, shared_subscription(bus) as shared_events:
        service = StoreService(ServiceContext(Settings(), tmp_path))
        running = asyncio.create_task(service.run(shared_events, asyncio.Event()))
        await entered.wait()
        running.cancel()
        await asyncio.wait([running], timeout=0.2)  # as long as closing it would take
        go_on.set()
        await asyncio.wait([running])

    assert running.cancelled()
    assert order == ["done", "closed"]
