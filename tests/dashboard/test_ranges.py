"""The range of cycles in the address: what it means, that links take it along, and how a chart is zoomed."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from itertools import pairwise

import pytest
from playwright.async_api import Page, expect

from conch.experience import ExperienceReader
from conch_services.dashboard.drawings.numerals import signed
from conch_services.dashboard.ranges.wanted import WantedRange, wanted_range
from conch_services.dashboard.ranges.window import CycleWindow, points_in, sampled_in, window_of
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


async def test_a_long_range_is_taken_evenly(dashboard: Dashboard) -> None:
    """Of more cycles than are wanted, neighbours spread over all of the window, each once, the newest among them."""
    window = CycleWindow(1, CYCLES)

    def look(reader: ExperienceReader) -> list[int]:
        return [one.cycle for one in sampled_in(reader, "echo", window, 40)]

    found = await dashboard.world.read(look)

    assert found == sorted(set(found))
    assert (len(found), found[0], found[-1]) == (40, 1, CYCLES)
    assert max(after - before for before, after in pairwise(found)) <= 2


@pytest.mark.parametrize("path", ["/overview", "/needs", "/training", "/rewards"])
async def test_every_page_with_charts_shows_the_range(dashboard: Dashboard, path: str) -> None:
    """Its figures and lines are of these cycles alone, and it says so; drawn again it is the same range. Of a range
    without a cycle the page stands, too."""
    html = (await dashboard.client.get(f"{path}?range=20-39")).text
    shown = parsed(html)
    (current,) = [one.text for one in shown.one("nav", class_="ranges").all("a") if "aria-current" in one.attributes]

    assert current == "Cycles 20 to 39"
    assert "range=20-39" in shown.one("div", id="now")["hx-get"]
    if path != "/rewards":
        drawn = json.loads(shown.one("script", id="data").text)
        assert drawn["x"] == list(range(20, 40))
        assert drawn["whole"]
    if path != "/training":
        assert "cycles 20 to 39" in shown.one("main").text
    for empty in ("900-999", "9-3"):
        assert (await dashboard.client.get(f"{path}?range={empty}")).status_code == 200


async def test_the_rewards_of_a_range_are_those_of_its_cycles(dashboard: Dashboard) -> None:
    """Mean, coverage and errors of each component, by the acts of the range; of the whole life as of the last ones."""
    near = {one.cycle: one for one in dashboard.seeded.recorded if 20 <= (one.cycle or 0) <= 39}
    said = [score for one in near.values() for score in one.scores if score.component == "execution"]
    values = [score.value for score in said if score.value is not None]

    def cells(html: str) -> dict[str, list[str]]:
        rows = parsed(html).one("table", id="components").all("tr")[1:]
        return {row["data-component"]: [cell.text for cell in row.all("td")] for row in rows}

    row = cells((await dashboard.client.get("/rewards?range=20-39")).text)["execution"]
    ways = [cells((await dashboard.client.get(f"/rewards?{query}")).text) for query in ("", "range=life")]

    assert row[4] == signed(sum(values) / len(values))
    assert row[10] == str(sum(score.status == "error" for score in said))
    assert ways[0] == ways[1]


async def test_a_part_of_any_chart_is_zoomed_into(tab: Page, dashboard: Dashboard) -> None:
    """Drawn over on the overview, the address names the range, the menu takes it along, and the page goes on live."""
    await tab.goto("./overview")
    box = await tab.locator("#needs .u-over").bounding_box()
    assert box is not None
    await tab.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40)
    await tab.mouse.down()
    await tab.mouse.move(box["x"] + box["width"] * 0.99, box["y"] + 60, steps=4)
    await tab.mouse.up()

    await expect(tab).to_have_url(re.compile(r"\?range=(29|3[0-2])-(59|60)$"))
    await expect(tab.locator("#span")).to_have_text(re.compile(r"cycles (29|3[0-2]) to (59|60)"))
    await tab.locator(".ranges a", has_text="Last hour").click()
    await expect(tab).to_have_url(re.compile(r"\?range=hour$"))
    await tab.locator("nav a", has_text="Needs & drives").click()
    await expect(tab.locator(".ranges [aria-current]")).to_have_text("Last hour")
    await dashboard.live()
    await expect(tab.locator("#now .changes td a").first).to_have_text(str(CYCLES + 1))
