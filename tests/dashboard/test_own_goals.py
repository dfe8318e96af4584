"""Goals that an agent set itself: accepted and vetoed by the API, and on the overview's card of goals."""

from __future__ import annotations

from typing import Any

from playwright.async_api import Page, expect

from conch_schemas import Event, FileCheck, Goal, GoalAccepted, GoalDropped, GoalSet, decode, source_of, subject_filter
from tests.dashboard.conftest import Dashboard
from tests.dashboard.life import HOSTILE


async def proposes(dashboard: Dashboard, id: str = "own-1", statement: str = "Note the tide.") -> str:
    """Echo, which does not run, sets itself a goal."""
    goal = Goal(id=id, statement=statement, check=FileCheck(path="tide.md", contains=("high",)))
    fact = GoalSet(id=id, source=source_of("echo", dashboard.life.uid), agent="echo", goal=goal, by="agent")
    await dashboard.live([fact], record=False)
    return id


async def decide(dashboard: Dashboard, verb: str, goal: str, reason: str = "") -> tuple[int, Any]:
    """The status and the document of a decision."""
    answer = await dashboard.client.post(f"/api/v1/agents/echo/goal/{verb}", json={"goal": goal, "reason": reason})
    return answer.status_code, answer.json()


async def decisions(dashboard: Dashboard) -> list[Event]:
    """The decisions on the stream."""
    filters = [subject_filter(GoalAccepted), subject_filter(GoalDropped)]
    return [decode(one.data) async for one in dashboard.bus.read(filters)]


async def test_an_acceptance_is_a_fact_and_twice_is_once(dashboard: Dashboard) -> None:
    """The list of goals says whose goal it is and whether it pays; the second acceptance says that there was one."""
    id = await proposes(dashboard)
    before = [one for one in (await dashboard.client.get("/api/v1/goals")).json()["goals"] if one["id"] == id]
    first, second = await decide(dashboard, "accept", id, "it is wanted"), await decide(dashboard, "accept", id)
    after = [one for one in (await dashboard.client.get("/api/v1/goals")).json()["goals"] if one["id"] == id]

    assert [(one["own"], one["accepted"]) for one in before + after] == [(True, False), (True, True)]
    assert [(status, done["decision"], done["again"]) for status, done in (first, second)] == [
        (200, "accepted", False), (200, "accepted", True)
    ]  # fmt: skip
    [fact] = await decisions(dashboard)
    assert isinstance(fact, GoalAccepted)
    assert (fact.goal, fact.why) == (id, "it is wanted")


async def test_an_acceptance_after_a_veto_is_refused(dashboard: Dashboard) -> None:
    """With 409 and one sentence; an id that no goal has is refused alike, and nothing more is published."""
    id = await proposes(dashboard)
    status, done = await decide(dashboard, "veto", id, "no")
    late, problem = await decide(dashboard, "accept", id)
    never, unknown = await decide(dashboard, "veto", "never")

    assert (status, done["decision"], done["again"]) == (200, "vetoed", False)
    assert (late, never) == (409, 409)
    assert "was vetoed and is over" in problem["detail"]
    assert "there is no active goal" in unknown["detail"]
    [fact] = await decisions(dashboard)
    assert isinstance(fact, GoalDropped)
    assert fact.vetoed


async def test_the_card_of_goals_takes_the_decision(tab: Page, dashboard: Dashboard) -> None:
    """A proposed goal comes with its check and two buttons, hostile text stays text; accepted, it has none."""
    await tab.goto("./overview")
    id = await proposes(dashboard, statement=HOSTILE)
    proposed = tab.locator(f'#goals form[data-goal="{id}"]')
    await expect(proposed).to_contain_text("it pays once you accept it. Its check: tide.md has high")
    await expect(tab.locator("#goals li", has=tab.locator("form"))).to_contain_text("<script>alert(1)</script>")

    await proposed.get_by_role("button", name="Accept").click()

    await expect(tab.locator("#said")).to_have_text("The goal is accepted: it pays from now on.")
    await expect(proposed).to_have_count(0)
    [fact] = await decisions(dashboard)
    assert isinstance(fact, GoalAccepted)


async def test_a_veto_on_the_card_ends_the_goal(tab: Page, dashboard: Dashboard) -> None:
    """It leaves the card, and the page of needs calls it vetoed."""
    id = await proposes(dashboard)
    await tab.goto("./overview")
    await tab.locator(f'#goals form[data-goal="{id}"]').get_by_role("button", name="Veto").click()
    await expect(tab.locator("#said")).to_have_text("The goal is vetoed.")
    await expect(tab.locator("#goals")).not_to_contain_text("Note the tide.")

    await tab.goto("./needs")
    await expect(tab.locator("tr", has_text=id)).to_contain_text("vetoed")
