"""Logging out: the session ends for good, everywhere, and nobody else can end it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httpx2
import pytest
from playwright.async_api import Browser, Page, expect

from conch.auth import LoginTokens
from conch.bus import MemoryBus
from conch.config import Settings, UiSettings
from tests.dashboard.conftest import PATIENCE, Complaints, Dashboard, Seeded
from tests.dashboard.test_guard_browser import page_of_others
from tests.dashboard.test_resume import opened, served

Until = Callable[..., Awaitable[None]]


def replaying(page: str, cookies: dict[str, str]) -> httpx2.AsyncClient:
    """Somebody who has copied these cookies, and knows the page's address with the path that they are shown under."""
    return httpx2.AsyncClient(base_url=page, timeout=PATIENCE, cookies=cookies)


async def cookies_of(page: Page) -> dict[str, str]:
    return {one.get("name", ""): one.get("value", "") for one in await page.context.cookies()}


async def test_who_logs_out_is_out_for_good(seeded: Seeded, browser: Browser, until: Until) -> None:
    """By the keyboard alone; the cookie is gone, and a copy of it is refused, also when the page is started again."""
    async with MemoryBus(seeded.journal) as bus:
        async with served(seeded, bus, 0, until) as port:
            page = await opened(browser, seeded, port)
            kept, inside = await cookies_of(page), page.url
            await expect(page.locator("#keys")).not_to_have_class("quiet unready")
            await page.keyboard.press("?")
            await expect(page.get_by_role("button", name="Close")).to_be_focused()
            await page.keyboard.press("Shift+Tab")
            await expect(page.get_by_role("button", name="Log out")).to_be_focused()
            await page.keyboard.press("Enter")

            await expect(page.get_by_role("heading", name="Logged out")).to_be_visible()
            assert await cookies_of(page) == {}
            await page.goto("./cycles")
            await expect(page.get_by_role("heading", name="Log in first")).to_be_visible()
            for expected in ("Logged out", "Log in first"):  # back to the page that it was pressed on
                await page.go_back()
                await expect(page.get_by_role("heading", name=expected)).to_be_visible()
            async with replaying(inside, kept) as other:
                assert [(await other.get(path)).status_code for path in ("/", "/live", "/api/v1/cycles")] == [401] * 3

        async with served(seeded, bus, port, until), replaying(inside, kept) as other:
            assert (await other.get("/")).status_code == 401
            await page.get_by_label("Or type the token").fill(LoginTokens(seeded.home).token())
            await page.get_by_role("button", name="Log in").click()
            await expect(page.locator("h1")).to_have_text("Overview")
        await page.context.close()


async def test_other_windows_of_the_session_are_closed_and_other_sessions_go_on(
    seeded: Seeded, browser: Browser, until: Until
) -> None:
    """A page that is open and live asks to log in by itself; another browser's hears what comes."""
    async with MemoryBus(seeded.journal) as bus, served(seeded, bus, 0, until) as port:
        mine, anothers = await opened(browser, seeded, port), await opened(browser, seeded, port)
        beside = await mine.context.new_page()
        await beside.goto("./")
        for page in (mine, beside, anothers):
            await expect(page.locator("#state")).to_contain_text("live")

        await mine.locator("#keys").click()
        await mine.get_by_role("button", name="Log out").click()

        await expect(beside.get_by_role("heading", name="Log in first")).to_be_visible()
        [came] = await seeded.add(bus, seeded.life.cycle())
        await expect(anothers.locator(f"tr[data-cycle='{came.cycle}']")).to_have_count(1)
        for page in (mine, anothers):
            await page.context.close()


async def test_a_stream_of_an_ended_session_ends_whole(dashboard: Dashboard, until: Until) -> None:
    """Its last bytes are said, so that nothing is taken for broken; a stream of the token's goes on."""
    token = {"authorization": f"Bearer {LoginTokens(dashboard.seeded.home).token()}"}
    async with (
        httpx2.AsyncClient(base_url=dashboard.address, timeout=PATIENCE) as program,
        program.stream("GET", "/live", headers=token),
        dashboard.client.stream("GET", "/live") as mine,
    ):
        await until(lambda: dashboard.world.hub.pages == 2)
        assert (await dashboard.client.post("/logout")).headers["location"] == f"{dashboard.prefix}/logout"

        async with asyncio.timeout(30):
            assert b"retry:" in await mine.aread()
        await until(lambda: dashboard.world.hub.pages == 1)


@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"sec-fetch-site": "same-site"}])
async def test_another_page_cannot_log_anybody_out(dashboard: Dashboard, headers: dict[str, str]) -> None:
    """It is refused as all that another page sends."""
    assert (await dashboard.client.post("/logout", headers=headers)).status_code == 403

    assert (await dashboard.client.get("/")).status_code == 200


async def test_a_form_of_others_logs_nobody_out(tab: Page, dashboard: Dashboard, complaints: Complaints) -> None:
    """In a real browser, which sends our cookie along, as the form knows our path."""
    html = f'<form method=post action="{dashboard.address}{dashboard.prefix}/logout"><button>win</button></form>'
    async with page_of_others(html) as theirs:
        await tab.goto(theirs)
        async with tab.expect_response(f"{dashboard.address}{dashboard.prefix}/logout") as sent:
            await tab.get_by_role("button").click()
        assert (await sent.value).status == 403
    complaints.pardon()

    await tab.goto("./")
    await expect(tab.locator("h1")).to_have_text("echo")


async def test_only_a_press_logs_out(dashboard: Dashboard) -> None:
    """A link, or a picture, that leads there does nothing; who is out already is told so."""
    async with httpx2.AsyncClient(base_url=dashboard.address, timeout=PATIENCE, follow_redirects=True) as stranger:
        out = f"{dashboard.prefix}/logout"
        for answer in (await stranger.get(out), await stranger.post(out)):
            assert (answer.status_code, "Logged out" in answer.text, "echo" in answer.text) == (200, True, False)
        for answer in (await stranger.get("/logout"), await stranger.post("/logout")):  # a session is not shown there
            assert (answer.status_code, "Logged out" in answer.text) == (401, False)

    assert (await dashboard.client.get("/logout")).status_code == 404
    assert (await dashboard.client.get("/")).status_code == 200


async def test_where_it_cannot_be_written_down_the_session_goes_on(dashboard: Dashboard) -> None:
    """And that is said: nobody believes to be out who is not."""
    room = dashboard.seeded.home.path / "ui"
    room.chmod(0o777)

    answer = await dashboard.client.post("/logout")

    assert (answer.status_code, "set-cookie" in answer.headers) == (503, False)
    assert "open to others" in answer.text
    room.chmod(0o700)
    assert (await dashboard.client.get("/")).status_code == 200


class TestWhereEverybodyIsLetIn:
    """A page without sessions."""

    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(ui=UiSettings(port=0, unsafe_allow_unauthenticated=True))

    async def test_there_is_nothing_to_log_out_of(self, dashboard: Dashboard) -> None:
        """No button that would do nothing."""
        assert "Log out" not in (await dashboard.client.get("/")).text
