"""Pages about cycles and marks that retention removed, and a disk that fills up."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from conch.experience import RetentionLimits, SqliteStore
from conch.experience.queries import prune
from tests.dashboard.conftest import CYCLES, Dashboard
from tests.dashboard.test_witness import found

REMOVED = datetime(2027, 1, 2, 12, tzinfo=UTC)
SENTENCE = "Cycle 2 of echo was removed by store.keep.days on 2027-01-02."


@pytest.fixture
def bounded(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> Dashboard:
    """A dashboard over a store of which the newest five cycles are left."""
    monkeypatch.setattr(prune, "KEPT_CYCLES", 5)
    with SqliteStore(dashboard.world.store.file) as store:
        while store.prune(RetentionLimits(seconds=1.0), REMOVED).acts:
            pass
    return dashboard


async def test_a_removed_cycle_is_a_sentence(bounded: Dashboard) -> None:
    """On its page and in the API: when it was removed and by what, with status 404."""
    page = await bounded.client.get("/cycles/2")
    answer = await bounded.client.get("/api/v1/cycles/2")

    assert (page.status_code, answer.status_code) == (404, 404)
    assert SENTENCE.removesuffix(".") in page.text
    assert answer.json()["detail"] == SENTENCE


async def test_the_chain_holds_behind_removed_marks(bounded: Dashboard, until: Callable[..., Awaitable[None]]) -> None:
    """The page and the API say which marks were removed."""
    verdict = await found(bounded, until)
    answer = (await bounded.client.get("/api/v1/marks/verify")).json()

    assert "marks of 5 acts hold" in verdict.text
    assert "Marks 0 to " in verdict.text
    assert "were removed by store.keep on 2027-01-02" in verdict.text
    assert (answer["ok"], answer["acts"], answer["removed"]["first"]) == (True, 5, 0)


async def test_the_pages_of_a_bounded_store_are_whole(bounded: Dashboard) -> None:
    """Each of them is shown from what is left, and figures over everything still count everything."""
    for path in ("/", "/cycles", "/rewards", "/needs", "/witness", "/witness?before=3", "/review", "/training"):
        assert (await bounded.client.get(path)).status_code == 200, path

    status = (await bounded.client.get("/api/v1/status")).json()
    assert (status["figures"]["count"], status["store"]["removed"]) == (CYCLES, CYCLES - 5)


async def test_a_disk_that_fills_up_is_an_alert_on_the_bus_page(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what to do about it."""
    full = shutil.disk_usage("/")._replace(used=90 * 2**30, free=10 * 2**30)
    monkeypatch.setattr("conch.disk.shutil.disk_usage", lambda _: full)

    answer = await dashboard.client.get("/bus")

    assert "is 90% full, 10.0 GiB are free: bound what is kept (store.keep.days" in answer.text
