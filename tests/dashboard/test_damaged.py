"""Small files of a home that are damaged, or were written by hand: every page answers, and says what is wrong."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from conch.cli import ui
from conch.config import Settings, UiSettings
from conch.consumer import ServiceContext
from conch.home import Home
from conch_services.dashboard.page import MENU
from conch_services.dashboard.service import DashboardService
from tests.conftest import Until
from tests.dashboard.conftest import Dashboard, Seeded

PAGES = (
    *(entry.path for entry in MENU),
    *("/cycles/3", "/rewards/component/execution", "/review/rows", "/witness/3", "/api/v1/status"),
)
GARBAGE = {
    "empty": b"",
    "binary": b"\xff\xfe\x00\x80",
    "list": b"[1, null, {}]",
    "object": b"{}",
    "deep": b"[" * 100_000,
    "wrong types": b'{"pid": 7, "agents": "echo", "processes": {"name": "agent"}}',
    "no names": b'{"pid": 7, "agents": ["../../etc", "a b"]}',
    "no rules": b'{"pid": 7, "rules": [{}, {"name": "execution", "origin": 5}]}',
    "no place": b'{"pid": 7, "config": "/\\u0000"}',
    "cut": b'{"pid": 4711, "agents": ["echo"], "bus": {"url": "nats://127.0',
}
BY_HAND: dict[str, dict[str, Any]] = {
    "no bus": {},
    "no address": {"bus": {"url": "", "token": "t", "user": "conch"}},
    "half an address": {"bus": {"url": "nats://["}},
    "no port": {"bus": {"url": "nats://127.0.0.1:99999", "token": "t"}},
    "odd names": {
        "agents": ["echo", "unheard-of"],
        "consumers": ["", "\0", "x" * 300],
        "processes": [{"name": "", "pid": -5, "state": "odd"}, {"name": "agent", "pid": 10**30, "state": "up"}],
        "set_aside": [{"origin": "\x1b[31m", "why": "<script>"}],
    },
    "an odd rule": {"rules": [{"name": "execution", "origin": "/\0.py", "doc": "<script>", "newer": 1}]},
    "odd places": {"ui": "http://[", "metrics": "::", "workspace": "\n", "started": "yesterday", "config": "/"},
}


@contextmanager
def owned(home: Home, pid: int) -> Iterator[None]:
    """The home is owned by this test's process, which says to be that one."""
    with home.owned():
        (home.path / "lock").write_text(str(pid))
        yield


async def assert_answered(client: httpx2.AsyncClient) -> None:
    """Every page answers."""
    answers = {path: (await client.get(path)).status_code for path in PAGES}
    assert answers == dict.fromkeys(PAGES, 200)


@pytest.mark.parametrize("name", BY_HAND)
async def test_a_run_json_that_was_written_by_hand_breaks_no_page(dashboard: Dashboard, name: str) -> None:
    """Whatever it says of bus, agents, rules, processes and files; and it is of a process that is no run."""
    home = dashboard.seeded.home
    home.run_file.write_text(json.dumps({"pid": 1, **BY_HAND[name]}))
    with owned(home, 1):
        assert home.running() is not None
        await assert_answered(dashboard.client)


async def test_the_page_of_the_bus_says_that_an_address_is_none(dashboard: Dashboard) -> None:
    """In the sentence in which it names the address."""
    home = dashboard.seeded.home
    home.run_file.write_text(json.dumps({"pid": 1, "bus": {"url": "nats://127.0.0.1:99999", "token": "t"}}))
    with owned(home, 1):
        answer = await dashboard.client.get("/bus")

    assert "no bus at nats://127.0.0.1:99999: nats: invalid connect url option" in answer.text
    assert answer.status_code == 200


@pytest.mark.parametrize("name", GARBAGE)
async def test_conch_ui_says_that_run_json_is_damaged(
    seeded: Seeded, until: Until, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The run in progress is not found: no page says that there is none, and once it is over all do."""
    monkeypatch.setattr(ui, "LOOK_SECONDS", 0.01)
    home, settings = seeded.home, Settings(ui=UiSettings(port=0, unsafe_allow_unauthenticated=True))
    service = DashboardService(ServiceContext(settings, home.path))
    state: Callable[[], str] = lambda: service._world.hub.state  # noqa: E731 - it is looked at again and again
    home.run_file.write_bytes(GARBAGE[name])
    async with service.serving(), httpx2.AsyncClient(base_url=service.address or "") as client:
        following = asyncio.create_task(ui._follow(service, settings, home))
        try:
            with owned(home, os.getpid()):
                await until(lambda: "run.json is damaged" in state() or following.done())
                shown = (await client.get("/bus")).text
                await assert_answered(client)
            await until(lambda: "no run is in progress" in state())
        finally:
            following.cancel()
            await asyncio.wait([following])

    assert f"{home.run_file} is damaged, so a run in progress would not be found" in shown


async def test_damaged_small_files_break_no_page(dashboard: Dashboard) -> None:
    """Nor do directories in their place."""
    files = [
        dashboard.seeded.home.path / name
        for name in ("acknowledged.json", "checkpoints.jsonl", "filled.json", "forget.json", "ui/address")
    ]
    for name in ("binary", "list", "deep"):
        for file in files:
            file.write_bytes(GARBAGE[name])
        await assert_answered(dashboard.client)
    for file in files:
        file.unlink()
        file.mkdir()
    await assert_answered(dashboard.client)


@pytest.mark.parametrize("name", ["binary", "list", "deep"])
async def test_the_page_of_alarms_says_what_is_damaged(dashboard: Dashboard, name: str) -> None:
    """The file of those that were acknowledged, and what to do about it."""
    file = dashboard.seeded.home.acknowledged_file
    file.write_bytes(GARBAGE[name])

    shown = (await dashboard.client.get("/alarms")).text

    assert f"{file} cannot be read" in shown
    assert "remove it, and acknowledge its alarms anew" in shown
