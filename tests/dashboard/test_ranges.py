"""The range of cycles in the address: what it means, that links take it along, and how a chart is zoomed."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from playwright.async_api import Page, expect

from conch.experience import ExperienceReader
from conch_services.dashboard.ranges.wanted import WantedRange, wanted_range
from conch_services.dashboard.ranges.window import CycleWindow, points_in, window_of
from tests.dashboard.conftest import CYCLES, Dashboard
from tests.dashboard.document import parsed
from tests.dashboard.life import CYCLE_SECONDS
from tests.dashboard.test_story import data


@pytest.mark.parametrize(
    ("text", "kind"),
    [("life", "life"), ("hour", "hour"), ("last-9", "last"), ("3-7", "cycles"), ("7-7", "cycles"), ("", "usual")],
)
def test_a_range_is_read_and_written_alike(text: str, kind: str) -> None:
    """What an address says is what its links say again."""
    wanted, wrong = wanted_range({"range": text})

    assert (wanted.kind, wanted.text, wrong) == (kind, text, "")


@pytest.mark.parametrize("text", ["9-3", "last-0", "all", "1-", "-5", "1-2-3", "٣-٧", "1" * 30])
def test_a_range_that_cannot_be_is_said_and_passed_over(text: str) -> None:
    """In one sentence with what it may be; the page shows its usual range."""
    wanted, wrong = wanted_range({"range": text})

    assert wanted.kind == "usual"
    assert "it is life, hour, last-400 or two cycles such as 100-900" in wrong


async def test_a_range_has_the_cycles_that_it_says(dashboard: Dashboard) -> None:
    """The last hour is that before the newest act, by the times of the acts; a range beyond the life is empty."""
    last = dashboard.seeded.recorded[-1]
    assert last.cycle is not None
    older = int(timedelta(hours=1).total_seconds() / CYCLE_SECONDS)
    assert older > CYCLES, "the seeded life is shorter than an hour"

    def look(reader: ExperienceReader) -> list[CycleWindow]:
        wanted = [WantedRange("life"), WantedRange("hour"), WantedRange("last", 7), WantedRange("cycles", 50, 999)]
        found = [window_of(reader, "echo", one) for one in wanted]
        assert [one.cycle for one in points_in(reader, "echo", CycleWindow(5, 9), 3)] == [7, 8, 9]
        assert window_of(reader, "echo", WantedRange("cycles", 900, 999)).cycles == 0
        assert window_of(reader, "nobody", WantedRange("life")).cycles == 0
        return found

    found = await dashboard.world.read(look)

    assert found == [
        CycleWindow(0, CYCLES),
        CycleWindow(0, CYCLES),
        CycleWindow(CYCLES - 6, CYCLES),
        CycleWindow(50, CYCLES),
    ]


async def test_a_part_of_the_life_is_its_own_story(dashboard: Dashboard) -> None:
    """The curve holds exactly its cycles, with their mean; the verdict says which they are; so does an empty one."""
    html = (await dashboard.client.get("/?range=20-49")).text
    found = data(html)
    totals = {one.cycle: one.total for one in dashboard.seeded.recorded}

    assert (found["begin"], found["behind"]) == (20, 50)
    weighed = sum(mean for mean in found["mean"]) / len(found["mean"])
    assert abs(weighed - sum(totals[cycle] for cycle in range(20, 50)) / 30) < 0.001
    assert "Cycles 20 to 49: " in parsed(html).one("p", class_="details").text
    assert "No cycle in this range" in (await dashboard.client.get("/?range=900-999")).text
    assert "cannot be: it is life" in (await dashboard.client.get("/?range=9-3")).text


async def test_drawing_over_a_part_of_the_curve_shows_that_part(tab: Page, dashboard: Dashboard) -> None:
    """The address names it, links take it along, and one press shows the whole life again; a click opens a cycle."""
    await tab.goto("./")
    box = await tab.locator("#curve .u-over").bounding_box()
    assert box is not None
    await tab.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 40)
    await tab.mouse.down()
    await tab.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60, steps=4)
    await tab.mouse.up()

    await expect(tab).to_have_url(re.compile(r"\?range=1[4-7]-(29|3[01])$"))
    await expect(tab.locator(".ranges [aria-current]")).to_contain_text("Cycles 1")
    await expect(tab.locator("nav a", has_text="Rewards")).to_have_attribute("href", re.compile(r"range=1\d-\d\d$"))
    await tab.locator(".ranges a", has_text="Whole life").click()
    await expect(tab.locator("#verdict")).to_contain_text(f"{CYCLES} of 200")


async def test_a_range_can_be_typed(tab: Page, dashboard: Dashboard) -> None:
    """With the keys alone; the smaller cycle comes first."""
    await tab.goto("./")
    await tab.locator("#range-more summary").press("Enter")
    await tab.locator("input[name=from]").fill("30")
    await tab.locator("input[name=to]").fill("10")
    await tab.locator("input[name=to]").press("Enter")
    await expect(tab.locator("#range-more .wrong")).to_have_text("The first cycle is the smaller one.")
    await tab.locator("input[name=to]").fill("40")
    await tab.locator("input[name=to]").press("Enter")

    await expect(tab).to_have_url(re.compile(r"\?range=30-40$"))
    await expect(tab.locator(".details")).to_contain_text("Cycles 30 to 40")
