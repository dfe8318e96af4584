"""The frame of every page: it is served, it is drawn, it is silent."""

from __future__ import annotations

from playwright.async_api import Page, expect

from tests.dashboard.conftest import CYCLES, Dashboard, Seeded


async def test_the_history_has_all_its_cycles(seeded: Seeded, dashboard: Dashboard) -> None:
    """Every one is recorded, and only the one whose score never came is incomplete."""
    cycles = await dashboard.world.read(lambda reader: reader.cycles.last("echo", 1000))

    assert [one.cycle for one in cycles] == list(range(1, CYCLES + 1))
    assert [one.cycle for one in cycles if not one.complete] == [20]
    assert await dashboard.world.read(lambda reader: reader.position()) < dashboard.shared_events.seq


async def test_a_page_is_drawn_and_its_console_is_silent(tab: Page) -> None:
    """The story loads, with its script and its looks, and follows the bus."""
    await tab.goto("./")

    await expect(tab.locator("h1")).to_have_text("echo")
