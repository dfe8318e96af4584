"""Between pages: the palette, keys, a row's panel, neighbours within a filter; a narrow screen; what axe finds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from conch_services.dashboard.pages.cycle import near
from conch_services.dashboard.pages.cycles import CycleFilter
from tests.dashboard.conftest import CYCLES, Complaints, Dashboard

PAGES = (
    *("", "overview", "cycles", "cycles/60", "chat", "memory", "rewards", "rewards/component/execution", "needs"),
    *("training", "review", "bus", "settings", "witness", "witness/3", "things/mark/3"),
)
AXE = Path(__file__).parents[1] / "axe" / "axe.min.js"


async def test_the_palette_finds_pages_cycles_and_words(tab: Page) -> None:
    """Ctrl-K opens it; a name, a number or words each lead on with Enter."""
    await tab.goto("./")
    await expect(tab.locator("#find")).to_be_visible()

    await tab.keyboard.press("Control+k")
    await tab.locator("#sought-place").fill("rew")
    await expect(tab.locator("#places [aria-selected=true]")).to_contain_text("Rewards")
    await tab.keyboard.press("Enter")
    await expect(tab).to_have_url(re.compile(r"/rewards$"))
    await expect(tab.locator("h1")).to_contain_text("Rewards")
    await expect(tab.locator("#find")).to_be_visible()
    await tab.keyboard.press("Control+k")
    await tab.locator("#sought-place").fill("12")
    await expect(tab.locator("#places li").last).to_contain_text("Cycles with “12”")
    await tab.keyboard.press("Enter")

    await expect(tab.locator("h1")).to_contain_text("Cycle 12")


async def test_g_and_a_letter_lead_to_a_page(tab: Page) -> None:
    """The letter is then no key of the page: g t is no other theme."""
    await tab.goto("./cycles")
    await expect(tab.locator("#find")).to_be_visible()

    await tab.keyboard.press("g")
    await tab.keyboard.press("n")

    await expect(tab).to_have_url(re.compile(r"/needs$"))


async def test_a_row_opens_a_panel_that_goes_on_by_the_arrow_keys(tab: Page) -> None:
    """A press beside the link shows the cycle in short; the focus is back at its row when it closes."""
    await tab.goto("./cycles?outcome=error")
    rows = tab.locator("#list tbody tr")
    first, second = [await rows.nth(at).get_attribute("data-cycle") for at in (0, 1)]
    await rows.first.locator("td").nth(3).click()

    title = tab.locator("#peek-title")
    await expect(title).to_have_text(f"Cycle {first}")
    await expect(tab.locator("#peek")).to_contain_text("reward: why")
    await tab.keyboard.press("ArrowDown")
    await expect(title).to_have_text(f"Cycle {second}")
    await tab.keyboard.press("Escape")

    await expect(tab.locator("#peek")).to_be_hidden()
    await expect(rows.nth(1).locator("a").first).to_be_focused()


async def test_next_and_previous_stay_within_the_filter(tab: Page, dashboard: Dashboard) -> None:
    """From a filtered list the neighbours of a cycle are those that the filter lets through; the page says which."""
    failed = sorted({one.cycle or 0 for one in dashboard.seeded.recorded if one.outcome.status == "error"})
    await tab.goto("./cycles?outcome=error")
    await tab.locator("#list tbody a").first.click()
    await expect(tab.locator(".trail")).to_contain_text("with outcome error")

    await tab.locator("a[rel=prev]").click()
    await expect(tab.locator("h1")).to_contain_text(f"Cycle {failed[-2]}")
    await tab.locator("a[rel=next]").click()

    await expect(tab.locator("h1")).to_contain_text(f"Cycle {failed[-1]}")
    await expect(tab.locator("a[rel=next]")).to_have_count(0)


async def test_the_neighbours_of_every_cycle_are_the_nearest(dashboard: Dashboard) -> None:
    """Whatever the filter: the one before and the one behind, found by halves."""
    resting = CycleFilter(kind="DO_NOTHING")
    like = sorted({one.cycle or 0 for one in dashboard.seeded.recorded if one.action.kind == "DO_NOTHING"})

    for number in range(CYCLES + 2):
        found = await dashboard.world.read(lambda reader, at=number: near(reader.cycles, "echo", at, resting))
        before, behind = [one for one in like if one < number], [one for one in like if one > number]
        assert found == (before[-1] if before else None, behind[0] if behind else None)


async def test_find_puts_a_clean_address_once_into_the_history(tab: Page) -> None:
    """Empty fields stand in no address; Enter in a field that was changed pushes one address, not two."""
    await tab.goto("./cycles")
    before = await tab.evaluate("history.length")
    await tab.locator("[name=text]").fill("tests")
    await tab.keyboard.press("Enter")
    await expect(tab).to_have_url(re.compile(r"/cycles\?text=tests$"))

    await tab.locator(".filters .main").click()
    await tab.wait_for_load_state("networkidle")

    assert await tab.evaluate("history.length") == before + 1


async def test_on_a_narrow_screen_a_menu_has_all_pages(tab: Page) -> None:
    """Closed at first, so that the first chart is on the first screen; nothing is wider than the screen."""
    await tab.set_viewport_size({"width": 390, "height": 844})
    await tab.goto("./")
    pages = tab.locator("#pages a")
    await expect(pages.first).to_be_hidden()
    chart = await tab.locator("#curve .plot").bounding_box()
    assert chart is not None
    assert chart["y"] < 700

    await tab.locator("#menu").click()

    for at in range(await pages.count()):
        await expect(pages.nth(at)).to_be_in_viewport()
    for path in ("", "overview", "cycles", "rewards", "needs", "bus", f"cycles/{CYCLES}"):
        await tab.goto(f"./{path}")
        assert await tab.evaluate("document.documentElement.scrollWidth") <= 390, path


async def test_a_dashboard_that_is_gone_is_said_to_be(tab: Page, dashboard: Dashboard, complaints: Complaints) -> None:
    """A run that has ended is not waited for in silence: the page says what starts it again."""
    await tab.goto("./")
    await expect(tab.locator("#state")).to_contain_text("live")
    await tab.clock.install()
    complaints.pardon()

    await tab.context.set_offline(True)
    dashboard.world.hub.close()
    await expect(tab.locator("#state")).not_to_contain_text("live")
    await tab.clock.run_for(8000)

    await expect(tab.locator("#banner")).to_contain_text("conch run")
    await expect(tab.locator("#state")).to_have_text("not running")
    await expect(tab.locator("#run-state")).to_have_text("not running")


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_nothing_serious(tab: Page, theme: str) -> None:
    """On every page, in both themes: no finding that axe calls serious or critical."""
    session = await tab.context.new_cdp_session(tab)
    await session.send("Page.setBypassCSP", {"enabled": True})
    await tab.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    found: list[Sequence[str]] = []
    for path in (
        "",
        "overview",
        "cycles",
        "cycles/60",
        "rewards",
        "needs",
        "training",
        "review",
        "settings",
        "witness",
    ):
        await tab.goto(f"./{path}")
        await expect(tab.locator("#keys")).to_be_visible()
        await tab.add_script_tag(path=AXE)
        said = await tab.evaluate("axe.run({ resultTypes: ['violations'] })")
        found += [
            (path, one["id"], one["nodes"][0]["html"][:200])
            for one in said["violations"]
            if one["impact"] in ("serious", "critical")
        ]

    assert found == []
