"""What fits at three widths: no table hides columns, words stand beside their chip, a colour is that of one name."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from conch.requests.human_score import said_score
from conch_services.dashboard.components import strip
from conch_services.dashboard.figures import sparks
from conch_services.dashboard.story.strip import HUES, colour_of, distinct_colours
from tests.dashboard.conftest import Dashboard

LONG = "politeness_of_the_words_that_are_said_to_people"
HIDDEN = "(all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.ariaLabel ?? one.id)"


@pytest.mark.parametrize("width", [1440, 1024, 390])
@pytest.mark.parametrize("path", ["rewards", "compare", "training", "overview"])
async def test_no_table_hides_its_columns(dashboard: Dashboard, tab: Page, width: int, path: str) -> None:
    """What is wider than its card would be found by scrolling alone; a rule's long name takes lines, not columns."""
    act = await dashboard.world.read(lambda reader: reader.cycles.act("echo", 60))
    assert act is not None
    await dashboard.live([said_score(act, LONG, 0.5, "so", (-1.0, 1.0), 1)])
    await tab.set_viewport_size({"width": width, "height": 900})
    await tab.goto(f"./{path}")
    await expect(tab.locator("main .wide").first).to_be_visible()

    assert await tab.locator("main .wide").evaluate_all(HIDDEN) == []
    assert await tab.evaluate("document.documentElement.scrollWidth") <= width
    if path == "rewards":
        await expect(tab.locator("#components [data-label=Coverage]").first).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("width", [1440, 1024, 390])
async def test_words_stand_beside_their_chip(tab: Page, width: int) -> None:
    """Of what needs a person: the first line of the words begins in the line of the chip."""
    await tab.set_viewport_size({"width": width, "height": 900})
    await tab.goto("./")
    ask = tab.locator("#needs-you .ask").first
    await expect(ask).to_be_visible()

    chip, words = [
        await ask.locator(one).evaluate("(one) => one.getClientRects()[0].toJSON()") for one in (".chip", ".what")
    ]

    assert words["left"] >= chip["right"]
    assert words["top"] < chip["bottom"]


async def test_every_range_and_compare_are_seen_on_a_narrow_screen(tab: Page) -> None:
    """None is cut at the side, on a page with all of them."""
    await tab.set_viewport_size({"width": 390, "height": 844})
    await tab.goto("./review")

    for one in await tab.locator(".ranges > a, .ranges summary").all():
        await expect(one).to_be_in_viewport(ratio=1)


async def test_a_subject_keeps_its_colour_wherever_it_stands(dashboard: Dashboard, tab: Page) -> None:
    """In Compare a colour goes with the subject's name, not with its place; two are never alike."""
    looked = "(all) => all.map((one) => [one.parentElement.textContent.trim(), one.className])"
    found = []
    for order in ("of=range:1-30&of=range:31-60", "of=range:31-60&of=range:1-30", "of=range:life&of=range:31-60"):
        await tab.goto(f"./compare?{order}")
        found.append(dict(await tab.locator("#differences thead .swatch").evaluate_all(looked)))

    assert found[0] == found[1]
    assert len(set(found[0].values())) == 2
    assert found[2]["cycles 31 to 60"] == found[0]["cycles 31 to 60"]
    legend = tab.locator("#compare-chart .legend li").filter(has_text="cycles 31 to 60").locator(".swatch")
    head = tab.locator("#differences thead th").filter(has_text="cycles 31 to 60").locator(".swatch")
    colour = "(one) => getComputedStyle(one).backgroundColor"
    assert await legend.evaluate(colour) == await head.evaluate(colour)


def test_no_plug_in_has_the_colour_of_a_part_of_conch() -> None:
    """A rule's colour comes from its name, among those that no built-in part has; names side by side differ."""
    own = {
        colour_of(name) for name in ("format", "execution", "needs", "goal", "exploration", "progress", "repetition")
    }
    names = [f"rule-{at}" for at in range(len(HUES))]

    assert own & {colour_of(name) for name in names} == set()
    assert len(set(distinct_colours(names).values())) == len(names)
    assert distinct_colours(names) == distinct_colours(names[::-1])


def test_a_range_that_says_nothing_is_not_drawn_over() -> None:
    """Of ±1,000,000 all values would be one bar: the strip is drawn over the values themselves, and says its ends."""
    values = [-0.3, 0.0, 0.2, 0.9, 1.35]

    wide, narrow = strip(values, (-1e6, 1e6)), strip(values, (-2.0, 2.0))

    assert (wide.low, wide.high, len(wide.bars)) == (-0.3, 1.35, len(values))
    assert (narrow.low, narrow.high) == (-2.0, 2.0)


async def test_the_line_of_a_key_figure_has_a_scale(tab: Page, dashboard: Dashboard) -> None:
    """Its least and its greatest value stand below it."""
    await tab.goto("./overview")
    points = await dashboard.world.read(lambda reader: reader.charts.points("echo", 60))
    reward = sparks(points, len(points))["reward"]

    await expect(tab.locator("#key-reward .spark-ends")).to_have_text(f"min {reward.low}max {reward.high}")


async def test_the_charts_of_a_page_name_their_axes(tab: Page) -> None:
    """Each chart of the page Training says what it is in a title, and its verdict comes first."""
    await tab.goto("./training")
    chart = tab.locator("#totals")
    await expect(chart.locator("canvas")).to_be_visible()

    above = await tab.locator("#verdict").bounding_box()
    below = await chart.bounding_box()
    assert above is not None
    assert below is not None
    assert above["y"] < below["y"]
    await expect(chart.locator("h2")).to_contain_text("Reward by")
