"""The guard as a real browser meets it: coming in by link and by token, and pages of others that try to use us."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import escape

import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from conch.auth import LoginTokens
from tests.dashboard.conftest import Complaints, Dashboard
from tests.dashboard.life import HOSTILE
from tests.serving import listening


@pytest_asyncio.fixture(loop_scope="session")
async def nobody(browser: Browser, dashboard: Dashboard) -> AsyncIterator[Page]:
    """A tab of a browser that has never been here."""
    context = await browser.new_context(base_url=dashboard.address)
    opened = await context.new_page()
    opened.set_default_timeout(10_000)
    yield opened
    await context.close()


@asynccontextmanager
async def page_of_others(html: str) -> AsyncIterator[str]:
    """A page that somebody else serves on this machine, at its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = f"<!doctype html><meta charset=utf-8><link rel=icon href=data:,>{html}".encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with listening(serve) as port:
        yield f"http://127.0.0.1:{port}/"


async def test_a_person_opens_the_link_and_is_in(nobody: Page, dashboard: Dashboard) -> None:
    """The token is gone from the address and from what the page can tell others; going back asks for nothing."""
    complaints: Complaints = []
    nobody.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    token = LoginTokens(dashboard.seeded.home).link(time.time())

    await nobody.goto(f"/?token={token}")

    await expect(nobody.locator("h1")).to_have_text("echo")
    assert nobody.url == f"{dashboard.address}{dashboard.prefix}/"
    assert token not in await nobody.content()
    assert token not in str(
        await nobody.evaluate("[document.referrer, document.cookie, performance.getEntries()[0].name]")
    )
    assert await nobody.evaluate("document.cookie") == ""
    assert complaints == []


async def test_a_person_whose_link_is_spent_types_the_token(nobody: Page, dashboard: Dashboard) -> None:
    """The page says what to do, in its own looks; a wrong token is said, the right one leads on."""
    passes = LoginTokens(dashboard.seeded.home)
    token = passes.link(time.time())
    assert passes.redeem(token, time.time())

    await nobody.goto(f"/needs?token={token}")

    await expect(nobody.get_by_role("heading", name="Log in first")).to_be_visible()
    await expect(nobody.locator("main")).to_contain_text("conch ui --link")
    assert await nobody.evaluate("getComputedStyle(document.body).display") == "grid"
    await nobody.get_by_label("Or type the token").fill("wrong")
    await nobody.get_by_role("button", name="Log in").click()
    await expect(nobody.locator("main")).to_contain_text("That is not the token")
    await nobody.get_by_label("Or type the token").fill(passes.token())
    await nobody.get_by_role("button", name="Log in").click()
    await nobody.wait_for_url(f"{dashboard.address}{dashboard.prefix}/needs")


async def test_a_page_of_others_shows_nothing_of_ours(tab: Page, dashboard: Dashboard, complaints: Complaints) -> None:
    """Not in a frame to be clicked, not as a script or a picture, not by asking; though it knows our path."""
    html = """<iframe src="OURS/" id=frame></iframe><img src="OURS/static/shell.svg" id=image>
        <script src="OURS/static/theme.js"></script>
        <script>window.got = Promise.all(["/", "/live", "/static/app.css"].map(path =>
            fetch("OURS" + path, {credentials: "include"}).then(() => "came", () => "kept out")))</script>"""
    async with page_of_others(html.replace("OURS", dashboard.address + dashboard.prefix)) as theirs:
        await tab.goto(theirs)

        assert await tab.evaluate("window.got") == ["kept out"] * 3
        assert await tab.evaluate("document.getElementById('image').naturalWidth") == 0
        [frame] = [one for one in tab.frames if one.parent_frame is not None]
        assert "echo" not in await frame.content()
    assert any("frame-ancestors" in said for said in complaints)
    complaints.pardon("")  # the browser tells of each that it kept out


async def test_a_form_of_others_has_nothing_done(tab: Page, dashboard: Dashboard) -> None:
    """Even where it knows our path: it is sent with our cookie, as both are on this machine, and refused."""
    action = f"{dashboard.address}{dashboard.prefix}/api/v1/agents/echo/pause"
    html = f'<form method=post action="{action}"><input name=why value="{escape(HOSTILE)}"><button>win</button></form>'
    async with page_of_others(html) as theirs:
        other = await tab.context.new_page()
        await other.goto(theirs)
        async with other.expect_response(action) as sent:
            await other.get_by_role("button").click()
        answer = await sent.value

    assert "conch_session" in (await answer.request.all_headers()).get("cookie", "")
    assert answer.status == 403
