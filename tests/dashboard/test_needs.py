"""The page of needs and drives: the history's levels, the stream's drives and goals, and what moved them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.async_api import Page, expect

from conch.experience import SqliteReader
from conch_schemas import Drives, FileCheck, Goal, GoalCheck, GoalReached, GoalSet, source_of
from conch_services.dashboard.drawings.numerals import signed
from conch_services.dashboard.pages.needs import ENDED_IN_SIGHT
from tests.dashboard.conftest import CYCLES, Dashboard
from tests.dashboard.document import Element, parsed


async def page(dashboard: Dashboard) -> Element:
    """The page as it answers."""
    answer = await dashboard.client.get("/needs")
    assert answer.status_code == 200, answer.text
    return parsed(answer.text)


def drawn(shown: Element) -> Any:
    """The data of the charts."""
    return json.loads(shown.one("script", id="data").text)


def of_goal(dashboard: Dashboard, kind: Any, number: int = 1, **data: Any) -> Any:
    """A fact of a goal."""
    return kind(id=f"{kind.__name__}-{number}", source=source_of("echo", dashboard.life.uid), agent="echo", **data)


async def test_levels_are_the_histories_and_drives_the_streams(dashboard: Dashboard) -> None:
    """One axis of cycles for both; every value where its cycle is."""
    with SqliteReader(dashboard.world.store.file) as reader:
        history = {change.cycle: change.after for change in reader.charts.needs_history("echo", 400)}

    data = drawn(await page(dashboard))

    assert data["x"] == list(range(1, CYCLES + 1))
    assert set(data["lines"]["drives"]) == set(Drives.model_fields)
    for need, levels in data["lines"]["needs"].items():
        assert levels == [round(history[cycle][need], 3) for cycle in data["x"]]
    silent = [
        cycle for cycle, value in zip(data["x"], data["lines"]["drives"]["curiosity"], strict=True) if value is None
    ]
    assert silent == [20]  # the cycle of which curiosity said nothing


async def test_goals_tell_their_story(dashboard: Dashboard) -> None:
    """Set, by whom, and reached."""
    goal = Goal(id="tidy-1", statement="Tidy <b>up</b>", check=FileCheck(path="done.txt"))
    await dashboard.live([of_goal(dashboard, GoalSet, goal=goal, by="user")], record=False)
    await dashboard.live([of_goal(dashboard, GoalReached, goal="tidy-1", statement=goal.statement)], record=False)

    rows = (await page(dashboard)).one("section", aria_labelledby="goals-title").one("table").cells()

    [row] = [one for one in rows if "tidy-1" in one[0]]
    assert "Tidy <b>up</b>" in row[0]
    assert row[1] == "reached"
    assert row[4] == "done.txt exists"


async def test_a_goal_has_a_lane_with_the_cycle_that_reached_it(dashboard: Dashboard) -> None:
    """What its check measured after every act of the range, and a link to the act that reached it."""
    half, done = (
        GoalCheck(goal="tidy-1", statement="Tidy up", outcome=outcome, measure=measure, best=0.0)
        for outcome, measure in (("partial", 0.5), ("achieved", 1.0))
    )
    await dashboard.live([*dashboard.life.cycle(goals=(half,)), *dashboard.life.cycle(goals=(done,))])

    section = (await page(dashboard)).one("section", aria_labelledby="lanes-title")

    [row] = [one for one in section.all("tr") if "tidy-1" in one.text]
    assert row.one("svg")["aria-label"] == f"0.50 in cycle {CYCLES + 1}, 1.00 in cycle {CYCLES + 2}"
    assert f"reached in {CYCLES + 2}" in row.text


async def test_an_active_goal_is_listed_however_many_came_and_went_since(dashboard: Dashboard) -> None:
    """Before those that are over, of which the newest are shown and the others folded."""
    check = FileCheck(path="done.txt")
    goals = [Goal(id=f"piece-{number}", statement=f"Piece {number}.", check=check) for number in range(60)]
    facts = [of_goal(dashboard, GoalSet, n, goal=goal, by="home", piece=n) for n, goal in enumerate(goals)]
    facts += [of_goal(dashboard, GoalReached, n, goal=f"piece-{n}", statement="Piece.") for n in range(1, 60)]
    await dashboard.live(facts, record=False)

    section = (await page(dashboard)).one("section", aria_labelledby="goals-title")
    tables = [table.cells() for table in section.all("table")]
    rows = [row for table in tables for row in table]

    assert len(rows) == 50
    assert [row[1] for row in tables[0]].count("reached") == ENDED_IN_SIGHT
    assert {row[1] for row in tables[1]} == {"reached"}
    assert "that ended earlier" in section.text
    assert "piece-59" in next(row[0] for row in rows if row[1] == "reached")
    assert "active" in [row[1] for row in rows if "piece-0" in row[0]]


async def test_what_moved_a_need_is_summed_by_cause(dashboard: Dashboard) -> None:
    """Over the changes that are shown, time's drift among them."""
    with SqliteReader(dashboard.world.store.file) as reader:
        history = reader.charts.needs_history("echo", 400)
    mistakes = sum(
        one.delta for change in history for one in change.changes if (one.need, one.why) == ("reliability", "mistake")
    )

    rows = (await page(dashboard)).one("section", aria_labelledby="moved-title").one("table").cells()

    causes = next(text for need, text in rows if need == "reliability")
    assert mistakes < 0
    assert f"mistake {signed(mistakes, 2)}" in causes
    assert any("time −" in text for need, text in rows if need == "curiosity")


async def test_without_the_bus_needs_stand_and_drives_are_said_to_be_the_streams(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history's part of the page is whole."""
    monkeypatch.setattr(dashboard.world, "shared_events", None)

    shown = await page(dashboard)

    assert "are told by the bus alone" in " ".join(one.text for one in shown.all("p", class_="banner"))
    assert drawn(shown)["x"][-1] == CYCLES


async def test_a_new_cycle_is_drawn_by_itself(tab: Page, dashboard: Dashboard) -> None:
    """Charts with a line a need and a drive; the newest change stands on top of the list."""
    await tab.goto("./needs")
    await expect(tab.locator("#needs .legend button")).to_have_count(4)
    await expect(tab.locator("#drives .legend button")).to_have_count(5)
    await expect(tab.locator("#needs canvas")).to_be_visible()

    await dashboard.live()

    newest = tab.locator("section[aria-labelledby=changes-title] tbody tr").first
    await expect(newest.locator("td").first).to_have_text(str(CYCLES + 1))
