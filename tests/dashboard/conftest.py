"""A history, the dashboard over it on a free port, somebody logged in, and a browser.

All tests of this folder run in one event loop, that of the session: the browser is started once.
"""

from __future__ import annotations

import asyncio
import functools
import re
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, ViewportSize, async_playwright, expect

from conch.auth import LoginTokens, session_audience, session_cookie, session_prefix, signed_session
from conch.bus import MemoryBus, MemoryJournal, SharedSubscription, shared_subscription
from conch.config import Settings, UiSettings
from conch.consumer import ServiceContext
from conch.experience import SqliteStore
from conch.home import Home
from conch_schemas import Event, ExperienceRecorded, encode, subject_of
from conch_services.dashboard import api
from conch_services.dashboard.service import DashboardService
from conch_services.dashboard.story import page as story_page
from conch_services.dashboard.world import DashboardContext
from tests.conftest import Until
from tests.dashboard.life import Life

CHROMIUM = "/usr/bin/chromium"
PATIENCE = 30.0
"""Seconds for a page to come, and to show what it is expected to."""
CYCLES = 60
"""Of the seeded history: every 13th is full of hostile text, of the 20th a score never came."""
HOUR = timedelta(hours=1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One loop for all: a browser belongs to the loop that it was started in."""
    for item in items:
        if Path(__file__).parent in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@dataclass
class Seeded:
    """A home with a store, and the stream that the store was made from: each fact has the same place in both."""

    home: Home
    life: Life
    journal: MemoryJournal = field(default_factory=MemoryJournal)
    recorded: list[ExperienceRecorded] = field(default_factory=list)
    """Every experience as it was first recorded or revised, in that order."""

    async def add(self, bus: MemoryBus, facts: Sequence[Event], *, record: bool = True) -> list[ExperienceRecorded]:
        """Put facts on the bus, then into the store, then what that records on the bus: as a run does.

        `record=False`: on the bus alone. Returns what was recorded.
        """
        placed = [((await bus.publish(subject_of(one), encode(one), id=one.id)).seq, one) for one in facts]
        if not record or not placed:
            return []
        with SqliteStore(self.home.path / "store.db") as store:
            store.set_epoch((await bus.state()).epoch)
            made = store.apply(placed, upto=placed[-1][0], now=placed[-1][1].time + HOUR)
            for one in made:
                await bus.publish(subject_of(one), encode(one), id=one.id)
            store.mark_published([one.id for one in made])
        self.recorded += made
        return list(made)


@pytest.fixture(scope="session", autouse=True)
def _described_once() -> Iterator[None]:
    """The OpenAPI document is the same in every dashboard; to generate it takes longer than all else at its start."""
    generate = api._described
    generated = functools.cache(lambda: generate(api._routed()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "_described", lambda _: generated())
        yield


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def lived(tmp_path_factory: pytest.TempPathFactory) -> Seeded:
    """What `seeded` is a copy of, made once."""
    home = Home(tmp_path_factory.mktemp("lived") / "home")
    home.make()
    made = Seeded(home, Life())
    home.agent_dir(made.life.agent).mkdir()
    (home.agent_dir(made.life.agent) / "agentuid").write_text(made.life.uid)
    facts: list[Event] = [made.life.weights()]
    for number in range(1, CYCLES + 1):
        facts += made.life.cycle(hostile=number % 13 == 0, silent="curiosity" if number == 20 else None)
    async with MemoryBus(made.journal) as bus:
        await made.add(bus, facts)
    return made


@pytest.fixture
def seeded(lived: Seeded, tmp_path: Path) -> Seeded:
    """A home in which `echo` has lived for CYCLES cycles."""
    shutil.copytree(lived.home.path, tmp_path / "home")
    stored = lived.journal  # what it holds is frozen: only what holds it is copied
    journal = replace(stored, events=dict(stored.events), ids=dict(stored.ids), bucket=dict(stored.bucket), durables={})
    return Seeded(Home(tmp_path / "home"), lived.life.copy(), journal, list(lived.recorded))


@dataclass
class Dashboard:
    """The dashboard as it serves, and all that a test may reach it by."""

    address: str
    """`http://127.0.0.1:PORT`."""
    client: httpx2.AsyncClient
    """Logged in, under the prefix; paths are enough: `await dashboard.client.get("/cycles")`."""
    service: DashboardService
    world: DashboardContext
    bus: MemoryBus
    shared_events: SharedSubscription
    seeded: Seeded
    prefix: str
    """The path that the pages of sessions stand under."""
    cookies: dict[str, str] = field(default_factory=dict)
    """What a browser that is logged in sends, to what stands under the prefix."""

    @property
    def life(self) -> Life:
        """Whose cycles `live` goes on with."""
        return self.seeded.life

    async def live(self, facts: Sequence[Event] | None = None, *, record: bool = True) -> list[ExperienceRecorded]:
        """One more cycle, or these facts, on the bus and in the store; what that records."""
        return await self.seeded.add(self.bus, self.life.cycle() if facts is None else facts, record=record)

    async def hub_at(self, seq: int) -> None:
        """Once the hub has taken everything up to this place."""
        async with asyncio.timeout(30):
            while self.shared_events.seq < seq:
                await asyncio.sleep(0.002)


@pytest.fixture(autouse=True)
def _life_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, a page has the life that it shows."""
    monkeypatch.setattr(story_page, "LIFE_SECONDS", 60.0)


@pytest.fixture
def settings() -> Settings:
    """Of the dashboard: override it in a test's file to set more."""
    return Settings(ui=UiSettings(port=0))


def logged_in(home: Home, port: int) -> dict[str, str]:
    """The cookie of a session of the page that shows this home at this port."""
    key = LoginTokens(home).key()
    return {session_cookie(port): signed_session(key, session_audience(key, port), time.time())}


async def browser_logged_in(browser: Browser, home: Home, port: int, **options: Any) -> BrowserContext:
    """A browser with a session of that page; addresses are relative to it: `await tab.goto("./cycles")`."""
    prefix = session_prefix(LoginTokens(home).key(), port)
    context = await browser.new_context(base_url=f"http://127.0.0.1:{port}{prefix}/", **options)
    for name, value in logged_in(home, port).items():
        await context.add_cookies([{"name": name, "value": value, "domain": "127.0.0.1", "path": prefix}])
    return context


@pytest_asyncio.fixture(loop_scope="session")
async def dashboard(seeded: Seeded, settings: Settings, until: Until) -> AsyncIterator[Dashboard]:
    """The real service on a free port over a bus in memory that holds the seeded stream."""
    stop = asyncio.Event()
    async with MemoryBus(seeded.journal) as bus, shared_subscription(bus) as shared_events:
        service = DashboardService(ServiceContext(settings, seeded.home.path))
        serving = asyncio.create_task(service.run(shared_events, stop), name="test.dashboard")
        world = service._world
        try:
            await until(lambda: serving.done() or (service.address and world.hub.state == "live"))
            assert service.address is not None, serving.result()
            port = int(service.address.rpartition(":")[2])
            key = LoginTokens(seeded.home).key()
            prefix, cookies = session_prefix(key, port), logged_in(seeded.home, port)
            inside = f"{service.address}{prefix}"
            async with httpx2.AsyncClient(base_url=inside, timeout=PATIENCE, cookies=cookies) as client:
                yield Dashboard(service.address, client, service, world, bus, shared_events, seeded, prefix, cookies)
        finally:
            stop.set()
            await serving


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(needs: Callable[[str, str], None]) -> AsyncIterator[Browser]:
    """Chromium without a window, once for all tests."""
    needs(CHROMIUM, "install chromium")
    async with async_playwright() as playwright:
        expect.set_options(timeout=PATIENCE * 1000)
        started = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        await started.close()


class Complaints(list[str]):
    """What the tab's console said as an error, violations of the content policy among it: none may be left at the end.

    A test that provokes some pardons them: they may come before, or after its last line.
    """

    pardoned: str | None = None
    """A regular expression."""

    def pardon(self, pattern: str = "Failed to load resource") -> None:
        """From the test's begin to its end. A browser complains of every refusal."""
        self.pardoned = pattern

    @property
    def left(self) -> list[str]:
        """Those that nobody has pardoned."""
        return [one for one in self if self.pardoned is None or not re.search(self.pardoned, one)]


@pytest.fixture
def complaints() -> Complaints:
    """Of the test's tab."""
    return Complaints()


@pytest_asyncio.fixture(loop_scope="session")
async def tab(browser: Browser, dashboard: Dashboard, complaints: Complaints) -> AsyncIterator[Page]:
    """A page of a browser that is logged in: `await tab.goto("./cycles")`. Its console must stay silent."""
    port = int(dashboard.address.rpartition(":")[2])
    size: ViewportSize = {"width": 1440, "height": 900}
    context = await browser_logged_in(browser, dashboard.seeded.home, port, viewport=size)
    opened = await context.new_page()
    opened.set_default_timeout(PATIENCE * 1000)
    opened.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    try:
        yield opened
    finally:
        await context.close()
    assert complaints.left == []
