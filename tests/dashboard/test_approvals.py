"""Acts that wait for a person's approval: by the API, and on the overview."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from conch.cycle.approvals.answer import short_id
from conch.home import Home
from conch.run_info import RunInfo
from conch_schemas import ActApproved, ActAsked, ActDenied, Event, decode, subject_filter
from conch_services.dashboard.story.needs_you import waiting
from tests.approving import asking
from tests.dashboard.conftest import CYCLES, Dashboard
from tests.dashboard.life import HOSTILE


async def wants(dashboard: Dashboard, command: str = "make launch", **more: Any) -> ActAsked:
    """An act of the next cycle of echo, which does not run, waits."""
    thought, asked = asking("echo", dashboard.life.uid, CYCLES + 1, command=command, **more)
    await dashboard.live([thought, asked], record=False)
    return asked


async def decisions(dashboard: Dashboard) -> list[Event]:
    """The decisions on the stream."""
    return [
        decode(one.data) async for one in dashboard.bus.read([subject_filter(ActApproved), subject_filter(ActDenied)])
    ]


async def decide(dashboard: Dashboard, verb: str, act: str, reason: str = "") -> tuple[int, Any]:
    """The status and the document of a decision."""
    answer = await dashboard.client.post(f"/api/v1/agents/echo/{verb}", json={"act": act, "reason": reason})
    return answer.status_code, answer.json()


@pytest.mark.parametrize(("verb", "said"), [("approve", "approved"), ("deny", "denied")])
async def test_a_decision_is_a_fact_and_the_next_is_refused(dashboard: Dashboard, verb: str, said: str) -> None:
    """The act is listed with its call and its rule, decided on once; whoever comes later is told what counts."""
    asked = await wants(dashboard)
    listed = (await dashboard.client.get("/api/v1/approvals")).json()["acts"]
    [row] = listed
    status, done = await decide(dashboard, verb, row["id"], "seen")
    late, problem = await decide(dashboard, "approve", row["id"])

    assert (row["words"], row["why"], row["cycle"]) == ("shell make launch", asked.why, CYCLES + 1)
    assert (status, done["decision"], done["running"]) == (200, said, False)
    assert (late, "the first decision counts" in problem["detail"]) == (409, True)
    [fact] = await decisions(dashboard)
    assert (fact.TYPE, fact.action_id, fact.why) == (f"act.{said}", asked.action_id, "seen")
    assert (await dashboard.client.get("/api/v1/approvals")).json()["acts"] == []


async def test_two_decisions_at_once_are_one(dashboard: Dashboard) -> None:
    """An approval and a denial of the same moment: the first on the stream counts, the other person is told so."""
    asked = await wants(dashboard)
    act = str(asked.action_id)
    found = await asyncio.gather(decide(dashboard, "approve", act, "yes"), decide(dashboard, "deny", act, "no"))

    assert sorted(status for status, _ in found) == [200, 409]
    first = (await decisions(dashboard))[0]
    assert next(one["decision"] for status, one in found if status == 200) == first.TYPE.removeprefix("act.")


async def test_an_approval_after_the_time_is_refused(dashboard: Dashboard) -> None:
    """With one sentence, and nothing is published."""
    asked = await wants(dashboard, until=datetime.now(UTC) - timedelta(seconds=1))
    status, problem = await decide(dashboard, "approve", str(asked.action_id))

    assert (status, "waited for an approval until" in problem["detail"]) == (409, True)
    assert await decisions(dashboard) == []


async def test_the_overview_shows_the_act_and_takes_the_decision(tab: Page, dashboard: Dashboard) -> None:
    """The card comes when the act is asked for, shows hostile text as text, and goes once it is decided on."""
    await tab.goto("./")
    await expect(tab.locator("#approval")).to_be_hidden()
    asked = await wants(dashboard, command=HOSTILE)
    await expect(tab.locator("#approval code")).to_contain_text("<script>alert(1)</script>")

    await tab.locator("#approval [name=reason]").fill("I looked at it")
    await tab.locator("#approval .main").click()

    await expect(tab.locator("#said")).to_have_text("The act is approved.")
    await expect(tab.locator("#approval")).to_be_hidden()
    [fact] = await decisions(dashboard)
    assert isinstance(fact, ActApproved)
    assert (fact.action_id, fact.why) == (asked.action_id, "I looked at it")


async def test_the_act_of_any_agent_is_decided_on_where_it_is_told(tab: Page, dashboard: Dashboard) -> None:
    """In its row of what needs a person, with the reason that was typed, which a new drawing leaves; then it goes."""
    asked = await wants(dashboard)
    await tab.goto("./")
    row = tab.locator("#needs-you li", has_text="shell make launch")
    await row.locator("summary").click()
    await row.locator("[name=reason]").fill("not today")
    async with tab.expect_response("**/story/needs-you*"):
        await tab.evaluate("htmx.trigger(document.getElementById('needs-you'), 'stale', {})")

    await row.get_by_role("button", name="Deny").click()

    await expect(tab.locator("#said")).to_have_text("The act is denied.")
    await expect(row).to_have_count(0)
    [fact] = await decisions(dashboard)
    assert isinstance(fact, ActDenied)
    assert (fact.action_id, fact.why) == (asked.action_id, "not today")


async def test_a_row_that_leaves_before_the_answer_leaves_no_error(tab: Page, dashboard: Dashboard) -> None:
    """The stream may be faster than the answer to the press."""
    await wants(dashboard)
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    await tab.goto("./")
    row = tab.locator("#needs-you li", has_text="shell make launch")

    async def slowly(route: Route) -> None:
        answer = await route.fetch()
        await expect(row).to_have_count(0)
        await route.fulfill(response=answer)

    await tab.route("**/api/v1/agents/echo/approve", slowly)
    await row.locator("summary").click()
    await row.get_by_role("button", name="Approve").click()

    await expect(tab.locator("#said")).to_have_text("The act is approved.")
    assert errors == []


async def test_an_agent_that_waits_before_its_first_act_is_told(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an agent of the run, though the history has nothing of it yet."""
    thought, asked = asking("novice", "9f0c29a5-9d4e-4a86-8a8c-3c8f6f2f9b11", 0)
    dashboard.seeded.home.agent_dir("novice").mkdir()
    (dashboard.seeded.home.agent_dir("novice") / "agentuid").write_text("9f0c29a5-9d4e-4a86-8a8c-3c8f6f2f9b11")
    monkeypatch.setattr(Home, "running", lambda _: RunInfo(pid=1, agents=("echo", "novice")))
    await dashboard.live([thought, asked], record=False)

    found = [one for one in (await waiting(dashboard.world)).found if one.kind == "approval"]

    assert [(one.agent, one.act) for one in found] == [("novice", short_id(asked))]
