"""The live stream over HTTP: its messages, where it begins, and that nobody who stops reading harms anybody."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.dashboard.conftest import Dashboard


@dataclass
class Said:
    """One message of the stream."""

    event: str
    id: int | None
    data: Any


@asynccontextmanager
async def listening(
    dashboard: Dashboard, query: str = "", last: str | None = None
) -> AsyncIterator[AsyncIterator[Said]]:
    """The messages of `/live`, as a browser would have them."""
    headers = {"accept": "text/event-stream"} | ({"last-event-id": last} if last is not None else {})
    async with dashboard.client.stream("GET", f"/live{query}", headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield _messages(answer.aiter_lines())


async def _messages(lines: AsyncIterator[str]) -> AsyncIterator[Said]:
    told: dict[str, str] = {}
    async for line in lines:
        if line:
            name, _, value = line.partition(": ")
            told[name] = value
        elif "data" in told:
            place = int(told["id"]) if "id" in told else None
            yield Said(told.get("event", "message"), place, json.loads(told["data"]))
            told = {}


async def facts(messages: AsyncIterator[Said], upto: int) -> list[Said]:
    """The facts up to that place of the stream."""
    found = []
    async with asyncio.timeout(30):
        async for said in messages:
            if said.id is not None:
                found.append(said)
                if said.id >= upto:
                    return found
    return found


async def test_what_happens_is_on_the_stream_of_a_page(dashboard: Dashboard) -> None:
    """The state of the bus first, then every fact of a cycle, its id its place, up to the experience with its total."""
    async with listening(dashboard) as messages:
        async with asyncio.timeout(30):
            first = await anext(messages)
        [recorded] = await dashboard.live()
        said = await facts(messages, dashboard.shared_events.bus.journal.last)  # type: ignore[attr-defined]

    kinds = [one.data["kind"] for one in said]
    assert (first.event, first.data) == ("bus", {"state": "live"})
    assert [one.id for one in said] == [one.data["seq"] for one in said] == sorted({one.data["seq"] for one in said})
    assert {"thought.formed", "action.taken", "reward.assigned", "needs.changed"} <= set(kinds)
    assert kinds.index("action.taken") < kinds.index("experience.recorded")
    total = next(one.data for one in said if one.data["kind"] == "experience.recorded")
    assert (total["total"], total["cycle"]) == (recorded.total, recorded.cycle)
    assert (total["scored"], total["parts"]) == (5, 5)


async def test_a_browser_that_comes_again_goes_on_behind_what_it_had(dashboard: Dashboard) -> None:
    """Last-Event-ID goes before the address of the page; what was said meanwhile comes, once."""
    await dashboard.live()
    middle = dashboard.bus.journal.last
    await dashboard.live()
    end = dashboard.bus.journal.last

    async with listening(dashboard, "?after=3", last=str(middle)) as messages:
        said = await facts(messages, end)

    assert min(one.id or 0 for one in said) > middle
    assert len([one for one in said if one.data["kind"] == "experience.recorded"]) == 1


@pytest.mark.parametrize("place", ["-1", "x", "1e3", "9" * 40, "٣", "", "%00"])
async def test_a_place_that_is_none_is_the_end(dashboard: Dashboard, place: str) -> None:
    """Nothing of the past is told, and nothing breaks."""
    end = dashboard.bus.journal.last
    async with listening(dashboard, f"?after={place}") as messages:
        async with asyncio.timeout(30):
            await anext(messages)
        await dashboard.live()
        said = await facts(messages, end + 1)

    assert (said[0].id or 0) > end


async def test_a_place_beyond_the_end_begins_the_page_anew(dashboard: Dashboard) -> None:
    """The stream was made anew since: the page is told so."""
    async with listening(dashboard, "?after=999999999") as messages, asyncio.timeout(30):
        said = [await anext(messages), await anext(messages)]

    assert [one.event for one in said] == ["bus", "anew"]


async def test_pages_that_stop_reading_delay_nobody(dashboard: Dashboard) -> None:
    """Twenty that read nothing: another page has every fact."""
    port = urlsplit(dashboard.address).port
    cookies = "; ".join(f"{name}={value}" for name, value in dashboard.cookies.items())
    stuck = []
    for _ in range(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        writer.write(
            f"GET {dashboard.prefix}/live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookies}\r\n\r\n".encode()
        )
        stuck.append((reader, writer))
    start = dashboard.bus.journal.last

    async with listening(dashboard, f"?after={start}") as messages:
        for _ in range(20):
            await dashboard.live()
        said = await facts(messages, dashboard.bus.journal.last)

    for _, writer in stuck:
        writer.close()
    assert len([one for one in said if one.data["kind"] == "experience.recorded"]) == 20


async def test_one_page_too_many_is_told_when_to_ask_again(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a problem, like all that is refused."""
    monkeypatch.setattr("conch_services.dashboard.stream.live.MOST_PAGES", 1)
    async with listening(dashboard) as messages, asyncio.timeout(30):
        await anext(messages)
        refused = await dashboard.client.get("/live")

    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert refused.headers["content-type"] == "application/problem+json"
    assert "close some" in refused.json()["detail"]


async def test_a_page_is_told_when_the_bus_is_away(dashboard: Dashboard) -> None:
    """In a sentence, while the connection stays."""
    async with listening(dashboard) as messages, asyncio.timeout(30):
        await anext(messages)
        dashboard.world.hub.say("the bus does not answer")
        said = await anext(messages)

    assert (said.event, said.data) == ("bus", {"state": "the bus does not answer"})
