"""The secret path that the pages of sessions stand under: every address of a page, and the ways to it."""

from __future__ import annotations

import contextlib
import re
import time
from html import unescape
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import BrowserContext, expect
from playwright.async_api import Error as PlaywrightError
from starlette.routing import Route

from conch.auth import LoginTokens, session_prefix
from conch_services.dashboard import app
from conch_services.dashboard.pages import ROUTES
from tests.dashboard.conftest import Dashboard
from tests.dashboard.test_guard_browser import page_of_others
from tests.dashboard.test_other_port import person

__all__ = ["person"]

ADDRESS = re.compile(r'\s(?:href|src|action|formaction|hx-get|hx-post|data-copy)="([^"#][^"]*)"')
PAGES = [route.path.replace("{number:int}", "7").replace("{sequence:int}", "7") for route in ROUTES
         if isinstance(route, Route) and "{what}" not in route.path and "GET" in (route.methods or ())]  # fmt: skip


def test_the_path_is_the_homes_and_the_ports_own() -> None:
    """The same for as long as the key is, so that what is open or kept as a bookmark goes on; as long as a secret."""
    path = session_prefix(bytes(32), 26624)

    assert re.fullmatch(r"/~[\w-]{22}", path)
    assert path == session_prefix(bytes(32), 26624)
    assert len({path, session_prefix(bytes(32), 26625), session_prefix(b"\1" * 32, 26624)}) == 3


@pytest.mark.parametrize("path", [*PAGES, "/nothing", "/cycles?text=x", "/cycles?limit=x"])
async def test_every_address_in_a_page_is_under_it(dashboard: Dashboard, path: str) -> None:
    """Files aside, which all may fetch; to a program, which shows the token, no path is named."""
    bearer = {"authorization": f"Bearer {LoginTokens(dashboard.seeded.home).token()}"}
    mine = await dashboard.client.get(path)
    async with httpx2.AsyncClient(base_url=dashboard.address, headers=bearer) as program:
        theirs = await program.get(path)

    for one in map(unescape, ADDRESS.findall(mine.text)):
        assert one.startswith((f"{dashboard.prefix}/", "/static/")), one
    assert dashboard.prefix not in theirs.text
    assert theirs.status_code == mine.status_code


def test_every_address_in_a_script_is_under_it() -> None:
    """What a script asks for or leads to begins with the page's prefix."""
    for script in (Path(app.__file__).parent / "static").glob("*.js"):
        assert re.findall(r"[`\"']/[a-z][^`\"'\s]*", re.sub(r"(?m)^import .*$|//.*$", "", script.read_text())) == []


async def test_a_slash_too_many_leads_to_the_page(dashboard: Dashboard) -> None:
    """Under the prefix as before it, with what was asked."""
    there = await dashboard.client.get("/cycles/?agent=echo")

    assert (there.status_code, there.headers["location"]) == (307, f"{dashboard.prefix}/cycles?agent=echo")


async def test_who_is_in_opens_an_address_without_it(person: BrowserContext, dashboard: Dashboard) -> None:
    """One that was typed, passed on or kept from before, with its query and fragment; also the own link again."""
    page = await person.new_page()
    for path in ("/cycles/7?agent=echo#decide", "/needs", "/", "/~from-another-key/bus"):
        await page.goto(path, wait_until="commit")
        shown = path.removeprefix("/~from-another-key")
        await page.wait_for_url(f"{dashboard.address}{dashboard.prefix}{shown}")
        await expect(page.locator("nav[aria-label=Pages]")).to_be_visible()
    spent = LoginTokens(dashboard.seeded.home).link(time.time())
    assert LoginTokens(dashboard.seeded.home).redeem(spent, time.time())
    for _ in range(12):  # as often as one likes, also where wrong tokens are told to wait
        await page.goto(f"/needs?token={spent}", wait_until="commit")
        await page.wait_for_url(f"{dashboard.address}{dashboard.prefix}/needs")


async def test_a_browser_that_kept_another_keys_path_is_asked_to_log_in(
    person: BrowserContext, dashboard: Dashboard
) -> None:
    """Once, with a page that stays: nothing is gone round and round."""
    page = await person.new_page()
    await page.goto("/", wait_until="commit")
    await page.wait_for_url(f"{dashboard.address}{dashboard.prefix}/")
    await page.route("**/blank", lambda route: route.fulfill(body="<title>blank</title>", content_type="text/html"))
    for kept in (dashboard.prefix, f"/~{'A' * 22}"):
        await page.goto("/blank")  # a page of the dashboard would go on by itself, without its cookie
        await person.clear_cookies()
        await page.evaluate("path => localStorage.setItem('conch-prefix', path)", kept)
        asked: list[str] = []
        page.on("request", lambda one, asked=asked: asked.append(one.url) if one.is_navigation_request() else None)
        with contextlib.suppress(PlaywrightError):  # interrupted, where the script goes on before this has returned
            await page.goto("/needs", wait_until="commit")
        await page.wait_for_url(f"{dashboard.address}{kept}/needs")
        await expect(page.get_by_role("heading", name="Log in first")).to_be_visible()
        await page.evaluate("() => new Promise(done => requestIdleCallback(() => requestIdleCallback(done)))")
        assert asked == [f"{dashboard.address}/needs", f"{dashboard.address}{kept}/needs"]


async def test_a_link_in_a_page_of_others_lets_in(person: BrowserContext, dashboard: Dashboard) -> None:
    """A mail that is read in the browser, say, of somebody who is in and of a browser that was never here."""
    browser = person.browser
    assert browser is not None
    for context in (person, await browser.new_context()):
        link = f"{dashboard.address}/cycles?token={LoginTokens(dashboard.seeded.home).link(time.time())}"
        async with page_of_others(f'<a href="{link}">the agent</a>') as theirs:
            page = await context.new_page()
            await page.goto(theirs.replace("127.0.0.1", "localhost"))
            await page.get_by_role("link").click()
            await expect(page.locator("h1")).to_have_text("Cycles")
    await context.close()


async def test_a_link_to_a_cycle_is_copied_without_it(person: BrowserContext, dashboard: Dashboard) -> None:
    """It is passed on: whoever gets it logs in on their own."""
    await person.grant_permissions(["clipboard-read", "clipboard-write"])
    page = await person.new_page()
    await page.goto(f"{dashboard.prefix}/cycles/7")
    await page.locator("[data-copy-link]").click()
    await expect(page.locator("[data-copy-link]")).to_have_text("Copied")

    assert await page.evaluate("navigator.clipboard.readText()") == f"{dashboard.address}/cycles/7"
