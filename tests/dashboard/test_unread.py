"""A history that cannot be read is no empty one: every page says in a banner what is wrong with it."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from conch.experience import SqliteReader, StoreLocation
from tests.dashboard.conftest import Dashboard
from tests.dashboard.document import parsed

PAGES = (
    "/",
    "/overview",
    "/cycles",
    "/cycles/3",
    "/rewards",
    "/needs",
    "/training",
    "/review",
    "/witness",
    "/witness/3",
    "/bus",
)
NOT_FOUND = 404
UNREAD = 503


def damage(dashboard: Dashboard) -> None:
    """Write over all of the store but its head."""
    store = dashboard.world.store.file
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = store.stat().st_size
    with store.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xa5" * (size - 8192))


async def assert_told(dashboard: Dashboard, path: str, sentence: str) -> None:
    """The page says it in a banner, and never that there is nothing yet; of one cycle or mark nobody knows."""
    answer = await dashboard.client.get(path)
    banners = [one.text for one in parsed(answer.text).all("p", class_="banner")]

    assert [one for one in banners if sentence in one], (path, banners)
    for words in ("No cycles yet", "No reward yet", "No mark yet", "There is no cycle", "Nothing left to look at"):
        assert words not in answer.text, path
    assert answer.status_code == (UNREAD if path in ("/cycles/3", "/witness/3") else 200), path


@pytest.mark.parametrize("path", PAGES)
async def test_a_damaged_store_is_named_by_every_page(dashboard: Dashboard, path: str) -> None:
    """With what is wrong and what to do."""
    damage(dashboard)

    await assert_told(dashboard, path, f"The experience store {dashboard.world.store.file} is damaged")


async def test_a_locked_store_is_named_and_read_again_once_it_is_free(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the sentence that says who has it; with the lock gone the same page is there again."""
    monkeypatch.setattr(StoreLocation, "reader", lambda place: SqliteReader(place.file, timeout=0.0))
    with closing(sqlite3.connect(dashboard.world.store.file, isolation_level=None)) as holder:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        for path in PAGES:
            await assert_told(dashboard, path, "is being written by another process")
        holder.execute("ROLLBACK")

    assert (await dashboard.client.get("/cycles/3")).status_code == 200


async def test_a_store_that_was_moved_aside_is_read_no_more(dashboard: Dashboard) -> None:
    """As its sentence advises: then the page says that there is none yet."""
    damage(dashboard)
    await dashboard.client.get("/")
    for file in dashboard.world.store.file.parent.glob("store.db*"):
        file.unlink()

    answer = await dashboard.client.get("/cycles/3")

    assert answer.status_code == NOT_FOUND
    assert "there are no experiences" in answer.text
