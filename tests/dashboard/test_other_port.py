"""Another server at 127.0.0.1: browsers send cookies to every port of a host. What it receives is worthless."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, expect

from conch.auth import LoginTokens
from tests.dashboard.conftest import PATIENCE, Dashboard
from tests.serving import listening

LOOKS = ("/", "/cycles", "/settings", "/static/no.css", "/api/v1/cycles", "/api/v1/status", "/live")
ACTIONS = ("/api/v1/agents/echo/pause", "/api/v1/agents/echo/tell", "/settings/doctor", "/logout")


@pytest_asyncio.fixture(loop_scope="session")
async def person(browser: Browser, dashboard: Dashboard) -> AsyncIterator[BrowserContext]:
    """A browser that came in by a link, and shows the overview in its first tab."""
    context = await browser.new_context(base_url=dashboard.address)
    page = await context.new_page()
    await page.goto(f"/?token={LoginTokens(dashboard.seeded.home).link(time.time())}")
    await expect(page.locator("h1")).to_have_text("echo")
    yield context
    await context.close()


@asynccontextmanager
async def another_server(html: str, heads: list[str]) -> AsyncIterator[str]:
    """A server on this machine that answers every request with this page and keeps its head; its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(html)}\r\nConnection: close\r\n\r\n"
        writer.write(f"{head}{html}".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with listening(serve) as port:
        yield f"http://127.0.0.1:{port}"


async def refused(dashboard: Dashboard, headers: dict[str, str]) -> None:
    """A program that shows these headers sees no page, no API, no stream, and has nothing done."""
    async with httpx2.AsyncClient(base_url=dashboard.address, timeout=PATIENCE, headers=headers) as thief:
        for path in LOOKS:
            async with thief.stream("GET", path) as answer:  # a stream that lets in has no end
                assert answer.status_code == (404 if path.startswith("/static") else 401), path
                assert b"echo" not in await answer.aread()
        for path in ACTIONS:
            answer = await thief.post(path, json={})
            assert (answer.status_code, "set-cookie" in answer.headers) == (401, False), path


async def test_what_another_server_receives_lets_nobody_in(person: BrowserContext, dashboard: Dashboard) -> None:
    """The person opens it, by a link and as parts of it; it replays every header that came, and is refused."""
    heads: list[str] = []
    parts = (
        '<link rel=icon href=data:,><img src="/cycles"><iframe src="/live"></iframe><script src="/api/v1/x"></script>'
    )
    async with another_server(parts, heads) as theirs:
        page = await person.new_page()
        for path in ("/", "/cycles/1", "/login"):
            await page.goto(f"{theirs}{path}")
    await page.goto(dashboard.address, wait_until="commit")

    assert len(heads) >= 6
    for head in heads:
        lines = [line.partition(":") for line in head.split("\r\n")[1:] if ":" in line]
        shown = {name.lower(): value.strip() for name, _, value in lines}
        await refused(dashboard, {"cookie": shown.get("cookie", "")})
        assert "conch_session" not in shown.get("cookie", "")
    await expect(page.locator("h1")).to_have_text("echo")  # the person is in as before


async def test_a_cookie_alone_lets_nobody_in(person: BrowserContext, dashboard: Dashboard) -> None:
    """Whoever has the cookie's name and value, by whatever way, lacks the path that it is shown under."""
    kept = "; ".join(f"{one.get('name')}={one.get('value')}" for one in await person.cookies())

    await refused(dashboard, {"cookie": kept})

    for guess in ("/~", "/~/", f"/~{'A' * 22}/", "/~../"):
        async with httpx2.AsyncClient(base_url=dashboard.address, headers={"cookie": kept}) as thief:
            assert (await thief.get(guess)).status_code == 401
    assert "conch_session" in kept
