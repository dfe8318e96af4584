"""Rewards that add up: the strip of a total, its colours, the page of one part."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.async_api import Page, expect

from conch.experience import ExperiencePoint
from conch.views import FEWEST_SMOOTHED, step_words
from conch_services.dashboard.drawings.numerals import signed
from conch_services.dashboard.figures import MEAN, columns, key_figures, sparks
from conch_services.dashboard.story.component import source_of_rule
from conch_services.dashboard.story.strip import WIDTH, adds, colour_of, reward_strip
from tests.dashboard.conftest import CYCLES, Dashboard
from tests.dashboard.document import parsed

amounts = st.dictionaries(st.text(min_size=1, max_size=20), st.floats(-1, 1).map(lambda one: round(one, 6)), max_size=8)


@given(amounts)
def test_the_parts_of_a_strip_lie_side_by_side_and_add_up(found: dict[str, float]) -> None:
    """What is paid and what is taken off, each in a row of its own from the left; none reaches beyond the strip."""
    strip = reward_strip(found, sum(found.values()))

    for side in (strip.paid, strip.taken):
        end = 0.0
        for part in side:
            assert abs(part.x - end) < 0.02
            end = part.x + part.width
        assert end <= WIDTH + 0.1
    shown = sum(one.amount for one in (*strip.paid, *strip.taken))
    assert abs(shown - sum(found.values())) <= 0.0005 * len(found)
    assert strip.words.endswith(f"= {signed(sum(found.values()))}")


async def test_the_amounts_of_every_cycle_sum_to_its_total(dashboard: Dashboard) -> None:
    """Boosts, penalties, gates and caps are among them; the charts draw the same amounts."""
    points: list[ExperiencePoint] = await dashboard.world.read(lambda reader: reader.charts.points("echo", 1000))

    for point in points:
        assert abs(sum(adds(point).values()) - point.total) < 1e-5
    drawn = columns(points, 1000)["lines"]["parts"]
    first = points[:FEWEST_SMOOTHED]
    for name, line in drawn.items():
        assert line[len(first) - 1] == pytest.approx(fmean(adds(one).get(name, 0.0) for one in first), abs=1e-4)
    names = {name for point in points for name, amount in adds(point).items() if amount < 0}
    assert "taken off for repetition" in names


def test_the_means_of_a_range_begin_with_the_cycles_before_it() -> None:
    """The first mean that is shown is over as many cycles as the last; so is the first place of a sparkline."""
    points = [earned(number, float(number < MEAN)) for number in range(2 * MEAN)]

    lines = columns(points, MEAN)["lines"]["reward"]
    alone = columns(points[MEAN:], MEAN)["lines"]["reward"]

    assert lines[f"mean of {MEAN}"][0] == pytest.approx(1 - 1 / MEAN)
    assert alone[f"mean of {MEAN}"][FEWEST_SMOOTHED - 2 : FEWEST_SMOOTHED] == [None, 0.0]
    assert sparks(points, MEAN)["reward"].path.startswith("M0.0 2 l")
    assert sparks(points[MEAN:], MEAN)["reward"].path.startswith("M29.2 13 l")


def test_a_sparkline_that_moves_on_keeps_its_steps() -> None:
    """What is sent of it are its ends."""
    points = [earned(number, (number * 7 % 11) / 11) for number in range(302)]

    before, after = (sparks(points[:end], 200)["reward"].path.split("l") for end in (300, 302))

    assert after[1:-2] == before[2:-1]


def earned(cycle: int, total: float) -> ExperiencePoint:
    """A cycle with this total."""
    time = datetime(2026, 1, 1, tzinfo=UTC)
    return ExperiencePoint(cycle, cycle, time, "success", "TOOL", "a", "a.b", True, total, 1.0, True, 1, (), (), {})


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("part:execution", "execution"),
        ("cap:cycle", "held to −1 to 1"),
        ("cap:exploration", "cap of exploration"),
        ("gate:ethical", "held to 0 by ethical"),
        ("diversity", "paid double for too little variety"),
        ("starving", "cut while a need starves"),
        ("a-rule", "a-rule"),
    ],
)
def test_a_step_is_named_for_what_it_does(step: str, words: str) -> None:
    """In the words of a person; a rule of another name keeps it."""
    assert step_words(step) == words


async def test_a_part_has_one_colour_in_strips_and_charts(tab: Page) -> None:
    """By its name alone: the swatch beside the last reward is that of the chart's legend."""
    looked = "(all) => all.map((one) => [one.parentElement.textContent, getComputedStyle(one).backgroundColor])"
    await tab.goto("./")
    strips = dict(await tab.locator("#last-reward .swatch").evaluate_all(looked))
    await tab.goto("./overview")
    await expect(tab.locator("#parts .legend .swatch").first).to_be_visible()
    charts = dict(await tab.locator("#parts .legend .swatch").evaluate_all(looked))

    colours = {re.split("[+−]", name)[0].strip(): colour for name, colour in charts.items()}
    shared = {re.split("[+−]", name)[0].strip(): colour for name, colour in strips.items() if "taken" not in name}
    assert shared
    assert {name: colours[name] for name in shared} == shared
    assert colour_of("execution") == 2


async def test_each_row_has_its_strip_also_live(tab: Page, dashboard: Dashboard) -> None:
    """In the list of cycles; a row that comes live has the one that the server draws."""
    await tab.goto("./overview")
    (recorded,) = await dashboard.live()
    strip = tab.locator(f"#cycles tr[data-cycle='{recorded.cycle}'] .adds")
    await expect(strip).to_have_attribute("aria-label", re.compile(re.escape(f"= {signed(recorded.total)}")))
    live = [await strip.get_attribute("aria-label"), await strip.locator("rect").count()]

    await tab.reload()

    assert [await strip.get_attribute("aria-label"), await strip.locator("rect").count()] == live
    await tab.goto("./cycles")
    await expect(tab.locator("#list .adds")).to_have_count(50)


async def test_why_this_reward_is_two_clicks_away(tab: Page, dashboard: Dashboard) -> None:
    """From a row to its cycle, from a part of its waterfall to the part's page: what it is, and what it paid."""
    await tab.goto("./cycles")
    await tab.locator("#list tbody a").first.click()
    await tab.locator("#fall a", has_text="execution").click()

    await expect(tab.locator("h1")).to_have_text("execution")
    await expect(tab.locator("main")).to_contain_text("A call that moves a goal, or a paid change, +1.0")
    await expect(tab.locator("section", has_text="Adds most").locator("tbody tr")).to_have_count(10)


async def test_the_errors_of_a_part_are_listed_with_their_cycles(dashboard: Dashboard) -> None:
    """The cycle whose score never came, with its status; a part that nobody scores is not found."""
    page = parsed((await dashboard.client.get("/rewards/component/exploration")).text)
    none = await dashboard.client.get("/rewards/component/no-such")

    errors = next(one for one in page.all("section") if "Could not be scored" in one.text)
    assert "1 of the last 60 cycles" in errors.text
    assert [cells[0] for cells in errors.cells()] == ["20"]
    assert [cells[2] for cells in errors.cells()] == ["timeout"]
    assert (none.status_code, "Nothing of this name is scored" in none.text) == (404, True)


def test_the_source_of_a_rule_is_that_of_its_file_alone(tmp_path: object) -> None:
    """An entry point, a key of the settings or a file that is gone have none."""
    path = f"{tmp_path}/joy.py"
    with open(path, "w", encoding="utf-8") as file:
        file.write("def joy(): ...\n")

    assert source_of_rule(path) == "def joy(): ...\n"
    assert [source_of_rule(one) for one in (None, "Conch", "conch.rules:joy", "joy.py", f"{path}c", "/gone.py")] == [
        ""
    ] * 6


async def test_coverage_says_what_the_rows_say(dashboard: Dashboard) -> None:
    """A cycle whose row says that fewer parts are scored than there are lacks a score, complete or not."""
    points: list[ExperiencePoint] = await dashboard.world.read(lambda reader: reader.charts.points("echo", 1000))
    failed = [
        one._replace(
            complete=True,
            scores=tuple(
                type(score)(score.component, None, score.weight, "error", score.scorer, score.version)
                if score.component == "needs"
                else score
                for score in one.scores
            ),
        )
        for one in points[-1:]
    ]

    notes = {one.name: one.note for one in key_figures([*points[:-1], *failed])}

    assert notes["coverage"] == f"2 of {CYCLES} lack a score"
