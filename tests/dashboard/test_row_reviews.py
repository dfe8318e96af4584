"""Rows of training data at the API and on the page: the next card, decisions, and who made them."""

from __future__ import annotations

from typing import Any

from playwright.async_api import Page, expect

from conch_schemas import ReviewDecided, decode, subject_filter
from tests.dashboard.conftest import Dashboard

ADA = {"format": "kto", "reviewer": "ada"}


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
