"""The list of cycles: filters, pages, and new ones announced."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.async_api import Browser, Page, expect

from conch_schemas import NoveltyMeasured
from conch_services.dashboard.cycles.filters import filters_of
from conch_services.dashboard.drawings.numerals import signed
from conch_services.dashboard.pages.cycles import ROWS
from tests.dashboard.conftest import CYCLES, Dashboard, browser_logged_in
from tests.dashboard.document import parsed


async def numbers(tab: Page) -> list[int]:
    """The cycles that the list shows."""
    return [int(text) for text in await tab.locator("#list tbody td:first-child").all_inner_texts()]


async def test_the_list_goes_page_by_page_there_and_back(tab: Page) -> None:
    """Older leads on where the page ended, Newer back to the one before; each cycle is on one page."""
    await tab.goto("./cycles")
    first = await numbers(tab)

    await tab.locator("a", has_text="Older").click()
    await expect(tab.locator("#count")).to_have_text(f"1 to {CYCLES - ROWS}, newest first, {ROWS} a page")
    second = await numbers(tab)
    await tab.locator("a", has_text="Newer").click()
    await expect(tab.locator("#count")).to_contain_text(f"to {CYCLES}")

    assert first + second == list(range(CYCLES, 0, -1))
    assert await numbers(tab) == first


async def test_a_filter_is_asked_as_it_is_set(tab: Page, dashboard: Dashboard) -> None:
    """The list shows what the filter lets through, the address names it, and so do the links to the files."""
    failed = [one.cycle for one in dashboard.seeded.recorded if one.outcome.status == "error"]
    await tab.goto("./cycles")

    await tab.locator("[name=outcome]").select_option("error")
    await expect(tab).to_have_url(re.compile("outcome=error"))

    await expect(tab.locator("#list tbody tr")).to_have_count(len(set(failed)))
    assert await numbers(tab) == sorted(set(failed), reverse=True)
    link = await tab.locator("a", has_text="CSV").get_attribute("href")
    assert link is not None
    assert parse_qs(urlsplit(link).query)["outcome"] == ["error"]


@pytest.mark.parametrize(
    ("query", "held"),
    [
        ("kind=REFLECT", lambda one: one.action.kind == "REFLECT"),
        ("tool=run", lambda one: one.action.tool == "run"),
        ("complete=false", lambda one: not one.complete),
        ("least=0.1", lambda one: one.total >= 0.1),
        ("most=-0.1", lambda one: one.total <= -0.1),
        ("first=10&last=12", lambda one: 10 <= one.cycle <= 12),
        ("text=WHAT+THE+FAILING", lambda one: "what the failing" in one.raw),
    ],
)
async def test_each_filter_works_without_scripts(dashboard: Dashboard, query: str, held: object) -> None:
    """A plain GET with the filter has the cycles that hold to it, and no others."""
    assert callable(held)
    newest = {one.cycle: one for one in dashboard.seeded.recorded}
    expected = sorted((number for number, one in newest.items() if number and held(one)), reverse=True)

    answer = await dashboard.client.get(f"/cycles?{query}")

    found = re.findall(r'<td><a class="mono" href="[^"]*/cycles/(\d+)[?"]', answer.text)
    assert [int(number) for number in found] == expected[:ROWS]
    assert expected


async def test_what_a_filter_cannot_be_is_said_and_left_out(dashboard: Dashboard) -> None:
    """One sentence names the field, what was given and what it wants; the rest of the list is there."""
    answer = await dashboard.client.get("/cycles", params={"least": "<b>much</b>", "kind": "TOOL"})

    assert answer.status_code == 200
    assert "The least total cannot be “&lt;b&gt;much&lt;/b&gt;”: it is a number, such as 0.3." in answer.text
    assert "<tbody>" in answer.text


async def test_new_cycles_are_announced_and_not_shoved_in(tab: Page, dashboard: Dashboard) -> None:
    """The list stays as it is and says how many have come; the link draws it anew."""
    await tab.goto("./cycles")
    before = await numbers(tab)

    await dashboard.live()
    await expect(tab.locator("#news")).to_have_text("1 new cycle")
    await dashboard.live()
    await expect(tab.locator("#news")).to_have_text("2 new cycles")
    assert await numbers(tab) == before
    await tab.locator("#news").click()

    await expect(tab.locator("#list tbody td").first).to_have_text(str(CYCLES + 2))
    await expect(tab.locator("#news")).to_be_hidden()


async def test_a_later_revision_changes_its_row_in_place(tab: Page, dashboard: Dashboard) -> None:
    """A late score: total and `n of m scored` are the new ones, as a fresh load draws them; the key's row stays it."""
    facts = dashboard.life.cycle()
    late = [one for one in facts if isinstance(one, NoveltyMeasured)]
    await dashboard.live([one for one in facts if one not in late])
    for _ in range(7):  # the deadline of a score is half a minute, a cycle takes five seconds
        await dashboard.live()
    row = tab.locator(f"#list tr[data-cycle='{CYCLES + 1}']")
    await tab.goto("./cycles")
    await expect(row.locator("td").last).to_contain_text(re.compile(r"\d of \d scored"))
    await row.locator("a").focus()

    (revised,) = await dashboard.live(late)

    await expect(row.locator("td").last).to_have_text(signed(revised.total))
    await expect(row.locator("a")).to_be_focused()
    live = await row.inner_text()
    await tab.reload()
    assert await row.inner_text() == live


async def test_rows_are_right_after_a_flood_that_was_not_told_whole(tab: Page, dashboard: Dashboard) -> None:
    """What could not be sent in time is asked of the history; no new row is shoved in."""
    facts = dashboard.life.cycle()
    late = [one for one in facts if isinstance(one, NoveltyMeasured)]
    await dashboard.live([one for one in facts if one not in late])
    for _ in range(7):
        await dashboard.live()
    await tab.goto("./cycles")
    await expect(tab.locator("#state")).to_contain_text("live")
    before = await numbers(tab)

    await dashboard.live([*late, *(fact for _ in range(600) for fact in dashboard.life.cycle())])

    revised = [one for one in dashboard.seeded.recorded if one.cycle == CYCLES + 1][-1]
    row = tab.locator(f"#list tr[data-cycle='{CYCLES + 1}']")
    await expect(row.locator("td").last).to_have_text(signed(revised.total), timeout=30_000)
    assert await numbers(tab) == before


async def test_the_keys_j_and_k_go_from_row_to_row(tab: Page) -> None:
    """j is the next row, k the one before; Enter opens it."""
    await tab.goto("./cycles")

    await tab.keyboard.press("j")
    await tab.keyboard.press("j")
    await tab.keyboard.press("k")
    await expect(tab.locator("#list tbody a").first).to_be_focused()
    await tab.keyboard.press("Enter")

    await expect(tab.locator("h1")).to_contain_text(f"Cycle {CYCLES}")


async def test_a_filter_that_nothing_holds_to_says_so(tab: Page) -> None:
    """An empty list has a sentence and a way back."""
    await tab.goto("./cycles?text=nobody+ever+said+this")

    await expect(tab.locator("#list")).to_contain_text("No cycle is like that")


@given(
    st.dictionaries(
        st.sampled_from(["outcome", "kind", "tool", "complete", "least", "most", "first", "last", "text"]), st.text()
    )
)
def test_any_query_makes_filters(query: dict[str, str]) -> None:
    """Whatever a query says, each of its fields is either taken, named as wrong, or empty."""
    filters, taken, wrong = filters_of(query)

    assert len(taken) + len(wrong) == sum(bool(value.strip()) for value in query.values())
    assert all(getattr(filters, name) is not None for name in taken)


async def test_a_press_on_a_column_sorts_and_the_address_says_so(tab: Page, dashboard: Dashboard) -> None:
    """By reward the greatest first, pressed again the least; a filter set then stays with the order, and so does a
    reload. The focus stays at the title that was pressed."""
    newest = {one.cycle or 0: one.total for one in dashboard.seeded.recorded}
    title = tab.locator("#list th a", has_text="Reward")
    await tab.goto("./cycles")

    await title.click()
    await expect(tab).to_have_url(re.compile("sort=-total"))
    await expect(tab.locator("#count")).to_have_text(f"1 to {ROWS}, by reward, greatest first, {ROWS} a page")
    await expect(title).to_be_focused()
    falling = [newest[number] for number in await numbers(tab)]
    await title.click()
    await expect(tab).to_have_url(re.compile("sort=total"))
    await tab.locator("[name=kind]").select_option("TOOL")
    await expect(tab).to_have_url(re.compile("kind=TOOL"))
    await tab.reload()

    assert falling == sorted(newest.values(), reverse=True)[:ROWS]
    rising = [newest[number] for number in await numbers(tab)]
    assert rising == sorted(rising)
    await expect(tab.locator("#list th[aria-sort]")).to_have_attribute("aria-sort", "ascending")


@pytest.mark.parametrize("sort", ["cycle", "need", "-skill", "outcome", "-ms", "ms", "total"])
async def test_sorted_pages_together_are_the_whole(dashboard: Dashboard, sort: str) -> None:
    """Whatever the order, each cycle is on one page."""
    pages = [(await dashboard.client.get(f"/cycles?sort={sort}&skip={skip}")).text for skip in (0, ROWS)]

    found = [int(number) for text in pages for number in re.findall(r'<tr id="c(\d+)"', text)]
    assert sorted(found) == list(range(1, CYCLES + 1))


async def test_times_and_ranges_narrow_the_list_and_its_files(dashboard: Dashboard) -> None:
    """From a time until another, within a range, with the other filters; the links to files have the same cycles."""
    begin, end = (dashboard.life.at(number).isoformat() for number in (11, 31))

    for query, expected in (
        ({"from": begin, "until": end}, range(11, 31)),
        ({"range": "20-40", "until": end}, range(20, 31)),
        ({"range": "last-10", "first": "55"}, range(55, CYCLES + 1)),
        ({"from": "2199-01-01"}, range(0)),
    ):
        answer = await dashboard.client.get("/cycles", params=query)
        found = [int(number) for number in re.findall(r'<tr id="c(\d+)"', answer.text)]
        (link,) = re.findall(r'href="[^"]*(/api/v1/cycles\.jsonl\?[^"]*)"', answer.text)
        lines = (await dashboard.client.get(link.replace("&amp;", "&"))).text.splitlines()
        assert found == list(reversed(expected))
        assert len(lines) == len(found)


async def test_a_cycle_names_the_time_of_its_filter_by_the_clock_here(dashboard: Dashboard) -> None:
    """As an element that the page writes in the time zone of its browser."""
    begin = dashboard.life.at(11).isoformat()

    page = parsed((await dashboard.client.get("/cycles/12", params={"from": begin})).text)

    assert page.one("p", class_="trail").one("time")["datetime"] == begin


async def test_new_cycles_that_match_a_rule_are_counted_while_sorted(tab: Page, dashboard: Dashboard) -> None:
    """A sorted list stays as it is; what is new and like the filter is counted, and shown when the count is pressed."""
    await tab.goto("./cycles?sort=-total&rule=execution&from=2026-01-01")
    before = await numbers(tab)

    recorded = [await dashboard.live() for _ in range(3)]
    like = sum(any(score.component == "execution" and score.value for score in one.scores) for (one,) in recorded)
    words = "1 new cycle like that" if like == 1 else f"{like} new cycles like that"
    await expect(tab.locator("#news")).to_have_text(words)

    assert await numbers(tab) == before
    assert like


async def test_filters_are_folded_on_a_phone(browser: Browser, dashboard: Dashboard) -> None:
    """Behind one button with the number of those that are set; the key of the search unfolds them, too."""
    port = int(dashboard.address.rpartition(":")[2])
    context = await browser_logged_in(browser, dashboard.seeded.home, port, viewport={"width": 390, "height": 844})
    tab = await context.new_page()
    await tab.goto("./cycles?outcome=success&least=-1")
    button, words = tab.locator("#unfold"), tab.locator("[name=text]")
    await expect(button).to_have_text("Filters · 2")
    await expect(words).to_be_hidden()
    await expect(tab.locator("#list")).to_be_in_viewport()

    await button.click()
    await expect(button).to_have_attribute("aria-expanded", "true")
    await tab.locator("[name=kind]").select_option("TOOL")
    await expect(button).to_have_text("Filters · 3")
    await button.click()
    await expect(words).to_be_hidden()
    await tab.keyboard.press("/")
    await expect(words).to_be_focused()
    await tab.set_viewport_size({"width": 1024, "height": 768})
    await expect(button).to_be_hidden()
    await expect(words).to_be_visible()
    await context.close()
