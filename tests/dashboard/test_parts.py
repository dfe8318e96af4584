"""The parts of a page: drawn again by the server as facts come, while what a person does on the page stays."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from playwright.async_api import Page, Route, expect
from playwright.async_api import Response as PlaywrightResponse

from conch_schemas import NoveltyMeasured
from conch_services.dashboard.assets import FOLDER, HASHED
from conch_services.dashboard.stream.increments import TYPE, increment, pieces
from tests.dashboard.conftest import CYCLES, PATIENCE, Dashboard
from tests.dashboard.document import parsed

TEMPLATES = FOLDER.parent / "templates"
PIECES = ("<b>", "one", ",", "\n", "<td>2</td>", "0.5,", "𝔘")


async def test_focus_selection_folds_and_scroll_stay_while_a_page_is_live(tab: Page, dashboard: Dashboard) -> None:
    """What is focused, marked, unfolded and scrolled to stays as it is when the server draws all around it again."""
    await tab.goto("./rewards")
    await expect(tab.locator("#state")).to_contain_text("live")
    link = tab.locator("#components a", has_text="execution")
    await link.focus()
    await tab.evaluate("""() => {
        const words = document.querySelector("#components a[href$='/goal'], #components a");
        getSelection().selectAllChildren(words);
        document.querySelector("#components").parentElement.scrollLeft = 30;
        scrollTo(0, 120);
        document.querySelector("#components a[href*=execution]").noted = true;
    }""")
    before = await tab.evaluate("[getSelection().toString(), scrollY]")

    await dashboard.live()
    await expect(tab.locator(".key small").first).to_have_text(f"of the last {CYCLES + 1} cycles")

    await expect(link).to_be_focused()
    assert await tab.evaluate("[getSelection().toString(), scrollY]") == before
    assert await tab.evaluate("document.querySelector('#components a[href*=execution]').noted")
    await tab.goto(f"./cycles/{CYCLES + 1}")
    await tab.locator("summary", has_text="Why, in words").click()
    await tab.evaluate("""() => {
        document.addEventListener("htmx:finally:request", () => { document.body.dataset.ended = "yes"; });
        window.htmx.trigger(document.getElementById("cycle"), "stale");
    }""")
    await expect(tab.locator("body")).to_have_attribute("data-ended", "yes")
    await expect(tab.locator("dl.why")).to_be_visible()


async def test_a_page_that_is_held_stands_still_and_says_what_waits(tab: Page, dashboard: Dashboard) -> None:
    """h holds every part; the switch counts the cycles that came since; pressed again, the page shows all of them."""
    await tab.goto("./overview")
    await expect(tab.locator("#state")).to_contain_text("live")
    await tab.keyboard.press("h")

    await dashboard.live()
    await expect(tab.locator("#hold")).to_have_text("Held · 1 new")
    await expect(tab.locator("#cycles tr").first).to_have_attribute("data-cycle", str(CYCLES))
    await tab.locator("#hold").click()

    await expect(tab.locator("#cycles tr").first).to_have_attribute("data-cycle", str(CYCLES + 1))
    await expect(tab.locator("#hold")).to_have_text("Live")


async def test_what_is_on_its_way_is_not_drawn_on_a_held_page(tab: Page, dashboard: Dashboard) -> None:
    """An answer that comes once the page is held waits until it goes on."""
    asked, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(route: Route) -> None:
        asked.set()
        await goes_on.wait()
        await route.continue_()

    await tab.route("**/overview/rows*", slow)
    await tab.goto("./overview")
    await tab.evaluate(
        "document.addEventListener('htmx:finally:request', (one) => { document.body.dataset.ended = one.target.id; })"
    )
    await dashboard.live()
    async with asyncio.timeout(PATIENCE):
        await asked.wait()
    await tab.keyboard.press("h")
    goes_on.set()
    await expect(tab.locator("body")).to_have_attribute("data-ended", "last-cycles")

    await expect(tab.locator("#cycles tr").first).to_have_attribute("data-cycle", str(CYCLES))
    await tab.locator("#hold").click()
    await expect(tab.locator("#cycles tr").first).to_have_attribute("data-cycle", str(CYCLES + 1))


async def test_a_held_page_counts_each_cycle_once_that_it_does_not_show(tab: Page, dashboard: Dashboard) -> None:
    """Neither those that it shows, which it may hear of once more, nor a score that came late."""
    facts = dashboard.life.cycle()
    late = [one for one in facts if isinstance(one, NoveltyMeasured)]
    await tab.goto("./overview")
    await tab.keyboard.press("h")

    await dashboard.live([one for one in facts if one not in late])
    for _ in range(7):  # the deadline of a score is half a minute, a cycle takes five seconds
        await dashboard.live()
    (revised,) = await dashboard.live(late)
    await dashboard.live()

    await expect(tab.locator("#hold")).to_have_text("Held · 9 new")
    assert revised.revision > 1
    await tab.reload()
    await tab.keyboard.press("h")
    await dashboard.live()
    await expect(tab.locator("#hold")).to_have_text("Held · 1 new")


async def test_the_stream_tells_a_page_of_what_it_shows_alone(tab: Page, dashboard: Dashboard) -> None:
    """It is asked for the kinds that parts and scripts name; a part that comes later is heard of, too."""
    async with tab.expect_request(lambda one: "/live?" in one.url) as opened:
        await tab.goto("./memory")
    assert "mark.witnessed" not in (await opened.value).url

    async with tab.expect_request(lambda one: "/live?" in one.url) as more:
        await tab.evaluate("""() => {
            document.getElementById("main").insertAdjacentHTML("beforeend", "<p id='more' data-on='goal.set'></p>");
            document.getElementById("more").dispatchEvent(new CustomEvent("htmx:after:swap", { bubbles: true }));
        }""")
    assert "goal.set" in (await more.value).url
    async with tab.expect_request(lambda one: "/live?" in one.url) as witness:
        await tab.goto("./witness")
    assert "mark.witnessed" in (await witness.value).url


async def test_a_hidden_line_of_a_chart_stays_hidden_and_the_chart_grows(tab: Page, dashboard: Dashboard) -> None:
    """A chart is no part: what is new of its lines is joined to what is there, and only that is sent."""
    await tab.goto("./needs")
    await expect(tab.locator("#state")).to_contain_text("live")
    button = tab.locator("#needs .legend button").first
    await button.click()
    sent: list[int] = []
    tab.on("response", lambda answer: sent.append(1) if "since=" in answer.url else None)

    await dashboard.live()
    await expect(tab.locator("table.changes tbody tr").first).to_contain_text(str(CYCLES + 1))

    await expect(button).to_have_attribute("aria-pressed", "false")
    plot = tab.locator("#needs .plot")
    await plot.focus()
    await plot.press("End")
    await expect(tab.locator("#needs [aria-live]")).to_contain_text(f"cycle {CYCLES + 1}:")
    assert sent
    await tab.locator("#needs summary").click()
    await expect(tab.locator("#needs .as-table tbody th").first).to_have_text(str(CYCLES + 1))


async def test_of_a_part_only_what_changed_is_sent(tab: Page, dashboard: Dashboard) -> None:
    """The first drawing is whole; behind it comes what is new of the list, and the list is that of the server."""
    sent: list[tuple[str, int]] = []

    async def note(answer: PlaywrightResponse) -> None:
        if "/overview/rows" in answer.url:
            sent.append((answer.headers["content-type"], len(await answer.body())))

    tab.on("response", note)
    await tab.goto("./overview")
    await expect(tab.locator("#state")).to_contain_text("live")
    for more in (1, 2):
        await dashboard.live()
        await expect(tab.locator("#cycles tr").first).to_have_attribute("data-cycle", str(CYCLES + more))
    await tab.wait_for_load_state("networkidle")

    (whole, size), *_, (kind, less) = sent
    assert (whole.split(";")[0], kind) == ("text/html", TYPE)
    assert less < 0.3 * size
    drawn = parsed((await dashboard.client.get("/overview/rows?agent=echo")).text)
    rows = [row["data-cycle"] for row in drawn.one("tbody", id="cycles").all("tr")]
    assert rows == await tab.locator("#cycles tr").evaluate_all("(all) => all.map((one) => one.dataset.cycle)")


@given(st.lists(st.sampled_from(PIECES)), st.lists(st.sampled_from(PIECES)))
def test_an_increment_makes_the_new_drawing_of_the_old(old: list[str], new: list[str]) -> None:
    """Whatever the two have in common."""
    before, after = pieces("".join(old)), pieces("".join(new))
    made = increment(before, after)

    said = [one if isinstance(one, str) else "".join(before[slice(*one)]) for one in made]
    assert "".join(said) == "".join(new)


async def test_a_drawing_that_is_not_known_any_more_is_sent_whole(dashboard: Dashboard) -> None:
    """A dashboard that was started again knows no drawing; what is no drawing is no increment."""
    gone = await dashboard.client.get("/overview/rows?agent=echo", headers={"Conch-Drawn": "0011223344556677"})
    again = {"Conch-Drawn": gone.headers["conch-digest"]}
    same = await dashboard.client.get("/overview/rows?agent=echo", headers=again)
    data = await dashboard.client.get("/state?agent=echo", headers=again)

    assert gone.headers["content-type"].startswith("text/html")
    assert (same.headers["content-type"], len(same.json())) == (TYPE, 1)
    assert "conch-digest" not in data.headers


async def test_files_are_kept_for_ever_under_their_digest_and_pages_are_compressed(dashboard: Dashboard) -> None:
    """A browser asks once for a file; another digest than that of now has none."""
    page = await dashboard.client.get("/")
    kept = await dashboard.client.get(f"{dashboard.address}{HASHED}/page.js")
    gone = await dashboard.client.get(f"{dashboard.address}/static/000000000000/page.js")

    assert page.headers["content-encoding"] == "gzip"
    assert kept.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert (kept.status_code, gone.status_code) == (200, 404)
    assert set(re.findall(r'"(/static/[^"/]*)', page.text)) == {HASHED}


def test_templates_name_files_by_their_digest() -> None:
    """A script under two addresses would run twice."""
    found = [path.name for path in TEMPLATES.glob("*.html") if re.search(r'["\'(]/static/', Path(path).read_text())]

    assert found == []
