"""The story page in a browser: the verdict and the curve of the whole life, what happens now, what needs a person."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect
from playwright.async_api import Error as PlaywrightError

from conch.consumer.runtime.dead_letters import dead_letter, publish_dead_letter
from conch.consumer.spec import ConsumerSpec
from conch.rewards.watch import MEANINGS
from conch.views import Change, VerdictKind, life_evidence
from conch_schemas import (
    ActionTaken,
    AgentPaused,
    AlarmRaised,
    Event,
    FileCheck,
    Goal,
    GoalAccepted,
    GoalCheck,
    GoalSet,
    WeightsSet,
    consequence_id,
    source_of,
    subject_filter,
)
from conch_services.dashboard.drawings.numerals import signed
from conch_services.dashboard.story import page as story_page
from conch_services.dashboard.story import reading as story_reading
from conch_services.dashboard.story.markers import StreamLife, take
from conch_services.dashboard.story.needs_you import MOST_STARVING, NeedsYou, Waiting, grouped
from conch_services.dashboard.story.reading import LifeFigures
from conch_services.dashboard.stream.hub import ALONE
from tests.approving import asking
from tests.conftest import Until
from tests.dashboard.conftest import CYCLES, Dashboard, browser_logged_in
from tests.dashboard.document import parsed
from tests.dashboard.life import HOSTILE, Life
from tests.dashboard.test_overview import upto_act

MOST_BYTES = 250_000
"""Of all that a first load of the page brings."""


def data(html: str) -> dict[str, Any]:
    """What the chart of a page is drawn from."""
    found = re.search(r'id="life-data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


def alarm(dashboard: Dashboard, act: ActionTaken, *, active: bool = True, kind: str = "falling_entropy") -> AlarmRaised:
    """An alarm of echo since cycle 7, or its end."""
    return AlarmRaised(
        id=consequence_id(act.id, "watch", "1", AlarmRaised, int(active)),
        source=act.source,
        agent=act.agent,
        cycle=act.cycle,
        alarm=kind,
        active=active,
        begun=7,
        value=0.2,
        threshold=0.3,
        window=50,
        what="diversity is low",
    )


async def test_the_curve_says_what_the_store_says(dashboard: Dashboard) -> None:
    """Its buckets hold every cycle, with the mean of their totals; the page is of the same moment."""
    html = (await dashboard.client.get("/")).text
    found = data(html)
    totals = {one.cycle: one.total for one in dashboard.seeded.recorded}

    assert (found["begin"], found["behind"], found["width"]) == (0, CYCLES + 1, 8)
    for at, first in enumerate(found["x"]):
        mine = [total for cycle, total in totals.items() if first <= (cycle or 0) < first + 8]
        assert abs(found["mean"][at] - sum(mine) / len(mine)) < 0.002
        assert (found["low"][at], found["high"][at]) == (round(min(mine), 3), round(max(mine), 3))
    assert "Too early to say: 60 of 200 cycles." in html


async def test_a_longer_life_has_a_verdict_and_says_what_changed(dashboard: Dashboard, until: Until) -> None:
    """In a sentence with from, to and interval, and in a table of the first and the last hundred cycles."""
    await dashboard.live([fact for _ in range(160) for fact in dashboard.life.cycle()])

    async def is_read() -> bool:
        return "data-reading" not in (await dashboard.client.get("/story/life")).text

    await until(is_read)
    page = parsed((await dashboard.client.get("/")).text)

    details = page.one("p", class_="details").text
    assert re.search(r"from [+−]\d\.\d\d \(first 100 cycles\) to [+−]\d\.\d\d \(last third\)", details)
    assert re.search(r"\d+ of 220 acts moved a goal", details)
    assert page.one("h2", id="verdict")["data-kind"] in (
        "learning",
        "risen",
        "levelled",
        "falling",
        "habit",
        "unchanged",
    )
    status = (await dashboard.client.get("/api/v1/status")).json()
    assert status["verdict"]["headline"] == page.one("h2", id="verdict").text
    titles = [row.one("th").text for row in page.one("section", id="changed").all("tr")[1:]]
    assert titles[:2] == ["Reward", "Tool calls that succeed"]


async def test_what_happened_beside_the_acts_is_marked(dashboard: Dashboard) -> None:
    """Weight sets, policies, starts and pauses are lines, reached goals flags, alarms spans in a lane with a plain
    name."""
    life = dashboard.life
    acts = [one for one in life.cycle() if isinstance(one, ActionTaken)]
    done = GoalCheck(goal="g", statement="Tidy <b>up</b>", outcome="achieved", measure=1.0, best=0.5)
    more: list[Event] = [
        life.policy(),
        other := life.policy().model_copy(update={"id": "p-2", "policy": "p2", "model": "other", "time": acts[0].time}),
        other.model_copy(update={"id": "p-3"}),
        AgentPaused(id="pause-1", source=acts[0].source, agent="echo", time=acts[0].time),
        alarm(dashboard, acts[0]),
    ]
    await dashboard.live([*more], record=False)
    weights = life.weights()
    parts = tuple(one.model_copy(update={"weight": one.weight / 2}) for one in weights.parts)
    halved = weights.model_copy(update={"id": "w-2", "version": "w2", "parts": parts, "time": acts[0].time})
    await dashboard.live([halved, *life.cycle(goals=(done,))])

    html = (await dashboard.client.get("/")).text
    found = data(html)

    assert {(one["kind"], one["words"]) for one in found["moments"]} == {
        ("weights", "weights changed"),
        ("policy", "another policy: openai other"),
        ("start", "started again"),
        ("pause", "paused"),
    }
    assert all(CYCLES <= one["cycle"] <= CYCLES + 2 for one in found["moments"])
    assert found["flags"][-1][0] == CYCLES + 2
    lanes = [one.text for one in parsed(html).one("dl", class_="lanes").all("dt")]
    assert lanes == ["goals", "stuck in a habit"]


def test_policies_that_act_by_turns_are_one_line_after_the_first_two(dashboard: Dashboard) -> None:
    """The blocks of a trial would cover the curve; a policy that comes after it is told again."""
    life, first = StreamLife(), dashboard.life.policy()
    for number, policy in enumerate(["p1", "p2", "p1", "p2", "p1", "p3"]):
        take(life, first.model_copy(update={"id": f"p-{number}", "policy": policy, "model": policy}))

    assert [words for _, _, words in life.moments] == [
        "another policy: openai p2",
        "two policies by turns, 3 changes",
        "another policy: openai p3",
    ]


@pytest.mark.parametrize(("verdict", "kind"), [("unchanged", ""), ("habit", ""), ("risen", "good")])
def test_the_row_of_the_reward_does_not_contradict_the_verdict(verdict: VerdictKind, kind: str) -> None:
    """Two windows of one life may differ: the whole life decides whether a change is more than chance."""
    rows = (
        Change("Reward", "+0.19", "+0.32", "+0.13", "good"),
        Change("Valid replies", "90 %", "80 %", "−10 points", "bad"),
    )

    shown = story_page._changes(LifeFigures(changes=rows), verdict)

    assert [one.kind for one in shown] == [kind, "bad"]


async def test_the_curve_is_held_against_blind_choice_and_ends_with_a_whole_group(dashboard: Dashboard) -> None:
    """Both levels with their words; a mean of two cycles would not be told from a mean of eight."""
    await dashboard.live([fact for _ in range(CYCLES, 8 * 28 + 1) for fact in dashboard.life.cycle()])

    found = data((await dashboard.client.get("/")).text)

    assert [words for _, words in found["baselines"]] == ["first 100 cycles", "choosing blindly"]
    assert (found["x"][-1], found["behind"]) == (8 * 27, 8 * 28 + 2)
    assert {len(found[name]) for name in ("x", "mean", "low", "high", "lower", "upper", "time")} == {28}


async def test_the_cycle_under_the_cursor_is_told_and_enter_opens_it(tab: Page, dashboard: Dashboard) -> None:
    """Cycle, time, total and act, by mouse and by keys, which say it aloud."""
    await tab.goto("./")
    plot = tab.locator("#curve .plot")
    await plot.hover()
    await expect(tab.locator("#curve .tip")).to_contain_text(re.compile(r"cycle \d+ · .* · [+−]0\.\d{3}"))
    await expect(tab.locator("#curve .tip")).to_contain_text(re.compile(r"cycles \d+ to \d+: mean [+−]0\.\d{3}"))

    await plot.focus()
    await plot.press("End")
    await expect(tab.locator("#curve [aria-live]")).to_contain_text(f"to {CYCLES}: mean")
    await plot.press("ArrowLeft")
    await plot.press("Enter")

    await expect(tab).to_have_url(re.compile(r"/cycles/4\d$"))


async def test_a_line_is_told_where_it_stands(tab: Page, dashboard: Dashboard) -> None:
    """Under the cursor on a pause at the end of a group of cycles: that group, not the nearer begin of the next one."""
    life, envelope = dashboard.life, {"source": source_of("echo", dashboard.life.uid), "agent": "echo"}
    await dashboard.live([AgentPaused(id="late", time=life.at(CYCLES - 6, 0.0), **envelope)], record=False)
    await tab.goto("./")
    drawn = json.loads(await tab.locator("#life-data").text_content() or "")
    (pause,) = (one for one in drawn["moments"] if one["kind"] == "pause")
    begin = max(first for first in drawn["x"] if first <= pause["cycle"])
    assert pause["cycle"] - begin > drawn["width"] / 2
    over = tab.locator("#curve .u-over")
    box = await over.bounding_box()
    assert box is not None
    share = (pause["cycle"] - drawn["begin"]) / (drawn["behind"] - drawn["begin"])

    await over.hover(position={"x": box["width"] * share, "y": box["height"] / 2})

    tip = tab.locator("#curve .tip")
    await expect(tip).to_contain_text(f"cycles {begin} to {begin + drawn['width'] - 1}")
    await expect(tip).to_contain_text(f"paused · cycle {pause['cycle']}")


async def test_what_happens_now_comes_live(tab: Page, dashboard: Dashboard) -> None:
    """The thought, then the act, then its reward as a strip that adds up; hostile text is text."""
    await tab.goto("./")
    await expect(tab.locator("#state")).to_contain_text("live")
    facts = dashboard.life.cycle(hostile=True)

    await dashboard.live(facts[:1], record=False)
    await expect(tab.locator("#thought")).to_contain_text("<script>alert(1)</script>")
    await expect(tab.locator("#phases .on")).to_have_text("act")
    await dashboard.live(upto_act(facts), record=False)
    await expect(tab.locator("#does")).to_contain_text("filesystem.write")
    await expect(tab.locator("#phases .on")).to_have_text("score")
    (recorded,) = await dashboard.live(facts)

    await expect(tab.locator("#last-total")).to_have_text(signed(recorded.total))
    await expect(tab.locator("#phases .on")).to_have_text("rest")
    amounts = [float(one.replace("−", "-")) for one in await tab.locator("#last-reward .adds-list b").all_inner_texts()]
    assert abs(sum(amounts) - recorded.total) < 0.0006 * len(amounts)
    live = await tab.locator("#last-reward").inner_html()
    await tab.reload()
    assert await tab.locator("#last-reward .adds-list").inner_text() != ""
    drawn = await tab.locator("#last-reward .adds").get_attribute("aria-label")
    assert drawn is not None
    assert drawn in live.replace("&lt;", "<")
    await expect(tab.locator("#thought script, #does script")).to_have_count(0)


async def test_the_life_is_drawn_again_and_the_chart_stays(tab: Page, dashboard: Dashboard) -> None:
    """A cycle that comes is in the verdict and in the curve, whose element is the same."""
    await tab.goto("./")
    await expect(tab.locator("#verdict")).to_contain_text("60 of 200")
    await tab.locator("#curve canvas").evaluate("(one) => { window.drawn = one; }")
    await dashboard.live()

    await expect(tab.locator("#verdict")).to_contain_text("61 of 200", timeout=20_000)

    assert await tab.locator("#curve canvas").evaluate("(one) => one === window.drawn")
    assert json.loads(await tab.locator("#life-data").text_content() or "")["behind"] == CYCLES + 2


async def test_what_needs_a_person_says_what_to_do(tab: Page, dashboard: Dashboard) -> None:
    """An approval, an alarm, a dead letter: each in words with its advice behind it, the serious ones first; a warning
    is not red. What is open stays open while new facts come."""
    act = await anext(aiter(dashboard.bus.read([subject_filter(ActionTaken)])))
    letter = dead_letter(ConsumerSpec("rule-joy", "1", (ActionTaken,), lambda _: None), act, "it broke", 3)
    await publish_dead_letter(dashboard.bus, letter)
    thought, asked = asking("echo", dashboard.life.uid, CYCLES + 1, command=HOSTILE)
    await dashboard.live([thought, asked], record=False)
    await tab.goto("./")
    asks = tab.locator("#needs-you li")

    await expect(asks.filter(has_text="rule-joy could not handle 1 event")).to_have_count(1)
    await expect(asks.filter(has_text="Waits for your approval")).to_contain_text("<script>alert(1)</script>")
    first = asks.first
    await first.locator("summary").click()
    await expect(first.locator("p").first).to_be_visible()
    await expect(first.locator("a")).to_have_attribute("href", re.compile(f"^{re.escape(dashboard.prefix)}/"))
    await dashboard.live()
    await expect(first.locator("p").first).to_be_visible()


async def test_a_goal_that_an_agent_proposed_needs_a_person(tab: Page, dashboard: Dashboard) -> None:
    """With what to do, and the way to its buttons; once it is decided it needs nobody."""
    goal = Goal(id="own-1", statement=f"Note the tide. {HOSTILE}", check=FileCheck(path="tide.md", contains=("high",)))
    source = source_of("echo", dashboard.life.uid)
    proposed = GoalSet(id="own-1", source=source, agent="echo", goal=goal, by="agent")
    await dashboard.live([proposed], record=False)
    await tab.goto("./")
    ask = tab.locator("#needs-you li", has_text="Set itself a goal")

    await expect(ask).to_contain_text("Note the tide. <")
    await expect(ask.locator(".note")).to_have_text("accept or veto it")
    await expect(ask).to_contain_text("Its check: tide.md has high.")
    await expect(ask.locator("a")).to_have_attribute("href", f"{dashboard.prefix}/overview#goals")
    accepted = GoalAccepted(id="own-1-yes", source=source, agent="echo", goal="own-1")
    await dashboard.live([accepted], record=False)
    await expect(ask).to_have_count(0)


async def test_a_slow_look_is_shown_once_it_is_done(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long each look takes, the page shows what the one before has found, and says so until there is one."""
    may_end, ended = asyncio.Event(), asyncio.Event()

    async def slow(_world: object) -> Waiting:
        await may_end.wait()
        ended.set()
        return Waiting((NeedsYou("need", "warning", "", "joy starves", "0.10", "feed it", "", "/needs"),), 0, "")

    monkeypatch.setattr(story_page, "waiting", slow)
    monkeypatch.setattr(story_page, "FRESH_SECONDS", 0.0)
    first = (await dashboard.client.get("/story/needs-you")).text
    may_end.set()
    await ended.wait()
    may_end.clear()
    second = (await dashboard.client.get("/story/needs-you")).text
    may_end.set()

    assert "It is being looked at." in first
    assert "not known" not in first
    assert "joy starves" in second
    assert 'data-every="700"' in second


async def test_the_verdict_of_an_earlier_visit_is_never_shown(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    """While a look lasts for long, the page says that the life is being read, and asks again soon."""
    monkeypatch.setattr(story_page, "FRESH_SECONDS", 0.0)

    async def is_read() -> bool:
        return "data-reading" not in (await dashboard.client.get("/story/life")).text

    await until(is_read)
    before = (await dashboard.client.get("/story/life")).text
    may_end = asyncio.Event()

    async def slow(*_: object) -> LifeFigures:
        await may_end.wait()
        return LifeFigures()

    monkeypatch.setattr(story_page, "_looked", slow)
    monkeypatch.setattr(story_page, "LIFE_SECONDS", 0.05)
    now = (await dashboard.client.get("/story/life")).text
    may_end.set()

    assert "60 of 200 cycles" in before
    assert "data-every" not in before
    assert "60 of 200 cycles" not in now
    assert "The whole life is being read." in now
    assert 'data-every="700"' in now


async def test_a_long_life_is_judged_at_once_and_its_curve_follows(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    """The first answer has samples of the curve, and says so; the verdict is that of the whole curve."""
    monkeypatch.setattr(story_reading, "AT_ONCE", 20)
    monkeypatch.setattr(story_reading, "TAIL", 8)
    monkeypatch.setattr(story_reading, "SAMPLE", 3)
    monkeypatch.setattr(story_page, "FRESH_SECONDS", 0.0)
    first = (await dashboard.client.get("/")).text

    async def is_whole() -> bool:
        now = (await dashboard.client.get("/story/life")).text
        return "so far of samples" not in now and "data-reading" not in now

    await until(is_whole)
    whole = (await dashboard.client.get("/story/life")).text

    assert "so far of samples" in first
    assert 'data-every="700"' in first
    assert "Too early to say: 60 of 200 cycles." in first
    assert "Too early to say: 60 of 200 cycles." in whole
    few, all_of = data(first), data(whole)
    assert few["x"] == all_of["x"]
    assert few["n"] is not None
    assert all_of["n"] is None or sum(all_of["n"]) > sum(few["n"])


async def test_a_sampled_life_is_judged_as_a_whole_one(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a life that is too long to be read, cohorts of neighbours are: from the same first cycles, up to the same
    checkpoint, with about the same figures."""
    await dashboard.live([fact for _ in range(200) for fact in dashboard.life.cycle()])
    whole = await dashboard.world.read(lambda reader: life_evidence(reader, "echo", moved=3))
    monkeypatch.setattr("conch.views.life.sampled.WHOLE", 150)
    monkeypatch.setattr("conch.views.life.sampled.SAMPLE", 5)

    some = await dashboard.world.read(lambda reader: life_evidence(reader, "echo", moved=3))

    assert whole.trend is not None
    assert some.trend is not None
    assert (some.acts, some.judged, some.first, some.last) == (whole.acts, whole.judged, whole.first, whole.last)
    assert whole.judged == 242
    assert some.trend.start == pytest.approx(whole.trend.start)
    assert some.trend.end == pytest.approx(whole.trend.end, abs=0.1)
    assert some.trend.change.error > whole.trend.change.error / 2
    of_range = await dashboard.world.read(lambda reader: life_evidence(reader, "echo", 11, 230))
    assert (of_range.acts, of_range.judged, of_range.first, of_range.last) == (220, 220, 11, 230)


async def test_a_live_alarm_of_a_habit_is_in_the_verdict(tab: Page, dashboard: Dashboard, until: Until) -> None:
    """Whatever the reward does, in the sentence or behind it; once the alarm has ended, it is gone."""
    facts = [fact for _ in range(160) for fact in dashboard.life.cycle()]
    act = next(one for one in reversed(facts) if isinstance(one, ActionTaken))
    await dashboard.live(facts)
    await dashboard.live([alarm(dashboard, act)], record=False)
    card = tab.locator("#curve-card")
    habit = re.compile("nearly the same act again and again", re.IGNORECASE)

    await tab.goto("./")
    await expect(card).to_contain_text(habit)
    await dashboard.live([alarm(dashboard, act, active=False)], record=False)

    async def is_over() -> bool:
        return habit.search((await dashboard.client.get("/story/life")).text) is None

    await until(is_over)


async def looked_at(dashboard: Dashboard, until: Until) -> None:
    """Once it is known what needs a person: a page waits for that a moment alone."""

    async def is_read() -> bool:
        return "being looked at" not in (await dashboard.client.get("/story/needs-you")).text

    await until(is_read)


async def test_a_rule_that_fails_and_a_need_that_starves_are_told(dashboard: Dashboard, until: Until) -> None:
    """A component with a score that never came, by its name, with the way to it."""
    await looked_at(dashboard, until)
    page = parsed((await dashboard.client.get("/")).text)
    words = [one.text for one in page.one("section", id="needs-you").all("span", class_="what")]

    assert "exploration came too late for 1 of the last 60 acts" in words
    links = [one["href"] for one in page.one("section", id="needs-you").all("a")]
    assert f"{dashboard.prefix}/rewards/component/exploration" in links


async def test_needs_of_many_agents_are_one_row_for_each_need(dashboard: Dashboard, until: Until) -> None:
    """Two agents by name and the number of the others, with a link to each; the heading counts the rows."""
    needs = dashboard.world.settings.needs
    all_starve = needs.model_copy(update={"starving": needs.starving.model_copy(update={"level": 1.0})})
    dashboard.world.settings = dashboard.world.settings.model_copy(update={"needs": all_starve})
    for name in ("ant", "bee", "cat"):
        other = Life(name)
        dashboard.world.home.agentuid(name)
        await dashboard.live([other.weights(), *other.cycle()])
    await looked_at(dashboard, until)

    card = parsed((await dashboard.client.get("/story/needs-you")).text).one("section", id="needs-you")
    rows = [one for one in card.all("li") if " starves: " in one.text]

    assert 2 <= len(rows) <= MOST_STARVING
    assert all(re.search(r"starves: \w+, \w+ and 2 more", one.text) for one in rows)
    assert {f"{dashboard.prefix}/needs?agent={name}" for name in ("ant", "bee", "cat", "echo")} | {
        f"{dashboard.prefix}/agents"
    } == {one["href"] for one in rows[0].all("a")}
    assert card.one("small").text == str(len(card.all("li")))


def test_only_alarms_and_needs_of_several_agents_are_put_together() -> None:
    """An approval of each stays a row, and an alarm of one keeps its button; that of two leads to the Agents page."""
    asks = [NeedsYou("approval", "serious", name, "Waits for your approval: x", "", "", "", "/") for name in "ab"]
    habits = [
        NeedsYou(
            *("habit", "warning", name, f"stuck in {name}", "", "look, then acknowledge", f"Few. (0.{at} < 0.3)"),
            f"/alarms?agent={name}",
            "falling_entropy",
        )
        for at, name in enumerate("ab")
    ]
    lone = NeedsYou("collapse", "warning", "a", "all alike", "", "", "", "/alarms?agent=a", "collapse")

    rows = grouped([*asks, *habits, lone])

    assert rows[:2] == asks
    assert rows[2].words == "habit: a and b"
    assert (rows[2].path, rows[2].alarm) == ("/agents?sort=alarms", None)
    assert (rows[2].task, rows[2].advice) == ("look at each", MEANINGS["falling_entropy"])
    assert rows[3:] == [lone]


async def test_an_unknown_bus_is_said(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch, until: Until) -> None:
    """Without it nothing needs a person as far as is known, and that is said."""
    monkeypatch.setattr(dashboard.world, "shared_events", None)
    await looked_at(dashboard, until)

    page = parsed((await dashboard.client.get("/")).text)

    assert "are not known: the bus is away" in page.one("section", id="needs-you").text
    assert "Pauses, policies and alarms are not known" in page.one("section", id="curve-card").text


def _end_run(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub says that no run is in progress; it does not look after the bus of the test any more."""
    dashboard.world.hub.say(ALONE)
    monkeypatch.setattr(dashboard.world.hub, "say", lambda state: None)


async def test_an_ended_run_is_told_in_one_plain_sentence(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    """What is not known is named with the reason once, without a number of none; the dot of the frame is no alarm."""
    dashboard.world.shared_events = None
    _end_run(dashboard, monkeypatch)
    await looked_at(dashboard, until)

    page = parsed((await dashboard.client.get("/")).text)

    needs_you = page.one("section", id="needs-you").text
    assert needs_you.endswith("Alarms, approvals and dead letters are not known: no run is in progress.")
    assert "At the end" in page.one("section", id="now").text
    assert page.one("span", id="dot")["data-state"] == "over"


async def test_after_a_run_the_page_speaks_of_its_end(
    tab: Page, dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is open when its run ends no longer tells what happens right now."""
    await tab.goto("./")
    await expect(tab.locator("#now-title")).to_contain_text("Right now")

    _end_run(dashboard, monkeypatch)

    await expect(tab.locator("#now-title")).to_contain_text("At the end")
    await expect(tab.locator("#dot")).to_have_attribute("data-state", "over")


async def test_the_first_cycles_line_is_of_the_totals_that_are_drawn(dashboard: Dashboard) -> None:
    """After a change of weights the verdict is of totals made anew; the curve, its line and the table are as paid."""
    before = dashboard.life.weights()
    parts = tuple(
        one.model_copy(update={"weight": {"format": 0.9}.get(one.component, 0.0)}) if one.weight else one
        for one in before.parts
    )
    facts: list[Event] = [fact for _ in range(200) for fact in dashboard.life.cycle()]
    identity = consequence_id(before.id, "test", "2", WeightsSet)
    await dashboard.live([*facts, before.model_copy(update={"id": identity, "version": "2", "parts": parts})])

    html = (await dashboard.client.get("/")).text

    first = [one.total for one in dashboard.seeded.recorded if one.cycle <= 100 and one.revision == 1]
    assert data(html)["baselines"][0][0] == pytest.approx(sum(first[:100]) / 100, abs=0.02)
    assert data(html)["baselines"][0][1] == "first 100 cycles, as paid"
    assert parsed(html).one("h2", id="changed-title").one("small").text == "first 100 → last 100 cycles, as paid"
    assert (
        "these totals are under those in force, not as they were paid" in parsed(html).one("p", class_="details").text
    )


async def test_any_number_leads_to_the_nearest_cycle(dashboard: Dashboard) -> None:
    """The tooltip's question is answered for the nearest cycle, whatever is asked."""
    asked = {
        number: (await dashboard.client.get(f"/story/cycle?number={number}")).json() for number in ("x", "7", "9" * 18)
    }

    assert asked["7"]["cycle"] == 7
    assert asked["x"]["cycle"] == 1
    assert asked["9" * 18]["cycle"] == CYCLES


async def test_the_first_load_is_light(tab: Page) -> None:
    """All that it brings, scripts and font among it, is at most 250 KB."""
    sizes: list[int] = []

    async def count(answer: Any) -> None:
        if "/live" not in answer.url:
            with suppress(PlaywrightError):  # a later drawing's body may be gone with the tab
                sizes.append(len(await answer.body()))

    tab.on("response", count)
    await tab.goto("./", wait_until="load")
    await expect(tab.locator("#curve canvas")).to_be_visible()
    tab.remove_listener("response", count)

    assert 50_000 < sum(sizes) <= MOST_BYTES


@pytest.mark.parametrize(("width", "theme"), [(1440, "dark"), (1024, "light"), (390, "light")])
async def test_the_page_fits_its_window(browser: Browser, dashboard: Dashboard, width: int, theme: Any) -> None:
    """Nothing reaches beyond its side, and no card lies over another one."""
    port = int(dashboard.address.rpartition(":")[2])
    options: dict[str, Any] = {"viewport": {"width": width, "height": 900}, "color_scheme": theme}
    context = await browser_logged_in(browser, dashboard.seeded.home, port, **options)
    page = await context.new_page()
    await page.goto("./")
    await expect(page.locator("#curve canvas")).to_be_visible()

    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = await page.evaluate(
        "[...document.querySelectorAll('.story section')].map((one) => one.getBoundingClientRect().toJSON())"
    )
    inside = await page.evaluate(
        "[...document.querySelectorAll('.story section')].every((one) => one.scrollHeight <= one.clientHeight + 1)"
    )
    assert inside
    for at, one in enumerate(boxes):
        for other in boxes[at + 1 :]:
            apart = (
                one["right"] <= other["left"] + 1
                or other["right"] <= one["left"] + 1
                or one["bottom"] <= other["top"] + 1
                or other["bottom"] <= one["top"] + 1
            )
            assert apart, (one, other)
    await context.close()
