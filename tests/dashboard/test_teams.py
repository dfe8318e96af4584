"""The page of a team: who talks to whom, topology and reward over time, the conversation, a switch by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from conch_schemas import TeamTurn, control_subject
from conch_services.dashboard.story.needs_you import waiting
from conch_services.dashboard.teams.graph import team_graph, team_timeline
from conch_services.dashboard.teams.now import WatchedTeam
from tests.conftest import Until
from tests.dashboard.conftest import Dashboard
from tests.dashboard.document import parsed
from tests.dashboard.life import HOSTILE, Life
from tests.dashboard.test_access import RUN, SERIOUS
from tests.teams.made import UID, decided, formed, message, prepared, rewarded, switched

AXE = Path(__file__).parents[1] / "axe/axe.min.js"
TURNS = (("planner", "star"), ("coder", "star"), ("planner", "chain"), ("coder", "chain"))


@pytest.fixture
def crew() -> Life:
    """The agent that is the team."""
    made = Life("crew")
    made.uid = UID
    return made


async def live(dashboard: Dashboard, crew: Life) -> None:
    """Four steps of the team crew: a switch from star to chain after two of them, the second step was paid."""
    home = dashboard.seeded.home
    home.agent_dir("crew").mkdir()
    (home.agent_dir("crew") / "agentuid").write_text(crew.uid)
    await dashboard.live([crew.weights()])
    await dashboard.live([formed(), message(1, "planner", "coder")], record=False)
    for step, (role, topology) in enumerate(TURNS):
        turn = TeamTurn(team="crew", role=role, step=step, epoch=topology == "chain", topology=topology)
        await dashboard.live(crew.cycle(team=turn))
        if step == 1:
            decision = decided(step, "chain")
            facts = [decision, prepared(0, "chain"), switched(1, "chain"), rewarded(decision.id, 0.25, step)]
            await dashboard.live(facts, record=False)
    said = message(2, "coder", "runner", epoch=1, step=3).model_copy(update={"text": HOSTILE})
    await dashboard.live([said], record=False)


async def test_the_page_shows_a_team_that_ran(dashboard: Dashboard, crew: Life) -> None:
    """Topology, turns, the switch with its epoch, what a step earned, and messages as text; no run is in progress."""
    await live(dashboard, crew)

    page = parsed((await dashboard.client.get("/teams")).text).one("div", id="team-now")

    assert "epoch 1" in page.text
    planner = [cell.text.strip() for cell in page.one("tr", id="row-planner").all("td")]
    assert planner[:3] == ["planner", "2", "1"]
    assert planner[4].startswith(("+", "-"))
    assert "+0.250" in page.one("tr", id="topology-star").text
    assert [cell.text for cell in page.one("tr", id="epoch-1").all("td")][:2] == ["2", "chain"]
    assert "<script>alert(1)</script>" in page.text
    assert "message 1" in page.text


async def test_a_team_that_has_ended_needs_nobody(dashboard: Dashboard, crew: Life, until: Until) -> None:
    """Its needs starve for good, and no one can feed them; while a run has it they are told."""
    needs = dashboard.world.settings.needs
    all_starve = needs.model_copy(update={"starving": needs.starving.model_copy(update={"level": 1.0})})
    dashboard.world.settings = dashboard.world.settings.model_copy(update={"needs": all_starve})
    await live(dashboard, crew)
    home = dashboard.seeded.home

    async def needs_you() -> str:
        return str((await dashboard.client.get("/story/needs-you")).text)

    async def is_read() -> bool:
        return "being looked at" not in await needs_you()

    await until(is_read)
    ended = await needs_you()
    with home.owned():
        home.run_file.write_text(json.dumps({"pid": os.getpid(), "agents": ["echo", "crew"]}))
        running = (await waiting(dashboard.world)).found

    assert "crew" not in ended
    assert any(one.words.endswith(" starves: crew and echo") for one in running)


async def test_without_the_bus_teams_are_not_known(
    dashboard: Dashboard, crew: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page and the API say so in one sentence, with the command that starts a team."""
    await live(dashboard, crew)
    monkeypatch.setattr(dashboard.world, "shared_events", None)

    page = await dashboard.client.get("/teams")
    answer = await dashboard.client.get("/api/v1/agents/crew/team")

    said = "what a team does is read from the bus, which is away: conch team run NAME starts a team"
    assert (page.status_code, answer.status_code) == (200, 503)
    assert said in page.text
    assert said in answer.json()["detail"]


async def test_the_drawings_follow_the_topology(dashboard: Dashboard, crew: Life) -> None:
    """A way that was used has its count and the last one is marked; the steps have one span for each topology."""
    await live(dashboard, crew)
    team = await WatchedTeam("crew").look(dashboard.world)
    assert team is not None

    graph, timeline = team_graph(team), team_timeline(team)

    used = {(link.sender, link.to): (link.messages, link.is_last) for link in graph.links if link.messages}
    assert used == {("planner", "coder"): (1, False), ("coder", "runner"): (1, True)}
    assert [(span.topology, span.at, span.length) for span in timeline.spans] == [("star", 0, 2), ("chain", 2, 2)]
    assert timeline.switches == (2,)
    assert [step.height > 0 for step in timeline.steps] == [False, True, False, False]


async def test_a_later_look_has_what_came_since(dashboard: Dashboard, crew: Life) -> None:
    """The same watched team, one more step and message on: nothing is counted twice."""
    await live(dashboard, crew)
    watched = WatchedTeam("crew")
    first = await watched.look(dashboard.world)
    turn = TeamTurn(team="crew", role="runner", step=4, epoch=1, topology="chain")
    await dashboard.live(crew.cycle(team=turn))
    await dashboard.live([message(3, "runner", "critic", epoch=1, step=4)], record=False)

    second = await watched.look(dashboard.world)

    assert first is not None
    assert second == await WatchedTeam("crew").look(dashboard.world)
    assert second is not None
    assert (second.steps, len(second.messages), second.turn) == (first.steps + 1, len(first.messages) + 1, "critic")


async def test_a_message_appears_and_a_press_switches(dashboard: Dashboard, crew: Life, tab: Page) -> None:
    """The thread grows by itself; the press asks the team, and a refusal says why in a sentence."""
    await live(dashboard, crew)
    answers = [
        {"ok": True, "accepted": True, "committed": False, "reason": "prepared", "epoch": 1},
        {"ok": True, "accepted": False, "committed": False, "reason": "dwell", "epoch": 1},
    ]
    asked: list[object] = []

    async def respond(subject: str, data: bytes) -> bytes:
        if not subject.endswith("switch"):
            return json.dumps({"ok": True, "state": "running"}).encode()
        asked.append(json.loads(data))
        return json.dumps(answers.pop(0)).encode()

    await tab.goto("./teams")
    await dashboard.live([message(9, "runner", "critic", epoch=1, step=4)], record=False)
    await expect(tab.locator(".thread li").first).to_contain_text("message 9")
    with dashboard.seeded.home.owned():
        dashboard.seeded.home.run_file.write_text(json.dumps({"pid": os.getpid(), "agents": ["echo", "crew"]}))
        async with dashboard.bus.serve(control_subject("crew", "*"), respond):
            await tab.get_by_role("button", name="flat").click()
            await expect(tab.locator("#said")).to_have_text("crew becomes a flat at the end of this step.")
            refused = await dashboard.client.post("/api/v1/agents/crew/switch", json={"topology": "flat"})

    assert asked == [{"topology": "flat"}, {"topology": "flat"}]
    assert refused.status_code == 409
    assert "wait some steps (team.crew.controller.dwell)" in refused.json()["detail"]


async def test_a_team_that_does_not_run_cannot_switch(dashboard: Dashboard, crew: Life) -> None:
    """The answer names the command that starts it; an agent that is no team has no team."""
    await live(dashboard, crew)

    still = await dashboard.client.post("/api/v1/agents/crew/switch", json={"topology": "flat"})
    alone = await dashboard.client.get("/api/v1/agents/echo/team")
    shown = (await dashboard.client.get("/api/v1/agents/crew/team")).json()

    assert still.status_code == 409
    assert "The agent crew does not run" in still.text
    assert alone.status_code == 404
    assert (shown["team"], shown["steps"]) == ("crew", 4)


async def test_a_page_without_a_team_says_how_one_begins(dashboard: Dashboard) -> None:
    """The setting and the command, to be copied."""
    page = parsed((await dashboard.client.get("/teams")).text).one("div", id="team-now")

    assert "No team yet" in page.text
    assert "conch team run crew" in page.text


async def test_a_narrow_screen_and_axe_find_nothing_wrong(dashboard: Dashboard, crew: Life, tab: Page) -> None:
    """With a team on it: no scrolling sideways at the width of a telephone, nothing serious for axe in both themes."""
    await live(dashboard, crew)
    await tab.emulate_media(color_scheme="light", reduced_motion="reduce")
    await tab.goto("./teams")
    await expect(tab.locator(".team-graph")).to_be_visible()
    await tab.evaluate(AXE.read_text())
    found = await tab.evaluate(RUN)
    await tab.emulate_media(color_scheme="dark")
    found += await tab.evaluate(RUN, ["color-contrast"])

    assert [one for one in found if one["impact"] in SERIOUS] == []
    await tab.set_viewport_size({"width": 360, "height": 800})
    assert await tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
