"""The page of the review: which cycles stand out, and a person's word on them by keys."""

from __future__ import annotations

from typing import Any

from playwright.async_api import Page, expect

from conch.experience import ExperiencePoint, ShownScore
from conch.rewards.watch import ActiveAlarm
from conch_schemas import NoveltyMeasured, RewardAssigned, decode, subject_filter
from conch_services.dashboard.drawings.numerals import signed
from conch_services.dashboard.reviewing import candidates
from tests.dashboard.conftest import CYCLES, Dashboard
from tests.dashboard.document import parsed
from tests.dashboard.life import Life


def point(cycle: int, total: float = 0.3, scores: tuple[ShownScore, ...] = (), **changes: Any) -> ExperiencePoint:
    """A plain cycle."""
    plain = ExperiencePoint(
        cycle, cycle, Life().begun, "none", "REFLECT", None, "s", True, total, 1.0, True, 1, scores, (), {}
    )
    return plain._replace(**changes)


def said(scorer: str, value: float | None, component: str = "kind", status: str = "scored") -> ShownScore:
    """A score."""
    return ShownScore(component, value, 0.0, status, scorer, "1")


def test_what_stands_out_is_shown_first() -> None:
    """The beginning of an alarm, what is very extreme, scorers far apart, a missing score; plain cycles never."""
    plain = [point(number, 0.3 + 0.01 * (number % 2)) for number in range(20, 60)]
    apart = point(2, scores=(said("a", 1.0), said("b", 0.0)))
    missing = point(4, complete=False, scores=(said("human", None, "approval", "timeout"),))
    alarm = ActiveAlarm("dominance", "format", 1, 0.9, 0.8, "format makes 90 %", ())

    found = candidates([point(1), apart, point(3, -0.9), missing, *plain], [alarm], {"kind": (0.0, 1.0)})

    assert [one.cycle for one in found] == [1, 3, 2, 4]
    reasons = {one.cycle: one.reasons[0] for one in found}
    assert reasons[1] == "alarm: one rule decides all"
    assert reasons[2] == "scorers disagree on kind by 1.00"
    assert reasons[3].startswith("low total −0.900")
    assert reasons[4] == "incomplete: no score of approval"


def test_what_a_person_has_judged_is_left_out() -> None:
    """However much it stands out."""
    judged = point(1, complete=False, scores=(said("human", 1.0, "approval"),))

    assert candidates([judged], [ActiveAlarm("collapse", None, 1, 0.0, 0.1, "", ())], {}) == []


async def test_a_card_tells_what_is_to_be_judged(dashboard: Dashboard) -> None:
    """Thought, reply, result, the whole breakdown and where it comes from; the cycle that lacks a score among them."""
    card = parsed((await dashboard.client.get("/review?cycle=20")).text).one("article")

    assert "incomplete: no score of exploration" in card.text
    names = [row.one("th").text for row in card.one("table", class_="fall").one("tbody").all("tr")]
    assert names[:2] == ["format", "execution"]
    assert names[-1] == "total"
    for words in ("Thought", "Reply", "Result", "Provenance", "policy p1"):
        assert words in card.text


async def test_keys_approve_reject_skip_and_go_back(tab: Page, dashboard: Dashboard) -> None:
    """A rejection wants its reason; each word is a score of the person on the bus; nothing is said by a skip."""
    await tab.goto("./review")
    number = tab.locator("#card [data-cycle]")
    first = await number.get_attribute("data-cycle")

    await tab.keyboard.press("s")
    await expect(number).not_to_have_attribute("data-cycle", str(first))
    await tab.keyboard.press("u")
    await expect(number).to_have_attribute("data-cycle", str(first))
    await tab.keyboard.press("a")
    await expect(number).not_to_have_attribute("data-cycle", str(first))
    second = await number.get_attribute("data-cycle")
    await expect(tab.locator("#said")).to_have_text(f"Cycle {first} is approved.")
    await tab.keyboard.press("r")
    await tab.locator("#review-box textarea").fill("It made things up.")
    await tab.locator("#review-box .main").click()
    await expect(tab.locator("#review-box")).to_be_hidden()

    events = [decode(one.data) async for one in dashboard.bus.read([subject_filter(RewardAssigned, "echo")])]
    words = [
        (event.cycle, event.scores[0].value, event.scores[0].explanation)
        for event in events
        if isinstance(event, RewardAssigned) and event.scorer == "human"
    ]
    assert words == [(int(str(first)), 1.0, "approved"), (int(str(second)), -1.0, "It made things up.")]


async def test_the_open_card_tells_a_revision_and_keeps_half_typed_words(tab: Page, dashboard: Dashboard) -> None:
    """A late score of its cycle: the card has the new total and its marks, the reason in the box stays as it is."""
    facts = dashboard.life.cycle()
    late = [one for one in facts if isinstance(one, NoveltyMeasured)]
    await dashboard.live([one for one in facts if one not in late])
    for _ in range(7):  # the deadline of a score is half a minute, a cycle takes five seconds
        await dashboard.live()
    await tab.goto(f"./review?cycle={CYCLES + 1}")
    card = tab.locator("#card article")
    await expect(card).to_contain_text("revision 1")
    await card.locator("summary").click()
    await tab.keyboard.press("r")
    await tab.locator("#review-box textarea").fill("It only made")

    (revised,) = await dashboard.live(late)

    await expect(card).to_contain_text(f"revision {revised.revision}")
    await expect(card.locator("table.fall tr").last.locator("td").last).to_have_text(signed(revised.total))
    await expect(card.locator("details")).to_have_attribute("open", "")
    await expect(tab.locator("#review-box textarea")).to_have_value("It only made")


async def test_a_card_comes_by_itself_where_there_was_none(tab: Page, dashboard: Dashboard) -> None:
    """Everything is judged or skipped; then a cycle lacks a score, and its card is there without a reload."""
    seen = ",".join(str(number) for number in range(1, CYCLES + 1))
    await tab.goto(f"./review?without={seen}")
    await expect(tab.locator("#card")).to_contain_text("Nothing left to look at")

    await dashboard.live(dashboard.life.cycle(silent="curiosity"))
    for _ in range(7):
        await dashboard.live()

    await expect(tab.locator("#card article")).to_have_count(1)
