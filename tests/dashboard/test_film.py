"""The life as a film: frames of the log that are played and scrubbed, and the river of what was done."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from playwright.async_api import Page, expect

from conch.experience import SkillBucket, SqliteReader
from conch_services.dashboard.drawings.numerals import signed
from conch_services.dashboard.film.river import HEIGHT, MOST_BANDS, MOST_BUCKETS, WIDTH, river, width_of
from tests.dashboard.conftest import CYCLES, Dashboard
from tests.dashboard.document import parsed

BUCKETS = st.lists(
    st.builds(SkillBucket, st.integers(0, 99), st.sampled_from("abcdefghijkl"), st.integers(1, 50), st.floats(-9, 9)),
    min_size=1,
    max_size=120,
    unique_by=lambda one: (one.bucket, one.skill),
)


@given(found=BUCKETS)
def test_the_bands_of_the_river_fill_it(found: list[SkillBucket]) -> None:
    """Their shares are the whole; none leaves the drawing; what has no band of its own is one band, the last."""
    bands = river(found)

    assert abs(sum(band.share for band in bands) - 1.0) < 1e-9
    assert len(bands) <= MOST_BANDS + 1
    assert len({band.colour for band in bands}) == len(bands)
    assert all(0.0 <= side <= 1.0 + 1e-9 for band in bands for side in (band.early, band.late))
    for band in bands:
        points = re.findall(r"(-?[\d.]+) (-?[\d.]+)", band.path)
        assert all(0 <= float(x) <= WIDTH and -0.1 <= float(y) <= HEIGHT + 0.1 for x, y in points)


@given(last=st.integers(0, 10**7))
def test_a_life_has_a_bounded_number_of_buckets(last: int) -> None:
    """However long it is."""
    assert last // width_of(last) < MOST_BUCKETS


async def test_the_river_says_what_the_store_says(dashboard: Dashboard) -> None:
    """Each skill with its share of all cycles and the mean of what they earned."""
    with SqliteReader(dashboard.seeded.home.path / "store.db") as store:
        found = store.cycles.last("echo", 1000)
    skills = {one.action.skill for one in found}
    page = parsed((await dashboard.client.get("/film")).text)

    for band in page.one("tbody").all("tr"):
        skill, share, _, _, earned = (cell.text for cell in band.all("td"))
        mine = [one.total for one in found if one.action.skill == skill]
        assert skill in skills
        assert share == f"{100 * len(mine) / len(found):.0f} %"
        assert abs(float(earned.replace("−", "-")) - sum(mine) / len(mine)) < 0.001


async def test_frames_are_the_cycles_of_the_log(dashboard: Dashboard) -> None:
    """From the asked one on, oldest first, with act, total and needs; behind the last there are none."""
    answer = (await dashboard.client.get("/film/frames?from=11&agent=echo")).json()
    beyond = (await dashboard.client.get("/film/frames?from=99999&agent=echo")).json()

    assert [one["cycle"] for one in answer["frames"]] == list(range(11, CYCLES + 1))
    totals = {one.cycle: one.total for one in dashboard.seeded.recorded}
    assert all(abs(float(one["total"].replace("−", "-")) - totals[one["cycle"]]) < 0.001 for one in answer["frames"])
    assert answer["frames"][0]["needs"]
    assert beyond["frames"] == []


async def test_the_film_is_scrubbed_and_played(dashboard: Dashboard, tab: Page) -> None:
    """The slider goes to a cycle, with its act and reward; played a thousand times as fast, it reaches the end by
    itself, and stops."""
    await tab.goto("./film")
    await expect(tab.locator("#film-at")).to_contain_text("cycle 1 ")
    await tab.locator("#place").fill("30")
    await expect(tab.locator("#film-at")).to_contain_text("cycle 30 ")
    recorded = {one.cycle: one for one in dashboard.seeded.recorded}
    await expect(tab.locator("#film-total")).to_have_text(signed(recorded[30].total))
    assert await tab.locator("#film-needs .bar").count() == len(recorded[30].needs_after or {})

    await tab.get_by_label("Speed").select_option("1000")
    await tab.get_by_role("button", name="Play").click()

    await expect(tab.locator("#film-at")).to_contain_text(f"cycle {CYCLES} ")
    await expect(tab.locator("#play")).to_have_text("Play")
