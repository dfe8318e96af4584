"""What happens now, on the story page: what the mind writes, the cycle that is open, and the act that waits."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
from playwright.async_api import Page, expect

from conch.config import MindSettings, Settings, UiSettings
from conch.cycle.approvals.answer import short_id
from conch.views import action_words
from conch_schemas import ActionDecided, AgentSlept, AgentWoke, control_subject
from conch_services.dashboard.story.happening import is_written
from conch_services.dashboard.story.now import ACT_WIDTH, WRITTEN_WIDTH, ReplySoFar, RightNow, with_reply
from tests.approving import asking
from tests.dashboard.conftest import CYCLES, Dashboard
from tests.dashboard.document import Element, parsed
from tests.dashboard.life import HOSTILE


@pytest.fixture
def settings() -> Settings:
    """A mind whose replies come piece by piece."""
    mind = MindSettings(kind="openai", base_url="http://127.0.0.1:9/v1", model="tiny")
    return Settings(ui=UiSettings(port=0), mind=mind)


@dataclass
class WritingAgent:
    """Says what its mind has written so far."""

    phase: str = ""
    written: str = ""
    cycle: int = CYCLES + 1

    @asynccontextmanager
    async def answering(self, dashboard: Dashboard) -> AsyncIterator[WritingAgent]:
        """It answers as `echo` while entered."""

        async def respond(_: str, data: bytes) -> bytes:
            found = {"phase": self.phase, "seconds": 1.0, "cycle": self.cycle, "written": self.written}
            return json.dumps({"ok": True, **found}).encode()

        async with dashboard.bus.serve(control_subject("echo", "draft"), respond):
            yield self


async def now(dashboard: Dashboard) -> Element:
    """The part as the server draws it."""
    return parsed((await dashboard.client.get("/story/now?agent=echo")).text).one("section", id="now")


def phase(part: Element) -> str:
    """The phase that is on."""
    return part.one("ol", id="phases").one("li", aria_current="true").text


async def test_a_thought_is_shown_as_it_is_written(tab: Page, dashboard: Dashboard) -> None:
    """Then the decision; both without a fact on the stream, as text, and named as unfinished."""
    async with WritingAgent("think").answering(dashboard) as agent:
        await tab.goto("./")
        await expect(tab.locator("#phases .on")).to_have_text("think")
        await expect(tab.locator("#thought")).to_have_text("–")
        agent.written = f"I wonder {HOSTILE}"
        await expect(tab.locator("#thought")).to_contain_text("I wonder")
        await expect(tab.locator("#phases .on")).to_have_text("think")
        await expect(tab.locator("#now")).to_contain_text("thinks, so far")
        await expect(tab.locator("#now-cycle")).to_have_text(f"cycle {CYCLES + 1}")

        agent.written = "I wonder about the tide."
        await expect(tab.locator("#thought")).to_have_text("I wonder about the tide.")
        agent.phase, agent.written = "decide", "TOOL: filesystem(operation="
        await expect(tab.locator("#does")).to_have_text("TOOL: filesystem(operation=")
        await expect(tab.locator("#phases .on")).to_have_text("act")
        await expect(tab.locator("#thought script")).to_have_count(0)


async def test_an_open_cycle_stays_once_the_store_has_its_thought(dashboard: Dashboard) -> None:
    """The store knows a thought before its act: the page does not go back to the cycle before."""
    thought, asked = asking("echo", dashboard.life.uid, CYCLES + 1)
    await dashboard.live([thought])

    part = await now(dashboard)

    assert phase(part) == "act"
    assert part.one("p", id="thought").text == "Launch it."
    await dashboard.live([asked])
    part = await now(dashboard)
    assert part.one("pre", id="does").text == "shell make launch"
    assert "waits for your approval" in part.text


async def test_an_approved_act_waits_no_longer(dashboard: Dashboard) -> None:
    """Also while it waits for its turn, or runs: it is what the agent does."""
    thought, asked = asking("echo", dashboard.life.uid, CYCLES + 1)
    await dashboard.live([thought, asked], record=False)
    act = short_id(asked)
    answer = await dashboard.client.post("/api/v1/agents/echo/approve", json={"act": act, "reason": ""})

    part = await now(dashboard)

    assert answer.status_code == 200
    assert "waits for your approval" not in part.text
    assert (phase(part), part.one("pre", id="does").text) == ("act", "shell make launch")


async def test_a_decided_act_is_shown_while_it_runs(dashboard: Dashboard) -> None:
    """The store and the stream have no act of its cycle yet."""
    thought, _ = asking("echo", dashboard.life.uid, CYCLES + 1)
    decided = next(one for one in dashboard.life.cycle() if isinstance(one, ActionDecided))
    await dashboard.live([thought, decided], record=False)

    part = await now(dashboard)

    assert (phase(part), part.one("p", id="thought").text) == ("act", "Launch it.")
    assert part.one("pre", id="does").text == action_words(decided.action, ACT_WIDTH)


async def test_a_sleeping_agent_is_said_to_sleep_until_it_wakes(dashboard: Dashboard) -> None:
    """With the reason and the end; text of events is text."""
    around: dict[str, str] = {"source": f"conch/echo/{dashboard.life.uid}", "agent": "echo"}
    until = datetime(2026, 11, 24, 9, 12, 40, tzinfo=UTC)
    slept = AgentSlept(id="slept-0", number=0, seconds=10.0, until=until, why=f"no goal is open {HOSTILE}", **around)
    woke = AgentWoke(id="woke-0", number=0, by="message", why="a message came", **around)

    await dashboard.live([slept], record=False)
    part = await now(dashboard)
    assert part.one("p", id="asleep").text.startswith("Asleep: no goal is open")
    assert "until 09:12:40 UTC" in part.one("p", id="asleep").text
    assert not part.all("script")

    await dashboard.live([woke], record=False)
    assert "Asleep" not in (await now(dashboard)).text


async def test_an_agent_that_does_not_answer_leaves_the_page_as_it_is(dashboard: Dashboard) -> None:
    """Nothing is written as far as is known."""
    part = await now(dashboard)

    assert phase(part) == "rest"
    assert "so far" not in part.text


def test_what_is_over_is_not_written_any_more() -> None:
    """A reply of an earlier cycle, or of one that has acted, changes nothing; of a long one the end is shown."""
    acted = RightNow(cycle=7, phase="score", thought="t", act="a")
    late = ReplySoFar(7, "decide", 1.0, "TOOL")

    assert with_reply(acted, late, 100.0) == acted
    assert with_reply(acted, ReplySoFar(6, "think", 1.0, "old"), 100.0) == acted
    assert with_reply(acted, ReplySoFar(8, "reflect", 1.0, "hm"), 100.0) == acted
    thought = RightNow(cycle=7, phase="act", thought="t")
    assert with_reply(thought, ReplySoFar(7, "think", 1.0, "half"), 100.0) == thought
    asks = replace(thought, act="a", waits=True)
    assert with_reply(asks, late, 100.0) == asks
    grown = with_reply(acted, ReplySoFar(8, "think", 1.5, "x" * 300 + "end"), 100.0)
    assert (grown.cycle, grown.phase, grown.began, grown.act) == (8, "think", 98_500, "")
    assert len(grown.thought) == WRITTEN_WIDTH
    assert grown.thought.endswith("end")


@pytest.mark.parametrize("writes", ["mind", "fallback", "role", "none"])
async def test_agents_are_asked_where_one_of_their_minds_writes(dashboard: Dashboard, writes: str) -> None:
    """The mind, one that stands in for it, or one of a team's role; of others no agent is asked."""
    endpoint, reflex = {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "tiny"}, {"kind": "reflex"}
    mind = endpoint if writes == "mind" else reflex | ({"fallbacks": [endpoint]} if writes == "fallback" else {})
    roles = {"one": {"prompt": "Act.", **({"mind": endpoint} if writes == "role" else {})}, "two": {"prompt": "Look."}}
    dashboard.world.settings = Settings.model_validate({"mind": mind, "team": {"pair": {"roles": roles}}})

    assert is_written(dashboard.world) == (writes != "none")
