"""What fits at three widths: no table hides columns, words stand beside their chip, a colour is that of one name."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from conch.requests.human_score import said_score
from conch_schemas import AlarmRaised, ConsumerFailed, Event, FileCheck, Goal, GoalSet, consequence_id
from conch_services.dashboard.components import strip
from conch_services.dashboard.figures import sparks
from conch_services.dashboard.story.strip import HUES, colour_of, distinct_colours
from tests.dashboard.conftest import Dashboard

LONG = "politeness_of_the_words_that_are_said_to_people"
HIDDEN = "(all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.ariaLabel ?? one.id)"


def trouble(dashboard: Dashboard) -> list[Event]:
    """A dead letter, an alarm that is on, and a goal whose check is one long path."""
    act = dashboard.seeded.recorded[-1]
    path = "surveys/2028-03/tally_of_the_sightings_of_limpets_and_anemones.csv"
    goal = Goal(id="tally-of-the-sightings-2028-03", statement=f"{path} is there.", check=FileCheck(path=path))
    letter = ConsumerFailed(
        id="letter", source=act.source, agent="echo", consumer="fragile", version="1", letter="", letter_seq=4,
        letter_subject="conch.v1.echo.action.taken", reason="the model is away: connection refused", tries=5,
    )  # fmt: skip
    alarm = AlarmRaised(
        id=consequence_id(act.id, "watch", "1", AlarmRaised), source=act.source, agent="echo", cycle=7, begun=7,
        alarm="falling_entropy", active=True, value=0.2, threshold=0.3, window=50,
        what="diversity is low: the entropy of tool × operation over 50 acts is 0.29",
    )  # fmt: skip
    asked = GoalSet(id="set", source=act.source, agent="echo", goal=goal, by="home")
    return [letter, alarm, asked]


@pytest.mark.parametrize("width", [1440, 1024, 390])
@pytest.mark.parametrize(
    "path",
    [
        "rewards",
        "rewards/component/execution",
        "compare",
        "training",
        "overview",
        "agents",
        "cycles",
        "needs",
        "witness",
        "bus",
        "alarms",
    ],
)
async def test_no_table_hides_its_columns(dashboard: Dashboard, tab: Page, width: int, path: str) -> None:
    """What is wider than its card would be found by scrolling alone; a rule's long name takes lines, not columns."""
    act = await dashboard.world.read(lambda reader: reader.cycles.act("echo", 60))
    assert act is not None
    await dashboard.live([said_score(act, LONG, 0.5, "so", (-1.0, 1.0), 1)])
    await dashboard.live(trouble(dashboard), record=False)
    await tab.set_viewport_size({"width": width, "height": 900})
    await tab.goto(f"./{path}")
    await expect(tab.locator("main .wide").first).to_be_visible()

    assert await tab.locator("main .wide").evaluate_all(HIDDEN) == []
    assert await tab.evaluate("document.documentElement.scrollWidth") <= width
    if path == "rewards":
        await expect(tab.locator("#components [data-label=Coverage]").first).to_be_in_viewport(ratio=1)


async def test_on_a_phone_an_act_has_the_width_of_its_row(tab: Page) -> None:
    """Below its number, outcome, strip and reward."""
    await tab.set_viewport_size({"width": 390, "height": 844})
    await tab.goto("./cycles")
    row = tab.locator("#list tbody tr").first

    act, line = [await row.locator(one).bounding_box() for one in (".does", "td:last-child")]
    whole = await row.bounding_box()
    assert act is not None
    assert line is not None
    assert whole is not None
    assert act["width"] > 0.95 * whole["width"]
    assert act["y"] >= line["y"] + line["height"]
    await expect(row.locator(".why svg")).to_be_visible()


async def test_on_a_phone_the_first_chart_is_on_the_first_screen(tab: Page) -> None:
    """On both pages that a person opens first, the greater part of it, also below an alarm."""
    await tab.set_viewport_size({"width": 390, "height": 844})
    for path in ("./", "./overview"):
        await tab.goto(path)
        await expect(tab.locator(".plot").first).to_be_in_viewport(ratio=0.5)
    chart, figures = [await tab.locator(one).bounding_box() for one in ("#reward", ".keys")]
    assert chart is not None
    assert figures is not None
    assert chart["y"] < figures["y"]


async def test_a_low_screen_shows_the_whole_of_the_menu(tab: Page) -> None:
    """At 1,024 by 768 nobody has to scroll it for the agent's name and state, and nothing sticks out of it."""
    await tab.set_viewport_size({"width": 1024, "height": 768})
    await tab.goto("./")

    await expect(tab.locator("#who")).to_be_in_viewport(ratio=1)
    assert await tab.locator(".side").evaluate("(one) => one.scrollWidth <= one.clientWidth")


async def test_a_phone_begins_with_what_a_page_is_for(tab: Page) -> None:
    """The first chart of the overview is on its first screen; the search of the agents can be filled in."""
    await tab.set_viewport_size({"width": 390, "height": 844})
    await tab.goto("./overview")
    await expect(tab.locator("#reward .plot")).to_be_in_viewport(ratio=0.6)

    await tab.goto("./agents")
    await expect(tab.get_by_label("Name has")).to_be_visible()


async def test_a_rule_without_errors_has_no_empty_card(tab: Page) -> None:
    """What it adds takes the width, and its own sentence does not stand in each row once more."""
    await tab.goto("./rewards/component/execution")
    card = tab.locator(".half")

    await expect(card.first).to_contain_text("Adds most")
    assert await tab.get_by_text("Could not be scored").count() == 0


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
