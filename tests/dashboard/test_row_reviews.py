"""Rows of training data at the API and on the page: the next card, decisions, and who made them."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page, expect

from conch.experience import SqliteStore
from conch_schemas import ReviewDecided, decode, subject_filter
from tests.dashboard.conftest import Dashboard, Seeded

ADA = {"format": "kto", "reviewer": "ada"}


@pytest.fixture
def seeded(seeded: Seeded) -> Seeded:
    """The system prompt of the acts is known: without it there are no rows of them."""
    with SqliteStore(seeded.home.path / "store.db") as store:
        store.apply([(1, seeded.life.policy())], upto=store.position(), now=seeded.life.begun)
    return seeded


async def decisions(dashboard: Dashboard) -> list[ReviewDecided]:
    """What stands on the stream."""
    found = [decode(one.data) async for one in dashboard.bus.read([subject_filter(ReviewDecided)])]
    return [one for one in found if isinstance(one, ReviewDecided)]


async def asked(dashboard: Dashboard, path: str, status: int = 200, **query: Any) -> Any:
    """The answer to a question."""
    answer = await dashboard.client.get(f"/api/v1/reviews{path}", params=query)
    assert answer.status_code == status, answer.text
    return answer.json()


async def done(dashboard: Dashboard, path: str, status: int = 200, **body: Any) -> Any:
    """The answer to a decision."""
    answer = await dashboard.client.post(f"/api/v1/reviews/{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_a_decision_counts_at_once_and_for_its_reviewer_alone(dashboard: Dashboard) -> None:
    """Before the store has it; the same one twice is once, another one replaces it."""
    rows = [one["row"] for one in (await asked(dashboard, "", **ADA))["rows"]]
    card = (await asked(dashboard, "/next", **ADA))["card"]
    assert card["row"] == rows[0]

    for _ in range(2):
        said = await done(dashboard, f"{rows[0]}/approve", **ADA)
    await done(dashboard, f"{rows[1]}/edit", text="REFLECT: read it", **ADA)
    await done(dashboard, f"{rows[0]}/reject", reason="no, it is not", **ADA)

    assert said["number"] == 1
    assert (await asked(dashboard, "/next", **ADA))["card"]["row"] == rows[2]
    assert (await asked(dashboard, "/next", without=f"{rows[2]}", **ADA))["card"]["row"] == rows[3]
    assert (await asked(dashboard, "/next", row=rows[0], **ADA))["card"]["said"]["reason"] == "no, it is not"
    assert (await asked(dashboard, "/next", format="kto", reviewer="bob"))["card"]["row"] == rows[0]
    assert [(one.decision, one.number) for one in await decisions(dashboard)] == [
        ("approved", 1),
        ("edited", 1),
        ("rejected", 2),
    ]


async def test_a_correction_is_published_redacted(dashboard: Dashboard) -> None:
    """Personal data of its text and its reason does not leave the home."""
    row = (await asked(dashboard, "/next", **ADA))["card"]["row"]

    await done(dashboard, f"{row}/edit", text="REFLECT: ask ada@example.org", reason="ada@example.org knows", **ADA)

    (said,) = await decisions(dashboard)
    assert (said.text, said.reason) == ("REFLECT: ask [EMAIL]", "[EMAIL] knows")


async def test_a_pair_is_preferred_without_saying_which_was_chosen(dashboard: Dashboard) -> None:
    """The decision says it afterwards; a row that is no pair is refused."""
    pair = (await asked(dashboard, "/next", format="dpo", reviewer="ada", blind=True))["card"]

    said = await done(dashboard, f"{pair['row']}/prefer", format="dpo", reviewer="ada", better="first")

    assert [one["name"] for one in pair["replies"]] == ["first", "second"]
    assert (said["decision"], said["preferred"]) in (("approved", "chosen"), ("rejected", "rejected"))
    row = (await asked(dashboard, "/next", **ADA))["card"]["row"]
    refused = await done(dashboard, f"{row}/prefer", 409, better="first", **ADA)
    assert "is no pair" in refused["detail"]


async def test_what_cannot_be_decided_is_refused_in_a_sentence(dashboard: Dashboard) -> None:
    """An unknown row, a rejection without a reason, a reply that is there already, a name that is none."""
    card = (await asked(dashboard, "/next", **ADA))["card"]
    row = card["row"]

    assert "no row begins with" in (await done(dashboard, f"{'0' * 64}/approve", 409, **ADA))["detail"]
    assert "a rejection needs its reason" in (await done(dashboard, f"{row}/reject", 409, **ADA))["detail"]
    same = await done(dashboard, f"{row}/edit", 409, text=card["replies"][0]["text"], **ADA)
    assert "the reply that is there" in same["detail"]
    await done(dashboard, f"{row}/approve", 422, format="kto", reviewer="a b")
    await asked(dashboard, "/next", 422, format="cycles")
    assert await decisions(dashboard) == []


async def test_reviewers_and_rules_are_counted(dashboard: Dashboard) -> None:
    """By the decisions that the store has."""
    row = (await asked(dashboard, "/next", **ADA))["card"]["row"]
    await done(dashboard, f"{row}/approve", **ADA)
    await dashboard.live(await decisions(dashboard))

    found = await asked(dashboard, "/stats")

    assert found["reviewers"] == [{"reviewer": "ada", "approved": 1, "rejected": 0, "edited": 0}]
    assert all(one["rows"] == 1 for one in found["agreement"])


async def test_keys_decide_on_one_row_after_the_other(tab: Page, dashboard: Dashboard) -> None:
    """a approves, r wants a reason, e a reply, s says nothing, u goes back; each decision is of the named reviewer."""
    await tab.goto("./review/rows?format=kto&reviewer=ada")
    row = tab.locator("#card [data-row]")
    said, box = tab.locator("#said"), tab.locator("#row-box")

    async def passed(name: str | None) -> str:
        await expect(row).not_to_have_attribute("data-row", str(name))
        return str(await row.get_attribute("data-row"))

    first = str(await row.get_attribute("data-row"))
    await tab.keyboard.press("s")
    await passed(first)
    await tab.keyboard.press("u")
    await expect(row).to_have_attribute("data-row", first)
    await tab.keyboard.press("a")
    second = await passed(first)
    await expect(said).to_have_text(f"Row {first[:12]} is approved.")
    await tab.keyboard.press("r")
    await expect(box.locator("textarea[name=text]")).to_be_hidden()
    await box.locator("textarea[name=reason]").fill("It made things up.")
    await box.locator(".main").click()
    third = await passed(second)
    whole = (await asked(dashboard, "/next", row=third, **ADA))["card"]["replies"][0]["text"]
    await tab.keyboard.press("e")
    await expect(box.locator("textarea[name=text]")).to_have_value(whole)
    await box.locator("textarea[name=text]").fill("REFLECT: read it")
    await box.locator(".main").click()
    await passed(third)

    assert [(one.row, one.reviewer, one.decision, one.reason) for one in await decisions(dashboard)] == [
        (first, "ada", "approved", ""),
        (second, "ada", "rejected", "It made things up."),
        (third, "ada", "edited", ""),
    ]


async def test_a_blind_pair_shows_two_replies_and_no_word_on_which_was_chosen(tab: Page, dashboard: Dashboard) -> None:
    """Neither in the words nor in the attributes; the key 2 prefers the second, and then it is said."""
    await tab.goto("./review/rows?format=dpo&reviewer=ada&blind=1")
    card = tab.locator("#card article")
    assert "chosen" not in await card.evaluate("card => card.outerHTML")
    await expect(card.locator("h3", has_text="First")).to_be_visible()
    row = str(await card.get_attribute("data-row"))

    await tab.keyboard.press("2")
    await expect(tab.locator("#said")).to_contain_text(f"Row {row[:12]} is ")

    (said,) = await decisions(dashboard)
    assert said.preferred is not None
    assert (said.decision == "approved") == (said.preferred == "chosen")


async def test_hostile_text_of_a_row_is_text(dashboard: Dashboard) -> None:
    """Every card of the history, as the page draws it: no element comes out of a reply, no control character."""
    rows = [one["row"] for one in (await asked(dashboard, "", limit=100, **ADA))["rows"]]
    drawn = [
        (await dashboard.client.get("/review/rows", params={**ADA, "row": row}, headers={"HX-Request": "true"})).text
        for row in rows
    ]

    assert any("alert(1)" in page for page in drawn)
    for page in drawn:
        assert "<script" not in page
        assert "<img" not in page
        assert "\x1b" not in page
        assert "Provenance" in page


async def test_a_pair_is_shown_with_its_difference(tab: Page) -> None:
    """Chosen against rejected, with the breakdown of both acts and links to their cycles."""
    await tab.goto("./review/rows?format=dpo&reviewer=ada")
    card = tab.locator("#card article")

    for name in ("Chosen", "Rejected", "Difference", "Provenance"):
        await expect(card.locator("h3", has_text=name).first).to_be_visible()
    assert await card.locator(".diff ins").count() > 0
    assert await card.locator(".sides a").count() == 2
    await expect(tab.locator("nav.tabs [aria-current]")).to_have_text("Rows")
