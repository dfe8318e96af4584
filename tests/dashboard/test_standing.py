"""How it stands, on every page: the agent's state in the side bar, a run that has gone, the keys and their help."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from conch.bus import MemoryBus, shared_subscription
from conch.config import Settings, UiSettings
from conch.consumer import ServiceContext
from conch.home import Home
from conch_schemas import control_subject
from conch_services.dashboard.page import MENU
from conch_services.dashboard.service import DashboardService
from tests.dashboard.conftest import Dashboard, Seeded, browser_logged_in
from tests.dashboard.test_resume import opened, served

Until = Callable[..., Awaitable[None]]


@pytest.mark.parametrize("path", ["/", "/settings"])
async def test_what_the_agent_waits_for_is_said_on_every_page(tab: Page, dashboard: Dashboard, path: str) -> None:
    """Live while it runs; paused or waiting in its own words, without the green dot, by whomever, without a reload."""
    said = {"ok": True, "state": "running", "why": ""}

    async def answer(_subject: str, _data: bytes) -> bytes:
        return json.dumps(said).encode()

    async with dashboard.bus.serve(control_subject("echo", "*"), answer):
        await tab.goto(f".{path}")
        await expect(tab.locator("#state")).to_have_text("live")
        await expect(tab.locator("#dot")).to_have_attribute("data-state", "live")
        said |= {"state": "paused", "why": "by request"}

        await expect(tab.locator("#state")).to_have_text("paused: by request")
        await expect(tab.locator("#dot")).to_have_attribute("data-state", "paused")
        if path == "/":
            await expect(tab.locator("#pause")).to_have_text("Resume")
        said |= {"state": "asleep", "why": "until 09:12 UTC: no goal is open"}

        await expect(tab.locator("#state")).to_have_text("asleep: until 09:12 UTC: no goal is open")
        await expect(tab.locator("#dot")).to_have_attribute("data-state", "live")
        said |= {"state": "mind", "why": "the mind does not answer"}

        await expect(tab.locator("#state")).to_have_text("waiting: the mind does not answer")


async def test_an_act_of_an_agent_that_waits_does_not_end_its_waiting(tab: Page, dashboard: Dashboard) -> None:
    """Behind a flood it acts, slowly: only what it says itself tells that this is over, and is asked for at once."""
    said = {"ok": True, "state": "bus", "why": "it waits its turn"}
    watch = "() => { window.texts = []; new MutationObserver(() => texts.push(document.getElementById('state')"
    watch += ".textContent)).observe(document.getElementById('state'), { childList: true }); }"

    async def answer(_subject: str, _data: bytes) -> bytes:
        return json.dumps(said).encode()

    async with dashboard.bus.serve(control_subject("echo", "*"), answer):
        await tab.goto("./")
        await expect(tab.locator("#state")).to_have_text("waiting: it waits its turn")
        await tab.evaluate(watch)
        async with tab.expect_response(lambda one: "/state?" in one.url):
            await dashboard.live()
        await expect(tab.locator("#state")).to_have_text("waiting: it waits its turn")
        said |= {"state": "running", "why": ""}
        await expect(tab.locator("#state")).to_have_text("live")
        texts = await tab.evaluate("() => texts")
        assert texts[-1] == "live"
        assert "live" not in texts[:-1]


async def test_a_run_that_has_gone_is_said_until_it_is_back(seeded: Seeded, browser: Browser, until: Until) -> None:
    """The banner stays through every further try, with the time from which on figures are old; no button works."""
    async with MemoryBus(seeded.journal) as bus:
        async with served(seeded, bus, 0, until) as port:
            page = await opened(browser, seeded, port)
            await expect(page.locator("#state")).to_contain_text("live")

        banner = page.locator("#banner")
        begin = re.compile(r"^Since \d\d:\d\d:\d\d nothing new comes: connecting")
        await expect(banner).to_have_text(begin)
        for _ in range(2):
            await page.wait_for_event("requestfailed", lambda one: "/live" in one.url)
            await expect(banner).to_be_visible()
        for button in ("#pause", "#tell", "#goal"):
            await expect(page.locator(button)).to_be_disabled()
        async with served(seeded, bus, port, until):
            await expect(banner).to_be_hidden()
            await expect(page.locator("#pause")).to_be_enabled()
            await page.context.close()


async def test_without_a_bus_nobody_knows_of_alarms(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure is a dash, not none at all; with the bus it is a number."""
    card = re.compile(r'id="key-alarms".*?<strong>(.*?)</strong><small>(.*?)</small>', re.DOTALL)
    with monkeypatch.context() as gone:
        gone.setattr(dashboard.world, "shared_events", None)
        assert card.findall((await dashboard.client.get("/overview")).text) == [("–", "not known without the bus")]

    assert card.findall((await dashboard.client.get("/overview")).text) == [("0", "all is quiet")]


@pytest.mark.parametrize("path", ["/", "/cycles", "/review"])
async def test_the_keys_of_a_page_are_told(tab: Page, path: str) -> None:
    """? and the button of the side bar open what the page shows and each of its keys."""
    keys = {"/cycles": ["j", "k", "/"], "/review": ["a", "r", "s", "u"]}
    await tab.goto(f".{path}")
    about = next(one.about for one in MENU if one.path == path)
    box = tab.locator("#help")

    await expect(tab.locator("#keys")).to_be_visible()
    await tab.keyboard.press("?")

    await expect(box).to_contain_text(about)
    assert await box.locator("kbd").all_inner_texts() == ["?", "t", "h", "g", *keys.get(path, [])]
    assert all(await box.locator("dd").all_inner_texts())
    await tab.keyboard.press("Escape")
    await expect(box).to_be_hidden()
    await tab.locator("#keys").click()
    await expect(box).to_be_visible()


async def test_a_reply_that_is_waited_for_is_told_with_how_far_it_has_come(tab: Page, dashboard: Dashboard) -> None:
    """Step, seconds and tokens in the side bar, renewed each second without a reload; with the reply it goes."""
    said: dict[str, object] = {"ok": True, "state": "running", "why": ""}
    seconds = 3.0

    async def answer(_subject: str, _data: bytes) -> bytes:
        nonlocal seconds
        seconds += 1.0
        return json.dumps({**said, "asks": asks and {**asks, "seconds": seconds}}).encode()

    asks: dict[str, object] | None = {"phase": "decide", "tokens": 1234}
    async with dashboard.bus.serve(control_subject("echo", "*"), answer):
        await tab.goto("./")
        words = re.compile(r"^waits for its mind: decide, \d+ s, about 1,234 tokens so far$")
        await expect(tab.locator("#state")).to_have_text(words)
        first = await tab.locator("#state").text_content()
        await expect(tab.locator("#state")).not_to_have_text(first or "", timeout=2500)
        await expect(tab.locator("#state")).to_have_text(words)
        await expect(tab.locator("#dot")).to_have_attribute("data-state", "live")
        asks = {"phase": "<b>think</b>", "tokens": 0}
        await expect(tab.locator("#state")).to_contain_text("waits for its mind: <b>think</b>, ")
        await expect(tab.locator("#state")).to_contain_text("no word so far")
        asks = None
        await expect(tab.locator("#state")).to_have_text("live")


@pytest.mark.parametrize("asks", [3, {}, {"phase": 1}, {"phase": "think", "seconds": "x", "tokens": 1}, []])
async def test_an_agent_that_says_nonsense_of_its_question_waits_for_none(dashboard: Dashboard, asks: object) -> None:
    """What it says is another process's word."""

    async def answer(_subject: str, _data: bytes) -> bytes:
        return json.dumps({"ok": True, "state": "running", "why": "", "asks": asks}).encode()

    async with dashboard.bus.serve(control_subject("echo", "*"), answer):
        assert (await dashboard.client.get("/state")).json() == {
            "state": "running",
            "why": "",
            "asks": "",
            "phase": "",
        }


async def test_an_ended_run_is_said_with_what_starts_it_again(seeded: Seeded, browser: Browser, until: Until) -> None:
    """A dashboard that stays when its run ends says when that was, with the command to copy, and no alarm; a page that
    is opened then names the last cycle, and its story tells the end."""
    stop = asyncio.Event()
    service = DashboardService(ServiceContext(Settings(ui=UiSettings(port=0)), seeded.home.path))
    async with MemoryBus(seeded.journal) as bus, shared_subscription(bus) as shared_events, service.serving():
        showing = asyncio.create_task(service.show(shared_events, stop))
        assert service.address is not None
        await until(lambda: service._world.hub.state == "live")
        page = await opened(browser, seeded, int(service.address.rpartition(":")[2]))
        await expect(page.locator("#state")).to_contain_text("live")
        stop.set()
        await showing

        banner = page.locator("#banner")
        await expect(banner).to_contain_text(re.compile(r"^This run ended at \d\d:\d\d:\d\d\. What stands here"))
        await expect(banner.locator("code")).to_have_text(f"conch run --home {seeded.home.path}")
        await expect(banner).to_have_attribute("role", "status")
        await expect(page.locator("#state")).to_have_text("not running")
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await banner.locator("button").click()
        await expect(banner.locator("button")).to_have_text("Copied")
        assert await page.evaluate("navigator.clipboard.readText()") == f"conch run --home {seeded.home.path}"
        await page.goto("./")
        await expect(banner).to_contain_text("No run is in progress: the last one ended after cycle 60, ")
        await expect(page.locator("#run-state")).to_have_text("not running")
        await expect(page.locator("#now-title")).to_contain_text("At the end")
        await expect(page.locator("#pause")).to_be_disabled()
        await page.context.close()


async def test_a_home_in_which_nothing_has_happened_says_how_to_begin(
    tmp_path: Path, browser: Browser, until: Until
) -> None:
    """With the command, which names the home; no figure is claimed."""
    home = Home(tmp_path / "a home")
    home.make()
    service = DashboardService(ServiceContext(Settings(ui=UiSettings(port=0)), home.path))
    async with service.serving():
        assert service.address is not None
        context = await browser_logged_in(browser, home, int(service.address.rpartition(":")[2]))
        page = await context.new_page()
        await page.goto("./")

        banner = page.locator("#banner")
        await expect(banner).to_contain_text("Nothing has happened in this home yet. The first cycle appears here")
        await expect(banner.locator("code")).to_have_text(f"conch run --home '{home.path}'")
        await expect(page.locator("#verdict")).to_have_text("No cycles yet")
        await context.close()
