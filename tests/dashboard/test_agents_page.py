"""The table of all agents: found by name, sorted, in pages, with state and alarms; each action names its agent."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.async_api import Page, expect

from conch.bus.checkpoints import encode_state, state_key
from conch.rewards.watch import CONSUMER, ActiveAlarm, WatchState
from conch.run_info import RunInfo
from conch_services.dashboard.agents import page as agents_page
from conch_services.dashboard.agents.figures import HEIGHT, WIDTH, AgentBrief, bucketed, path
from conch_services.dashboard.agents.page import ordered
from tests.dashboard.conftest import CYCLES, Dashboard
from tests.dashboard.document import parsed
from tests.dashboard.life import Life

BRIEFS = [AgentBrief("bob", 7, 0.1), AgentBrief("ann", None, None), AgentBrief("cid", 9, -0.2)]


@pytest.mark.parametrize(
    ("sort", "names"),
    [("name", "ann bob cid"), ("mean", "cid bob ann"), ("best", "bob cid ann"), ("cycle", "cid bob ann"),
     ("alarms", "bob ann cid")],
)  # fmt: skip
def test_agents_are_sorted_by_what_is_asked(sort: str, names: str) -> None:
    """An agent without the figure comes last, equals by name."""
    alarms: Any = {"bob": [object()]}

    assert " ".join(one.agent for one in ordered(BRIEFS, alarms, "", sort)) == names
    assert [one.agent for one in ordered(BRIEFS, alarms, "B", sort)] == ["bob"]


@given(totals=st.lists(st.floats(-2, 1), max_size=900))
def test_a_curve_fits_its_drawing(totals: list[float]) -> None:
    """However many totals: at most 40 points, all within the drawing; fewer than two have none."""
    means = bucketed(totals)
    drawn = path(means)

    assert len(means) <= 40
    points = [tuple(map(float, point.split())) for point in drawn.removeprefix("M").split("L") if point]
    assert len(points) == (len(means) if len(means) > 1 else 0)
    assert all(0 <= x <= WIDTH + 0.1 and 0 <= y <= HEIGHT for x, y in points)


async def test_a_row_tells_an_agent(dashboard: Dashboard) -> None:
    """Its last cycle, its curve in words, its alarms, its policy; that no run has it."""
    active = ActiveAlarm("collapse", None, 7, 0.05, 0.1, "the total hardly varies", ())
    await dashboard.bus.put(state_key(CONSUMER, "echo"), encode_state(WatchState(active=(active,)), 1, ""), revision=0)

    row = parsed((await dashboard.client.get("/agents")).text).one("tr", id="agent-echo")

    assert f" {CYCLES} " in row.text
    assert "rewards all alike" in row.text
    assert "not running" in row.text
    assert f"over {CYCLES} cycles" in row.one("svg")["aria-label"]
    assert row.all("button") == []


async def test_agents_are_found_by_name_and_shown_in_pages(
    dashboard: Dashboard, tab: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Typing finds, and the address says what; the next page has the others."""
    monkeypatch.setattr(agents_page, "ROWS", 1)
    other = Life("zoe")
    await dashboard.live([other.weights(), *other.cycle()])
    await tab.goto("./agents")
    await expect(tab.locator("#agents-count")).to_have_text("2 of 2 agents, page 1 of 2")
    await tab.get_by_role("link", name="Next").click()
    await expect(tab.locator("#agent-zoe")).to_be_visible()
    await tab.get_by_label("Name has").fill("ech")

    await expect(tab.locator("#agents-count")).to_have_text("1 of 2 agents")
    await expect(tab.locator("#agent-echo")).to_be_visible()
    assert "search=ech" in tab.url


async def test_chosen_agents_are_compared(dashboard: Dashboard, tab: Page) -> None:
    """A press leads to the page Compare with the whole life of each."""
    other = Life("zoe")
    await dashboard.live([other.weights(), *other.cycle()])
    await tab.goto("./agents")
    for name in ("echo", "zoe"):
        await tab.get_by_label(f"Compare {name}").check()
    await tab.get_by_role("button", name="Compare those chosen").click()

    await tab.wait_for_url("**/compare?of=echo%2Frange%3Alife&of=zoe%2Frange%3Alife")
    await expect(tab.locator("h1")).to_contain_text("Compare")


async def test_an_action_names_its_agent(dashboard: Dashboard, tab: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row says what it does now; a press on Pause there asks that agent, and what came of it names it."""
    asked: list[str] = []

    async def answer(subject: str, _: bytes) -> bytes:
        asked.append(subject)
        return b'{"ok": true, "agent": "echo", "state": "running", "why": "", "phase": "decide"}'

    run = RunInfo.model_construct(agents=("echo",), bus=None)
    monkeypatch.setattr(type(dashboard.seeded.home), "running", lambda _: run)
    async with dashboard.bus.serve("conch.ctl.echo.*", answer):
        await tab.goto("./agents")
        await expect(tab.locator("#agent-echo [data-label=State]")).to_have_text(
            re.compile(r"^\s*running\s+decides\s*$")
        )
        await tab.get_by_role("button", name="Pause echo").click()
        await expect(tab.locator("#said")).to_have_text("echo waits before its next cycle.")

    assert "conch.ctl.echo.pause" in asked


async def test_an_agent_that_never_acted_is_not_among_those_that_did(dashboard: Dashboard) -> None:
    """The one of the settings is made with a home, whichever agents act in it."""
    settings = dashboard.world.settings.model_copy(update={"agent": "unborn"})
    dashboard.world.home.agentuid("unborn")
    dashboard.world.settings = settings

    answer = await dashboard.client.get("/agents")

    assert "unborn" not in answer.text
    assert "echo" in answer.text
