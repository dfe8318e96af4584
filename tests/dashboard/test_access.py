"""Every page of the menu for everybody: axe finds nothing serious, narrow screens need no scrolling sideways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, ViewportSize

from conch_services.dashboard.page import MENU
from tests.dashboard.conftest import Complaints

AXE = Path(__file__).parents[2] / ".venv/node/node_modules/axe-core/axe.min.js"
PAGES = [*(entry.path for entry in MENU), "/cycles/13", "/cycles/7?view=json", "/cycles/9999"]
SIZES = {"desktop": ViewportSize(width=1440, height=900), "narrow": ViewportSize(width=360, height=740)}
SERIOUS = ("serious", "critical")

RUN = """async (rules) => {
  for (const one of document.getAnimations()) one.finish();
  const found = await axe.run(document, { resultTypes: ["violations"], ...(rules && { runOnly: rules }) });
  return found.violations.map(({ id, impact, nodes }) => (
    { id, impact, where: nodes.slice(0, 5).map((node) => `${node.target} ${node.failureSummary}`) }));
}"""


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core, as it goes into a page."""
    if not AXE.exists():
        pytest.skip("there is no axe-core: ./ops/test installs it with npm")
    return AXE.read_text()


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_keeps_nobody_out(tab: Page, complaints: Complaints, axe: str, path: str) -> None:
    """Contrast, names, roles and landmarks hold in both themes; on a narrow screen nothing goes beyond the side."""
    await tab.emulate_media(color_scheme="light", reduced_motion="reduce")
    await tab.goto(f".{path}")
    if path == "/cycles/9999":
        complaints.pardon()
    await tab.evaluate(axe)

    found: list[dict[str, Any]] = []
    for size in SIZES.values():
        await tab.set_viewport_size(size)
        await tab.emulate_media(color_scheme="light")
        found += await tab.evaluate(RUN)
        await tab.emulate_media(color_scheme="dark")
        found += await tab.evaluate(RUN, ["color-contrast"])

    assert [one for one in found if one["impact"] in SERIOUS] == []
    assert await tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


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
