"""A page that is open while the dashboard is started again: it goes on by itself behind the last place that it had."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from playwright.async_api import Browser, Page, expect

from conch.bus import MemoryBus, shared_subscription
from conch.config import Settings, UiSettings
from conch.consumer import ServiceContext
from conch_services.dashboard import dashboard_service
from conch_services.dashboard.drawings.numerals import signed
from tests.dashboard.conftest import Dashboard, Seeded, browser_logged_in

Until = Callable[..., Awaitable[None]]


@asynccontextmanager
async def served(seeded: Seeded, bus: MemoryBus, port: int, until: Until) -> AsyncIterator[int]:
    """The dashboard at this port (0: a free one) while entered; its port."""
    stop = asyncio.Event()
    async with shared_subscription(bus) as shared_events:
        service = dashboard_service(ServiceContext(Settings(ui=UiSettings(port=port)), seeded.home.path))
        serving = asyncio.create_task(service.run(shared_events, stop))
        try:
            await until(lambda: serving.done() or (service.address and service._world.hub.state == "live"))
            assert service.address is not None, serving.result()
            yield int(service.address.rpartition(":")[2])
        finally:
            stop.set()
            await serving


async def opened(browser: Browser, seeded: Seeded, port: int) -> Page:
    """The overview in a browser that is logged in to this port."""
    context = await browser_logged_in(browser, seeded.home, port)
    page = await context.new_page()
    await page.goto("./overview")
    return page


async def test_an_open_page_goes_on_when_the_dashboard_is_started_again(
    seeded: Seeded, browser: Browser, until: Until
) -> None:
    """What happened meanwhile comes without a reload, each cycle in one row, with its total; so does what follows."""
    async with MemoryBus(seeded.journal) as bus:
        async with served(seeded, bus, 0, until) as port:
            page = await opened(browser, seeded, port)
            await page.evaluate("window.opened = 'once'")
            [before] = await seeded.add(bus, seeded.life.cycle())
            await expect(page.locator(f"tr[data-cycle='{before.cycle}']")).to_have_count(1)

        await expect(page.locator("#state")).to_have_text("connecting…")
        meanwhile = [one for _ in range(3) for one in await seeded.add(bus, seeded.life.cycle())]
        async with served(seeded, bus, port, until):
            await expect(page.locator("#state")).to_contain_text("live")
            [after] = await seeded.add(bus, seeded.life.cycle())

            for one in [before, *meanwhile, after]:
                row = page.locator(f"tr[data-cycle='{one.cycle}']")
                await expect(row).to_have_count(1)
                await expect(row).to_contain_text(signed(one.total))
            assert await page.evaluate("window.opened") == "once"
            await page.context.close()


async def test_a_page_that_is_not_seen_lets_go_of_its_connection(dashboard: Dashboard, tab: Page, until: Until) -> None:
    """A browser has six for all pages of one address; seen again, the page goes on behind what it had."""
    await tab.goto("./overview")
    await expect(tab.locator("#state")).to_contain_text("live")
    pages = dashboard.world.hub.pages
    hidden = """(hidden) => {
        Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""

    await tab.evaluate(hidden, True)
    await until(lambda: dashboard.world.hub.pages == pages - 1)
    [missed] = await dashboard.live()
    await tab.evaluate(hidden, False)

    await expect(tab.locator(f"tr[data-cycle='{missed.cycle}']")).to_contain_text(signed(missed.total))
    assert pages == 1


async def test_nothing_is_asked_of_a_dashboard_that_is_away(seeded: Seeded, browser: Browser, until: Until) -> None:
    """The parts that the server draws wait until it is back; the console says nothing of them."""
    said: list[str] = []
    async with MemoryBus(seeded.journal) as bus:
        async with served(seeded, bus, 0, until) as port:
            context = await browser_logged_in(browser, seeded.home, port)
            page = await context.new_page()
            page.on("console", lambda one: said.append(one.text))
            await page.goto("./bus")
            await expect(page.locator("#state")).to_contain_text("live")
        await expect(page.locator("#state")).to_have_text("connecting…")
        said.clear()
        await page.evaluate("window.htmx.trigger('[data-after]', 'done')")
        tried = asyncio.Event()
        page.on("request", lambda one: tried.set() if "/live" in one.url else None)
        async with asyncio.timeout(30):
            await tried.wait()

        assert [one for one in said if "htmx" in one] == []
        async with served(seeded, bus, port, until):
            await expect(page.locator("#state")).to_contain_text("live")
            async with page.expect_response(lambda one: one.url.endswith("/bus") and one.ok):
                pass
        await context.close()
