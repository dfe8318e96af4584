"""The overview in a browser: drawn from the history, then live from the place where that stood, nothing twice."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from conch.bus.checkpoints import encode_state, state_key
from conch.rewards.watch import CONSUMER, ActiveAlarm, WatchState
from conch_schemas import (
    ActionTaken,
    AlarmRaised,
    Cost,
    Event,
    FileCheck,
    GoalSet,
    MessageReceived,
    MessageSent,
    NoveltyMeasured,
    consequence_id,
    decode,
    subject_filter,
)
from conch_services.dashboard.drawings.numerals import signed
from tests.dashboard.conftest import CYCLES, Complaints, Dashboard, browser_logged_in

ROWS = "#cycles tr"


def upto_act(facts: list[Event]) -> list[Event]:
    """The facts of a cycle until it acted."""
    place = next(at for at, one in enumerate(facts) if isinstance(one, ActionTaken))
    return facts[: place + 1]


def row(tab: Page, cycle: int) -> str:
    """The selector of a cycle's row."""
    return f"#cycles tr[data-cycle='{cycle}']"


@pytest_asyncio.fixture(loop_scope="session")
async def unscripted(browser: Browser, dashboard: Dashboard) -> AsyncIterator[Page]:
    """A browser that runs no scripts."""
    port = int(dashboard.address.rpartition(":")[2])
    context = await browser_logged_in(browser, dashboard.seeded.home, port, java_script_enabled=False)
    yield await context.new_page()
    await context.close()


async def test_without_scripts_everything_can_be_read(unscripted: Page) -> None:
    """The server draws the figures, the distribution and the last cycles by itself."""
    await unscripted.goto("./overview")

    await expect(unscripted.locator("#key-reward strong")).to_have_text(re.compile(r"^[+−]0\.\d{3}$"))
    await expect(unscripted.locator("#actions li").first).to_contain_text("filesystem")
    await expect(unscripted.locator(ROWS)).to_have_count(25)
    await expect(unscripted.locator(ROWS).first).to_contain_text(str(CYCLES))


async def test_the_figures_of_a_live_page_are_those_of_a_fresh_one(tab: Page, dashboard: Dashboard) -> None:
    """The server draws both: words, bars and the lines of the cards."""
    cards = ".key strong, .key small, #actions span, #actions b"
    await tab.goto("./overview")
    await dashboard.live()
    await expect(tab.locator("#span")).to_have_text(f"last {CYCLES + 1} cycles")
    live = await tab.locator(cards).all_inner_texts()

    await tab.reload()

    await expect(tab.locator("#key-reward .line")).to_have_attribute("d", re.compile("^M"))
    assert await tab.locator(cards).all_inner_texts() == live


async def test_a_cycle_appears_when_it_acts_and_gets_its_total_when_it_is_recorded(
    tab: Page, dashboard: Dashboard
) -> None:
    """Its row says `scoring…` first; once it is recorded the total is in that row, and the server draws it alike."""
    await tab.goto("./overview")
    facts = dashboard.life.cycle()
    number = CYCLES + 1

    await dashboard.live(upto_act(facts), record=False)
    await expect(tab.locator(row(tab, number))).to_contain_text("scoring…")
    (recorded,) = await dashboard.live(facts)

    await expect(tab.locator(row(tab, number)).locator("td").last).to_have_text(signed(recorded.total))
    await expect(tab.locator(ROWS).first).to_have_attribute("data-cycle", str(number))
    await expect(tab.locator(ROWS)).to_have_count(25)
    await expect(tab.locator("#span")).to_have_text(f"last {number} cycles")
    live = await tab.locator(row(tab, number)).inner_text()
    await tab.reload()
    assert await tab.locator(row(tab, number)).inner_text() == live


async def test_an_act_that_waits_for_its_scores_is_on_the_page_from_the_start(tab: Page, dashboard: Dashboard) -> None:
    """An act that the store has without its scores is drawn as `scoring…`, and filled when they come."""
    facts = dashboard.life.cycle()
    assert await dashboard.live(upto_act(facts)) == []
    assert "scoring…" in (await dashboard.client.get("/overview")).text
    await tab.goto("./overview")

    await dashboard.live(facts)

    await expect(tab.locator(row(tab, CYCLES + 1)).locator("td").last).to_have_text(re.compile(r"^[+−]\d\.\d{3}$"))
    await expect(tab.locator(row(tab, CYCLES + 1))).to_have_count(1)


async def test_a_late_score_changes_the_row_in_place(tab: Page, dashboard: Dashboard) -> None:
    """A row says how many parts are scored until all are; a later revision takes its place, it is no second row."""
    facts = dashboard.life.cycle()
    late = [one for one in facts if isinstance(one, NoveltyMeasured)]
    await tab.goto("./overview")

    await dashboard.live([one for one in facts if one not in late])
    for _ in range(7):  # the deadline of a score is half a minute, a cycle takes five seconds
        await dashboard.live()
    await expect(tab.locator(row(tab, CYCLES + 1))).to_contain_text(re.compile(r"\d of \d scored"))
    (revised,) = await dashboard.live(late)

    cell = tab.locator(row(tab, CYCLES + 1)).locator("td").last
    await expect(cell).to_have_text(signed(revised.total))
    await expect(tab.locator(row(tab, CYCLES + 1))).to_have_count(1)


async def test_hostile_text_is_shown_as_text(tab: Page, dashboard: Dashboard) -> None:
    """Markup in an action, drawn by the server or live, is text: no element is made of it, and nothing runs."""
    asked: list[str] = []
    tab.on("dialog", lambda dialog: asked.append(dialog.message))
    await tab.goto("./overview")

    await dashboard.live(dashboard.life.cycle(hostile=True))

    await expect(tab.locator(row(tab, CYCLES + 1))).to_contain_text("<script>alert(1)</script>")
    await expect(tab.locator("#cycles script, #cycles img")).to_have_count(0)
    assert asked == []


async def test_an_alarm_is_shown_until_it_is_over(tab: Page, dashboard: Dashboard) -> None:
    """The strip and the figure say an alarm in its own sentence, with the cycle that it began at."""
    what = "format makes 90 % of the variance <b>of the total</b>"
    active = ActiveAlarm("dominance", "format", 7, 0.9, 0.8, what, ())
    key = state_key(CONSUMER, "echo")
    await tab.goto("./overview")

    revision = await dashboard.bus.put(key, encode_state(WatchState(active=(active,)), 1, ""), revision=0)
    await dashboard.live([rings(dashboard, active=True)], record=False)
    await expect(tab.locator("#alarms")).to_contain_text("variance <b>of the total</b>")
    await expect(tab.locator("#alarms")).to_contain_text("(0.9, alarm above 0.8; over again below 0.64)")
    await expect(tab.locator("#alarms small")).to_contain_text("lower its weight or give it a cap")
    await expect(tab.locator("#alarms a")).to_have_attribute("href", f"{dashboard.prefix}/cycles/7")
    await expect(tab.locator("#key-alarms strong")).to_have_text("1")
    await dashboard.bus.put(key, encode_state(WatchState(), 1, ""), revision=revision)
    await dashboard.live([rings(dashboard, active=False)], record=False)

    await expect(tab.locator("#alarms")).to_be_hidden()
    await expect(tab.locator("#key-alarms strong")).to_have_text("0")


def rings(dashboard: Dashboard, *, active: bool) -> AlarmRaised:
    """The fact that an alarm began, or is over."""
    act = next(one for one in dashboard.life.copy().cycle() if isinstance(one, ActionTaken))
    return AlarmRaised(
        id=consequence_id(act.id, "watch", "1", AlarmRaised, int(active)),
        source=act.source,
        agent=act.agent,
        cycle=act.cycle,
        alarm="dominance",
        component="format",
        active=active,
        begun=7,
        value=0.9,
        threshold=0.8,
        window=100,
        what="format makes 90 % of the variance",
    )


async def test_a_chart_is_read_with_the_arrow_keys(tab: Page) -> None:
    """The arrow keys go from cycle to cycle and say its values; Enter opens it."""
    await tab.goto("./overview")
    plot = tab.locator("#reward .plot")
    await plot.focus()

    await plot.press("End")
    await expect(tab.locator("#reward [aria-live]")).to_have_text(re.compile(rf"^cycle {CYCLES}: total [+−]?0\.\d+"))
    await plot.press("ArrowLeft")
    await plot.press("Enter")

    await expect(tab).to_have_url(re.compile(rf"/cycles/{CYCLES - 1}$"))


async def test_the_theme_is_turned_by_a_key_and_kept(tab: Page) -> None:
    """t goes from the system's theme to light, to dark, and back; another page has it from its first paint."""
    await tab.goto("./overview")

    await tab.keyboard.press("t")
    await tab.keyboard.press("t")
    await expect(tab.locator("html")).to_have_attribute("data-theme", "dark")
    await tab.goto("./cycles")

    await expect(tab.locator("html")).to_have_attribute("data-theme", "dark")
    assert await tab.evaluate("getComputedStyle(document.body).backgroundColor || 0") is not None
    assert await tab.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(12, 15, 19)"


async def test_what_is_told_is_a_fact_and_is_read_back(tab: Page, dashboard: Dashboard) -> None:
    """The words of the box go to the agent as a message; it appears in the talk as text when the bus has it."""
    await tab.goto("./overview")
    await tab.locator("#tell").click()

    await tab.locator("#tell-box textarea").fill("Read <i>this</i> first")
    await tab.locator("#tell-box .main").click()

    await expect(tab.locator("#talk li")).to_have_text(["Read <i>this</i> first"])
    await expect(tab.locator("#tell-box textarea")).to_have_value("")


async def test_a_goal_is_set_with_its_check(tab: Page, dashboard: Dashboard) -> None:
    """The dialog makes a goal of what was filled in, with the check that was chosen."""
    await tab.goto("./overview")
    await tab.locator("#goal").click()
    box = tab.locator("#goal-box")
    await box.locator("[name=statement]").fill("The plan is written")
    await box.locator("[name=kind]").select_option("file")
    await box.locator("[name=path]").fill("plan.md")
    await box.locator("[name=contains]").fill("# Plan")

    await box.locator(".main").click()

    await expect(box).to_be_hidden()
    await expect(tab.locator("#said")).to_have_text("The goal is added: The plan is written")
    await expect(tab.locator("#goals")).to_contain_text("The plan is written")
    (set_,) = [one async for one in dashboard.bus.read([subject_filter(GoalSet)])]
    goal = decode(set_.data)
    assert isinstance(goal, GoalSet)
    assert (goal.goal.statement, goal.goal.check) == (
        "The plan is written",
        FileCheck(path="plan.md", contains=("# Plan",)),
    )


async def test_what_cannot_be_done_is_said(tab: Page, complaints: Complaints) -> None:
    """The sentence of a refusal stands on the page: nobody runs the agent, the check lacks its command."""
    await tab.goto("./overview")

    await tab.locator("#pause").click()
    await expect(tab.locator("#said")).to_have_text("The agent echo does not run: conch run starts it.")
    await tab.locator("#goal").click()
    await tab.locator("#goal-box [name=statement]").fill("Nothing checks this")
    await tab.locator("#goal-box .main").click()

    await expect(tab.locator("#goal-box .wrong")).to_contain_text("command")
    complaints.pardon()


async def test_a_bus_that_is_away_is_said_and_what_came_meanwhile_is_there_after(
    tab: Page, dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says that nothing new comes, and from what is shown; with the bus back it goes on by itself."""
    await tab.goto("./overview")
    await expect(tab.locator("#state")).to_contain_text("live")

    with monkeypatch.context() as broken:
        broken.setattr(type(dashboard.bus), "connected", False)
        await expect(tab.locator("#banner")).to_contain_text("What stands here is from the history")
        await expect(tab.locator("#dot")).to_have_attribute("data-state", "away")
    await dashboard.live()

    await expect(tab.locator("#banner")).to_be_hidden()
    await expect(tab.locator(row(tab, CYCLES + 1))).to_have_count(1)


async def test_a_flood_is_shown_by_its_newest_rows_and_whole_once_it_is_over(tab: Page, dashboard: Dashboard) -> None:
    """What could not be sent in time is in the table all the same."""
    await tab.goto("./overview")
    await expect(tab.locator("#state")).to_contain_text("live")
    facts = [fact for _ in range(400) for fact in dashboard.life.cycle()]

    await dashboard.live(facts)

    await tab.wait_for_load_state()
    newest = dashboard.seeded.recorded[-1]
    await expect(tab.locator(row(tab, newest.cycle or 0))).to_contain_text(signed(newest.total), timeout=30_000)
    await expect(tab.locator(ROWS)).to_have_count(25)


async def test_the_talk_is_there_after_a_reload_each_word_once(tab: Page, dashboard: Dashboard) -> None:
    """The last twenty messages stand in the box, those of the agent beside those to it; what comes then follows."""
    await dashboard.live(messages(dashboard, 23), record=False)
    await tab.goto("./overview")
    said = tab.locator("#talk li")
    await expect(said).to_have_text([f"word <i>{number}</i>" for number in range(3, 23)])
    await expect(said.first).to_have_class("it")
    await expect(tab.locator("#state")).to_contain_text("live")

    await dashboard.live(messages(dashboard, 1, since=23), record=False)

    await expect(said.last).to_have_text("word <i>23</i>")
    await expect(said).to_have_count(20)
    await expect(said.first).to_have_text("word <i>4</i>")


async def test_where_the_talk_is_is_said_while_the_bus_is_away(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is kept by the stream alone."""
    monkeypatch.setattr(dashboard.world, "shared_events", None)

    assert (
        "What was said before is kept by the stream alone: the bus is away"
        in (await dashboard.client.get("/overview")).text
    )


async def test_half_typed_words_are_not_thrown_away_by_a_flood(tab: Page, dashboard: Dashboard) -> None:
    """The parts behind the box are drawn again; the box, its words and the page itself stay."""
    await tab.goto("./overview")
    await expect(tab.locator("#state")).to_contain_text("live")
    await tab.evaluate("window.opened = 'once'")
    await tab.locator("#tell").click()
    await tab.locator("#tell-box textarea").fill("Half a tho")

    await dashboard.live([fact for _ in range(400) for fact in dashboard.life.cycle()])
    newest = dashboard.seeded.recorded[-1]
    await expect(tab.locator(row(tab, newest.cycle or 0))).to_contain_text(signed(newest.total), timeout=30_000)

    await expect(tab.locator("#tell-box textarea")).to_have_value("Half a tho")
    await expect(tab.locator("#tell-box textarea")).to_be_focused()
    assert await tab.evaluate("window.opened") == "once"


def messages(dashboard: Dashboard, count: int, since: int = 0) -> list[Event]:
    """So many messages, every other one by the agent."""
    act = next(one for one in dashboard.life.cycle() if isinstance(one, ActionTaken))
    made: list[Event] = []
    for number in range(since, since + count):
        kind = MessageSent if number % 2 else MessageReceived
        said = {"source": act.source, "agent": act.agent, "text": f"word <i>{number}</i>"}
        made.append(kind(id=consequence_id(act.id, "tell", str(number), kind), **said))
    return made


async def test_costs_stand_on_the_overview_and_on_the_cycle(tab: Page, dashboard: Dashboard) -> None:
    """Unknown where no tokens had a price; the sum once there is one, by itself, with how many are unknown."""
    await tab.goto("./overview")
    await expect(tab.locator("#cost")).to_have_text("cost unknown")

    await dashboard.live(dashboard.life.cycle(cost=Cost(amount=0.01234, currency="EUR")))

    await expect(tab.locator("#cost")).to_have_text(f"cost 0.01234 EUR, {CYCLES} unknown")
    await tab.goto(f"./cycles/{CYCLES + 1}")
    await expect(tab.locator("#price")).to_have_text("0.01234 EUR")
    await tab.goto(f"./cycles/{CYCLES}")
    await expect(tab.locator("#price")).to_have_text("cost unknown")
