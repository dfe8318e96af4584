"""One cycle's page in a browser: its story, its reward, its marks, and what it does live."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import Page, Route, expect

from conch.consumer import follow
from conch.text import cut
from conch_schemas import (
    Action,
    ActionTaken,
    ForkScored,
    GoalCheck,
    MarkWitnessed,
    NoveltyMeasured,
    Outcome,
    RewardAssigned,
    Score,
    decode,
    subject_filter,
)
from conch_services.dashboard.drawings.numerals import signed
from conch_services.dashboard.pages.cycle import SHOWN
from tests.dashboard.conftest import CYCLES, Dashboard
from tests.dashboard.document import parsed
from tests.dashboard.life import HOSTILE, whole

HOSTILE_CYCLE = 13
UNSCORED_CYCLE = 20


async def test_a_cycle_is_told_from_thought_to_act(tab: Page) -> None:
    """Each phase with its milliseconds, the claims with their verdicts, the parsed action, the needs, the marks."""
    await tab.goto("./cycles/7")

    steps = tab.locator(".step")
    await expect(tab.locator("h1")).to_have_text(re.compile(r"Cycle 7\s+success"))
    await expect(steps.locator("h3")).to_have_text(
        [re.compile(rf"^{name}\s+[\d.]+ ms") for name in ("Think", "Ground", "Decide", "Act")]
    )
    await expect(steps.nth(1)).to_contain_text("refuted")
    await expect(steps.nth(2)).to_contain_text("part7.py")
    await expect(tab.locator("#decoding")).to_contain_text("llama.cpp, held to a grammar, adapter 0123456789ab,")
    await expect(tab.locator("#chain")).to_have_text("chain verified")
    await expect(tab.locator(".levels").first).to_contain_text("reliability")


async def test_goals_that_the_act_left_as_they_were_are_folded(dashboard: Dashboard) -> None:
    """Open stands what the act moved, or what could not be checked."""
    said = [("moved", "partial", 0.5), ("same", "neutral", 0.25), ("lost", "neutral", 0.0), ("broken", "error", 0.0)]
    checks = tuple(GoalCheck(goal=name, statement=name, outcome=how, measure=now, best=0.25) for name, how, now in said)
    await dashboard.live(dashboard.life.cycle(goals=checks))

    page = parsed((await dashboard.client.get(f"/cycles/{CYCLES + 1}")).text)

    folded = page.one("details", id="unmoved")
    assert [one.one("bdi").text for one in folded.all("li")] == ["same"]
    assert folded.one("summary").text == "1 goal that the act left as it was"
    assert {"moved", "lost", "broken"} <= {one.one("bdi").text for one in page.all("ul", class_="claims")[1].all("li")}


async def test_the_waterfall_takes_two_fifths_of_its_card(tab: Page) -> None:
    """And more: names, factors and amounts share the rest."""
    await tab.goto("./cycles/8")

    shares = await tab.locator("#fall").evaluate(
        "(all) => all.querySelector('svg').getBoundingClientRect().width / all.getBoundingClientRect().width"
    )
    assert shares > 0.4


async def test_the_bars_of_the_waterfall_add_up(tab: Page, dashboard: Dashboard) -> None:
    """A row a part with raw × weight, a row a step, and the total that the store has."""
    (recorded,) = [one for one in dashboard.seeded.recorded if one.cycle == 8]

    await tab.goto("./cycles/8")

    parts = [one for one in recorded.scores if one.weight > 0]
    names = await tab.locator("#fall tbody th").all_inner_texts()
    assert names[: len(parts)] == [one.component for one in parts]
    amounts = await tab.locator("#fall tbody td:last-child").all_inner_texts()
    numbers = [float(said.replace("−", "-")) for said in amounts if re.match(r"^[+−]\d", said)]
    assert sum(numbers[:-1]) == pytest.approx(recorded.total, abs=0.005)
    assert numbers[-1] == pytest.approx(recorded.total, abs=0.0006)


async def test_what_has_no_weight_is_watched_or_bears_on_the_total(tab: Page, dashboard: Dashboard) -> None:
    """Each says which of the two it does; nothing without a weight is said to be paid."""
    (recorded,) = [one for one in dashboard.seeded.recorded if one.cycle == 8]
    beside = [one for one in recorded.scores if one.weight <= 0]
    bearing = [one for one in beside if one.role in ("boost", "factor", "penalty", "gate")]
    assert 0 < len(bearing) < len(beside)

    await tab.goto("./cycles/8")
    said = tab.locator("#unweighted")
    await said.locator("summary").click()

    await expect(said.locator("summary")).to_have_text(
        re.compile(rf"{len(bearing)} bears? on the total, {len(beside) - len(bearing)} watched$")
    )
    words = {await row.locator("th").inner_text(): await row.inner_text() for row in await said.locator("tr").all()}
    assert all("watched" in words[one.component] for one in beside if one.role == "paid")
    assert all(one.role in words[one.component] for one in bearing)
    assert not any("paid" in one for one in words.values())


async def test_a_principle_without_evidence_has_no_score(tab: Page) -> None:
    """Nothing to judge by is no row, not the best score: those are named below; what was judged keeps its bar."""
    await tab.goto("./cycles/7")
    rows = tab.locator("section[aria-labelledby=principles-title] tr")

    await expect(tab.locator(".unjudged")).to_contain_text("heterarchical")
    await expect(rows.filter(has_text="heterarchical")).to_have_count(0)
    judged = rows.filter(has_text="composable")
    await expect(judged.locator("td.num")).to_have_text("1.00")
    await expect(judged.locator("svg")).to_have_count(1)


async def test_what_was_not_scored_is_said(tab: Page) -> None:
    """A part that never came stands there as timeout, without a bar, and the head says how many were scored."""
    await tab.goto(f"./cycles/{UNSCORED_CYCLE}")

    await expect(tab.locator("#scored")).to_have_text(re.compile(r"^\d of \d scored$"))
    missing = tab.locator("#fall tr", has_text="exploration")
    await expect(missing).to_contain_text("timeout")
    await expect(missing.locator("rect")).to_have_count(0)


async def test_a_cycle_that_waits_for_its_scores_fills_when_they_come(tab: Page, dashboard: Dashboard) -> None:
    """The page says that it is not recorded yet, and draws the rest by itself; what was unfolded stays so."""
    facts = dashboard.life.cycle()
    place = next(at for at, one in enumerate(facts) if isinstance(one, ActionTaken))
    await dashboard.live(facts[: place + 1])
    await tab.goto(f"./cycles/{CYCLES + 1}")
    await expect(tab.locator("#cycle .banner")).to_contain_text("not recorded yet")
    await tab.locator("#prompt > summary").click()

    await dashboard.live(facts)

    await expect(tab.locator("#fall .total")).to_be_visible()
    await expect(tab.locator("#cycle .banner")).to_have_count(0)
    await expect(tab.locator("#prompt")).to_have_attribute("open", "")


async def test_a_late_score_is_drawn_into_an_open_page(tab: Page, dashboard: Dashboard) -> None:
    """A revision takes the place of `n of m scored`."""
    facts = dashboard.life.cycle()
    late = [one for one in facts if isinstance(one, NoveltyMeasured)]
    await dashboard.live([one for one in facts if one not in late])
    for _ in range(7):
        await dashboard.live()
    await tab.goto(f"./cycles/{CYCLES + 1}")
    await expect(tab.locator("#scored")).to_be_visible()

    await dashboard.live(late)

    await expect(tab.locator("h2", has_text="Reward breakdown")).to_contain_text("revision 2")
    await expect(tab.locator("#scored")).to_have_count(0)


async def test_hostile_words_are_text_without_escape_sequences(tab: Page) -> None:
    """Markup is text, escape sequences are gone, direction marks are replaced; nothing runs."""
    asked: list[str] = []
    tab.on("dialog", lambda dialog: asked.append(dialog.message))

    await tab.goto(f"./cycles/{HOSTILE_CYCLE}")

    output = tab.locator(".step[data-step=act] pre").first
    await expect(output).to_contain_text("<script>alert(1)</script>")
    words = await output.inner_text()
    assert "\x1b" not in words
    assert "[2J" not in words
    assert "owned" not in words, "a terminal's title is no output"
    assert "\u202e" not in await tab.locator("main").inner_text()
    await expect(tab.locator("#cycle script, #cycle img")).to_have_count(0)
    assert asked == []


async def test_a_megabyte_line_is_cut_and_had_whole_as_a_file(tab: Page, dashboard: Dashboard) -> None:
    """The page shows the head of it at once; the link gives all that was kept, as text and as a download."""
    line = cut("A" * 1_000_000)
    output = {"text": line.text, "length": 1_000_000, "sha256": line.sha256}
    outcome = {"status": "success", "output": output, "ms": 12.0}
    await dashboard.live(
        dashboard.life.cycle(raw=line.text, raw_length=1_000_000, raw_sha256=whole("").sha256, outcome=outcome)
    )

    await tab.goto(f"./cycles/{CYCLES + 1}")

    shown = await tab.locator(".step[data-step=act] pre").first.inner_text()
    assert len(shown) == SHOWN
    await expect(tab.locator(".step[data-step=act]")).to_contain_text("The tool said 1,000,000 characters")
    whole_text = await dashboard.client.get(f"/cycles/{CYCLES + 1}/text/output")
    assert whole_text.text == line.text
    assert whole_text.headers["content-type"] == "text/plain; charset=utf-8"
    assert whole_text.headers["content-disposition"].startswith("attachment;")
    assert whole_text.headers["x-content-type-options"] == "nosniff"
    assert await tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_candidates_of_forks_are_listed(dashboard: Dashboard) -> None:
    """Each stands with its scores and its sum, the best first, hostile words as text; a cycle without forks has no such
    card."""
    (recorded,) = [one for one in dashboard.seeded.recorded if one.cycle == 7]
    score = Score(component="format", value=0.5, range=(-1, 0.5), status="scored", scorer="reward", version="2")
    low, high = (
        follow(
            recorded, ForkScored, consumer="forks", version="1", index=seed, fork="f", seed=seed, mind="reflex",
            raw=HOSTILE, raw_length=9, raw_sha256="0" * 64, model=HOSTILE, finish_reason="stop", workspace="0" * 64,
            action=Action(kind="REFLECT", valid=True, text=HOSTILE), executed=False, scores=(score,), weights="w",
            outcome=Outcome(status="none", output=cut("")), total=total, coverage=1.0, ms={},
        )
        for seed, total in ((1, -0.25), (2, 0.75))
    )  # fmt: skip

    await dashboard.live([low, high])
    page = (await dashboard.client.get("/cycles/7")).text
    other = (await dashboard.client.get("/cycles/8")).text

    card = page[page.index('id="forks"') :]
    assert card.index("+0.750") < card.index("−0.250")
    assert "seed 2" in card
    assert "<script>alert" not in page
    assert 'id="forks"' not in other


async def test_the_file_of_a_hostile_text_is_as_it_came(dashboard: Dashboard) -> None:
    """A file is for programs: nothing in it is replaced."""
    answer = await dashboard.client.get(f"/cycles/{HOSTILE_CYCLE}/text/output")

    assert answer.text == HOSTILE


async def test_the_keys_j_and_k_go_to_the_neighbours(tab: Page) -> None:
    """As in the list: j is the older cycle, down, k the newer one, up; at the ends they do nothing."""
    await tab.goto("./cycles/7")
    await expect(tab.locator("#keys")).to_be_visible()  # its script has come

    await tab.keyboard.press("j")
    await expect(tab.locator("h1")).to_contain_text("Cycle 6")
    await expect(tab.locator("#keys")).to_be_visible()
    await tab.keyboard.press("k")
    await expect(tab.locator("h1")).to_contain_text("Cycle 7")
    await tab.goto("./cycles/1")
    await expect(tab.locator("#keys")).to_be_visible()
    await tab.keyboard.press("j")

    await expect(tab.locator("h1")).to_contain_text("Cycle 1")


async def test_the_button_of_the_keys_waits_for_the_pages_own_script(tab: Page) -> None:
    """A key pressed after it has come is never lost."""
    held, waiting = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        waiting.set()
        await held.wait()
        await route.continue_()

    await tab.route("**/static/*/cycle.js", hold)
    await tab.goto("./cycles/7", wait_until="commit")
    await waiting.wait()
    await expect(tab.locator("#theme")).to_be_visible()  # the script of all pages has run

    await expect(tab.locator("#keys")).to_be_hidden()
    held.set()
    await expect(tab.locator("#keys")).to_be_visible()


async def test_the_next_cycle_can_be_gone_to_once_it_is_there(tab: Page, dashboard: Dashboard) -> None:
    """The last cycle has no next one, until there is one."""
    await tab.goto(f"./cycles/{CYCLES}")
    await expect(tab.locator("a[rel=next]")).to_have_count(0)

    await dashboard.live()

    await expect(tab.locator("a[rel=next]")).to_have_attribute("href", f"{dashboard.prefix}/cycles/{CYCLES + 1}")


async def test_a_mark_that_was_changed_is_found(tab: Page, dashboard: Dashboard) -> None:
    """The hashes are taken again for the page: a mark that says something else than was sealed is named."""
    facts = dashboard.life.cycle()
    changed = [
        one.model_copy(update={"mark": one.mark.model_copy(update={"response": "nothing was done"})})
        if isinstance(one, MarkWitnessed) and one.mark.domain == "action"
        else one
        for one in facts
    ]
    await dashboard.live(changed)

    await tab.goto(f"./cycles/{CYCLES + 1}")

    await expect(tab.locator("#chain")).to_have_text("the chain does not hold")
    await expect(tab.locator("main")).to_contain_text("is not what its hash was taken over")


async def test_a_mark_that_follows_an_older_act_breaks_no_chain(tab: Page, dashboard: Dashboard) -> None:
    """An act of an episode links to the act before of the same episode, however far back that is."""
    for episode in ("tests", None, None, "tests"):
        await dashboard.live(dashboard.life.cycle(episode=episode))

    await tab.goto(f"./cycles/{CYCLES + 4}")

    await expect(tab.locator("#chain")).to_have_text("chain verified")


async def test_json_is_what_the_command_prints(tab: Page, dashboard: Dashboard) -> None:
    """The JSON tab has the document of the cycle, and the file all of it."""
    await tab.goto("./cycles/7")

    await tab.locator(".tabs a", has_text="JSON").click()

    await expect(tab.locator("pre.tall")).to_contain_text('"action_id"')
    document = (await dashboard.client.get("/cycles/7/text/json")).json()
    assert document["cycle"] == 7
    assert document["marks"]


async def test_the_story_is_told_again_step_by_step(tab: Page, dashboard: Dashboard) -> None:
    """Replay hides what is still to come and tells it in its own pace; Escape ends it, and all is there."""
    await dashboard.live(dashboard.life.cycle(ms={"think": 60_000.0, "ground": 1.0, "decide": 1.0, "act": 1.0}))
    await tab.goto(f"./cycles/{CYCLES + 1}")

    await tab.keyboard.press("r")
    await expect(tab.locator(".step[data-step=think]")).to_have_class(re.compile("telling"))
    await expect(tab.locator(".step.later")).to_have_count(3)
    await tab.keyboard.press("Escape")

    await expect(tab.locator(".later, .telling")).to_have_count(0)
    await expect(tab.locator("[data-replay]")).to_have_text("Replay")


@pytest.mark.parametrize("number", [CYCLES + 1, 10**18, 10**40])
async def test_a_number_without_a_cycle_is_not_found(dashboard: Dashboard, number: int) -> None:
    """A page of its own says so, with the last cycle that there is where that can be told."""
    answer = await dashboard.client.get(f"/cycles/{number}")

    assert answer.status_code == 404
    assert f"There is no cycle {number}" in answer.text


async def test_the_prompt_says_which_policy_is_not_known(tab: Page) -> None:
    """The system prompt is asked of the stream when it is unfolded; one that is not there is said to be gone."""
    await tab.goto("./cycles/7")

    await tab.locator("#prompt > summary").click()

    await expect(tab.locator("#prompt")).to_contain_text("The stream has no policy p1 of echo any more.")


async def test_a_person_rejects_a_cycle_with_a_reason(tab: Page, dashboard: Dashboard) -> None:
    """A rejection needs its reason, and is a score of the person's own on the bus."""
    await tab.goto("./cycles/7")
    await tab.locator("[data-review=reject]").click()
    box = tab.locator("#review-box")
    await box.locator(".main").click()
    await expect(box).to_be_visible()

    await box.locator("textarea").fill("It read the wrong file")
    await box.locator(".main").click()

    await expect(box).to_be_hidden()
    said = [decode(one.data) async for one in dashboard.bus.read([subject_filter(RewardAssigned)])]
    (mine,) = [one for one in said if isinstance(one, RewardAssigned) and one.scorer == "human"]
    await expect(tab.locator("#said")).to_contain_text("Cycle 7 is rejected")
    assert (mine.cycle, mine.scores[0].value, mine.scores[0].explanation) == (7, -1.0, "It read the wrong file")


async def test_acts_like_it_that_earned_more_are_named_with_what_paid_more(dashboard: Dashboard) -> None:
    """Of the same skill, greater in total, the parts of the difference; of the best act of a kind there is none."""
    newest = {one.cycle or 0: one for one in dashboard.seeded.recorded}
    kinds: dict[str, list[int]] = {}
    for number, one in newest.items():
        kinds.setdefault(one.action.skill, []).append(number)
    alike = max(kinds.values(), key=lambda some: len({newest[number].total for number in some}))
    alike.sort(key=lambda number: newest[number].total)

    pages = [await dashboard.client.get(f"/cycles/{number}") for number in (alike[0], alike[-1])]
    worst, best = (parsed(answer.text).one("section", id="better") for answer in pages)

    rows = worst.one("tbody").all("tr")
    assert 0 < len(rows) <= 5
    for row in rows:
        other = newest[int(row.attributes["data-cycle"])]
        assert other.action.skill == newest[alike[0]].action.skill
        assert other.total > newest[alike[0]].total
        assert signed(other.total) in row.text
    assert "No act of its kind earned more." in best.text
