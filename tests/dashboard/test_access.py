"""Every page of the menu for everybody: axe finds nothing, narrow screens need no scrolling sideways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, ViewportSize, expect

from conch.config import Settings, UiSettings
from conch.consumer import ServiceContext
from conch_services.dashboard.page import MENU
from conch_services.dashboard.service import DashboardService
from tests.dashboard.conftest import Complaints, Dashboard, Seeded, browser_logged_in
from tests.dashboard.test_alarms import GAMED, HABIT, on_now
from tests.dashboard.test_bus import letter

AXE = Path(__file__).parents[2] / ".venv/node/node_modules/axe-core/axe.min.js"
PAGES = [*(entry.path for entry in MENU), "/cycles/13", "/cycles/7?view=json", "/cycles/9999"]
SIZES = {"desktop": ViewportSize(width=1440, height=900), "narrow": ViewportSize(width=360, height=740)}
SERIOUS = ("moderate", "serious", "critical")

RUN = """async (rules) => {
  for (const one of document.getAnimations()) one.finish();
  const found = await axe.run(document, { resultTypes: ["violations"], ...(rules && { runOnly: rules }) });
  return found.violations.map(({ id, impact, nodes }) => (
    { id, impact, where: nodes.slice(0, 5).map((node) => `${node.target} ${node.failureSummary}`) }));
}"""


DRAWN_WIDER = """new Promise((told) => requestAnimationFrame(() => requestAnimationFrame(() => (
  told(document.documentElement.scrollWidth - innerWidth)))))"""
"""Pixels beyond the side two frames on: charts take their new size in a frame of their own."""


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core, as it goes into a page."""
    if not AXE.exists():
        pytest.skip("there is no axe-core: ./ops/test installs it with npm")
    return AXE.read_text()


async def shut_out(tab: Page, axe: str) -> list[dict[str, Any]]:
    """What axe calls moderate or worse on the page as it stands, at both sizes and in both themes; and what needs
    scrolling."""
    await tab.emulate_media(color_scheme="light", reduced_motion="reduce")
    await tab.evaluate(axe)
    found: list[dict[str, Any]] = []
    for size in SIZES.values():
        await tab.set_viewport_size(size)
        await tab.emulate_media(color_scheme="light")
        found += await tab.evaluate(RUN)
        await tab.emulate_media(color_scheme="dark")
        found += await tab.evaluate(RUN, ["color-contrast"])
    wide = await tab.evaluate(DRAWN_WIDER)
    return [one for one in found if one["impact"] in SERIOUS] + ([{"id": "sideways", "by": wide}] if wide > 0 else [])


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_keeps_nobody_out(tab: Page, complaints: Complaints, axe: str, path: str) -> None:
    """Contrast, names, roles and landmarks hold in both themes; on a narrow screen nothing goes beyond the side."""
    if path == "/cycles/9999":
        complaints.pardon()
    await tab.goto(f".{path}")

    assert await shut_out(tab, axe) == []


@pytest.mark.parametrize("path", ["/", "/overview", "/rewards", "/alarms"])
async def test_an_alarm_keeps_nobody_out(dashboard: Dashboard, tab: Page, axe: str, path: str) -> None:
    """Its banner, its chip in the menu and what needs a person: a warning and a serious one, and a dead letter."""
    await on_now(dashboard, HABIT, GAMED)
    await letter(dashboard, "it broke")
    await tab.goto(f".{path}")
    await expect(tab.locator("main")).to_contain_text("stuck in a habit")

    assert await shut_out(tab, axe) == []


async def test_an_ended_run_keeps_nobody_out(seeded: Seeded, browser: Browser, axe: str) -> None:
    """The calm banner with the command that starts it again, and the buttons that are off."""
    service = DashboardService(ServiceContext(Settings(ui=UiSettings(port=0)), seeded.home.path))
    async with service.serving():
        assert service.address is not None
        context = await browser_logged_in(browser, seeded.home, int(service.address.rpartition(":")[2]))
        tab = await context.new_page()
        await tab.goto("./")
        await expect(tab.locator("#banner.calm")).to_be_visible()
        await expect(tab.locator("#run-state")).to_have_text("not running")

        assert await shut_out(tab, axe) == []
        await context.close()


@pytest.mark.parametrize("path", ["/training", "/chat", "/compare", "/things/component/execution"])
async def test_a_verdict_keeps_nobody_out(tab: Page, axe: str, path: str) -> None:
    """The card with the first sentence of a page, an unfolded table behind a chart, an unfolded list of terms."""
    await tab.goto(f".{path}")
    await tab.evaluate("for (const one of document.querySelectorAll('main details')) one.open = true")

    assert await shut_out(tab, axe) == []


async def test_what_keeps_somebody_out_is_found(tab: Page, axe: str) -> None:
    """The look itself works: grey on grey and a picture without a word are named."""
    await tab.goto("./cycles")
    await tab.evaluate(axe)
    await tab.evaluate(
        """() => {
          const said = document.querySelector("h1");
          said.style.color = "#888"; said.style.background = "#999";
          said.after(document.createElement("button"));
        }"""
    )

    found = await tab.evaluate(RUN)

    assert {"button-name", "color-contrast"} <= {one["id"] for one in found}


async def test_what_has_the_focus_is_seen(tab: Page) -> None:
    """The first Tab goes to the way past the menu; everything that has the focus has an outline."""
    await tab.goto("./")

    outlines = []
    for _ in range(16):
        await tab.keyboard.press("Tab")
        outlines.append(await tab.evaluate("getComputedStyle(document.activeElement).outlineStyle"))

    assert set(outlines) == {"solid"}
    await tab.reload()
    await tab.keyboard.press("Tab")
    await tab.keyboard.press("Enter")
    assert await tab.evaluate("document.activeElement.id") == "main"
