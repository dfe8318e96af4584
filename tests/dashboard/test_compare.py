"""Parts of a life side by side: figures with intervals, acts in equal states, and a blind vote that is a review."""

from __future__ import annotations

import re
from statistics import fmean

import pytest
from playwright.async_api import Browser, Page, expect

from conch.views import Interval, difference_interval, mean_interval
from conch_schemas import ActionTaken, ReviewDecided, decode, subject_filter
from conch_services.dashboard.compare.differences import difference_cell
from conch_services.dashboard.compare.states import state_words
from conch_services.dashboard.compare.subjects import MOST, named_subjects
from conch_services.dashboard.drawings.numerals import signed
from tests.dashboard.conftest import CYCLES, Dashboard, browser_logged_in
from tests.dashboard.document import parsed
from tests.dashboard.life import Life


def test_subjects_are_named_once_and_wrong_ones_are_said() -> None:
    """At most six; another agent's by its name; what cannot be is passed over with a sentence."""
    texts = [f"range:{at}-{at}" for at in range(8)]
    found, wrong = named_subjects(
        ["range:life", "range:life", "range:9-3", "x", "ghost/range:life", "fox/policy:ab", ""], "echo", ("echo", "fox")
    )

    assert [(one.agent, one.kind, one.value) for one in found] == [("echo", "range", "life"), ("fox", "policy", "ab")]
    assert len(wrong) == 4
    assert "There is no agent ghost here." in wrong
    assert [len(named_subjects(texts, "echo", ())[0]), len(named_subjects(texts, "echo", ())[1])] == [MOST, 1]


def test_intervals_hold_what_they_should() -> None:
    """The difference of two equal series is 0 within its interval, that of two that are far apart is outside of 0; of
    one value nothing is sure."""
    low = [0.1 * (at % 7) for at in range(120)]
    high = [one + 0.5 for one in low]

    same, apart = difference_interval(low, low), difference_interval(low, high)

    assert same.value == 0.0
    assert same.low < 0.0 < same.high
    assert apart.value == pytest.approx(0.5)
    assert apart.low > 0.3
    assert difference_interval([0.1], high).error == float("inf")
    assert mean_interval(low).low < fmean(low) < mean_interval(low).high


async def test_without_a_choice_the_beginning_and_the_end_are_compared(dashboard: Dashboard) -> None:
    """With the means of their totals, the difference and its interval; each part of the reward has a row."""
    html = (await dashboard.client.get("/compare")).text
    table = parsed(html).one("table", id="differences")
    totals = [one.total for one in dashboard.seeded.recorded]
    half = (CYCLES + 1) // 2

    first, last = totals[: half - 1], totals[CYCLES - half :]
    rows = {row.one("th").text: [cell.text for cell in row.all("td")] for row in table.all("tr")[1:]}
    assert rows["Reward"][0].startswith(signed(fmean(first)))
    assert rows["Reward"][1].startswith(signed(fmean(last)))
    assert re.search(r"[+−]\d\.\d{3} to [+−]\d\.\d{3}", rows["Reward"][1])
    assert "paid for execution" in rows


async def test_what_cannot_be_compared_is_said(dashboard: Dashboard) -> None:
    """One alone asks for another one; a weight set and a policy have their acts, one that never acted has none."""
    version = dashboard.life.weights().version
    alone = (await dashboard.client.get("/compare?of=range:life")).text
    four = "&".join(f"of={one}" for one in (f"weights:{version}", "policy:p1", "policy:none", "adapter:base"))
    both = (await dashboard.client.get(f"/compare?{four}")).text

    assert "Two are needed" in alone
    acts = [one.one("small").text for one in parsed(both).one("form", class_="chosen").all("li")]
    assert acts == [f"{CYCLES} acts", f"{CYCLES} acts", "0 acts", "0 acts"]
    assert "“x” cannot be compared" in (await dashboard.client.get("/compare?of=x")).text


async def test_a_subject_is_added_and_taken_away(tab: Page, dashboard: Dashboard) -> None:
    """By the form, of the periods that are offered; curves and columns follow, and the address says all of it."""
    await tab.goto("./compare")
    await tab.locator("#add").select_option("range:life")
    await tab.locator(".chosen button").click()

    await expect(tab.locator("#compare-chart .legend button")).to_have_count(3)
    values = tab.locator("#compare-chart .legend b")
    await expect(values).to_have_text(["", "", ""])  # the means stand in the table; a last value is no result
    await tab.locator("#compare-chart .plot").hover()
    await expect(values.last).to_have_text(re.compile(r"[+−]\d\.\d+"))
    await expect(tab.locator("#differences thead th")).to_have_count(4)
    await tab.get_by_label(re.compile("Take whole life away")).click()
    await expect(tab.locator("#compare-chart .legend button")).to_have_count(2)
    await expect(tab).to_have_url(re.compile(r"of=range%3A0-\d+&of=range%3A\d+-60$"))


async def test_a_state_is_told_in_words(dashboard: Dashboard) -> None:
    """By its need, its goal, its tools and the outcome before, with the beginning of its key."""
    html = (await dashboard.client.get("/compare")).text

    state = parsed(html).one("table", id="states").all("tr")[1].all("td")[0].text
    assert re.search(r"\w+ presses", state)
    assert "Goal: All tests in the workspace pass" in state
    assert "Tools: filesystem, run, search; act before: " in state
    assert state.endswith("01234567")


def test_a_state_of_much_is_told_in_short() -> None:
    """The need by its priority; at most two goals and six tools by name, a long goal cut; the others counted."""
    act = next(one for one in Life().cycle() if isinstance(one, ActionTaken))
    goals = tuple(act.goals[0].model_copy(update={"statement": f"{at} {'long ' * 40}"}) for at in range(4))
    changes = {"goals": goals, "tools": tuple("abcdefgh"), "needs": {"joy": 0.2, "rest": 0.3}}

    words = state_words(act.model_copy(update=changes), None, {"joy": 0.1, "rest": 0.9})

    assert (words.need, words.tools, words.before) == ("rest", "a, b, c, d, e, f, 2 more", "")
    assert words.goals.endswith("…; 2 more")
    assert len(words.goals) < 200


async def test_a_blind_vote_is_a_review_of_its_pair(tab: Page, dashboard: Dashboard) -> None:
    """Two replies to one state, named first and second; the press publishes a review, and the votes are counted."""
    await dashboard.live([dashboard.life.policy()])
    await tab.goto("./compare")
    await expect(tab.locator("#states tbody tr").first).to_be_visible()
    await tab.locator("#begin-vote").click()
    pair = tab.locator("#vote article")
    await expect(pair).to_be_visible()
    row = await pair.get_attribute("data-row")
    assert "chosen" not in (await pair.inner_text()).lower()

    await pair.locator("[data-better=first]").click()

    await expect(tab.locator("#said")).to_contain_text("Your word is kept")
    await expect(tab.locator(f"#vote article[data-row='{row}']")).to_have_count(0)
    won = [int(one) for one in await tab.locator("#won b").all_inner_texts()]
    assert sum(won) == 1
    said = [decode(one.data) async for one in dashboard.bus.read([subject_filter(ReviewDecided)])]
    assert [one.row for one in said if isinstance(one, ReviewDecided)] == [row]


def test_a_difference_that_rounds_to_nothing_is_not_marked() -> None:
    """However narrow its interval: what is shown as 0 is no more and no less."""
    tiny = difference_cell("0.135", Interval(1e-6, 1e-9), signed)
    more = difference_cell("0.135", Interval(0.1, 0.01), signed)
    edge = difference_cell("0.135", Interval(0.0105, 0.0052), signed)

    assert (edge.between, edge.kind) == ("+0.000 to +0.021", "")
    assert (tiny.difference, tiny.between, tiny.kind) == ("+0.000", "+0.000 to +0.000", "")
    assert (more.difference, more.kind) == ("+0.100", "more")


@pytest.mark.parametrize("width", [1440, 1024, 390])
async def test_six_subjects_fit_their_window(browser: Browser, dashboard: Dashboard, width: int) -> None:
    """No column is cut off, and no legend reaches out of its card."""
    port = int(dashboard.address.rpartition(":")[2])
    context = await browser_logged_in(browser, dashboard.seeded.home, port, viewport={"width": width, "height": 900})
    page = await context.new_page()
    await page.goto("./compare?" + "&".join(f"of=range:{10 * n + 1}-{10 * n + 10}" for n in range(6)))
    await expect(page.locator("#compare-chart canvas")).to_be_visible()

    wider = await page.evaluate(
        "[document.documentElement, ...document.querySelectorAll('.wide')]"
        ".filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.outerHTML.slice(0, 80))"
    )
    taller = await page.evaluate(
        "[...document.querySelectorAll('main .card')]"
        ".filter((one) => one.scrollHeight > one.clientHeight + 1).map((one) => one.outerHTML.slice(0, 80))"
    )

    assert (wider, taller) == ([], [])
    await context.close()
