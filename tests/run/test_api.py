"""The API beside a run: an agent that really acts is told, given a goal, paused and approved of."""

from __future__ import annotations

from typing import Any

import httpx2

from conch.auth import LoginTokens
from conch.home import Home
from tests.run.conftest import House


def test_people_reach_a_running_agent_by_the_api(house: House) -> None:
    """What is posted is done by the agent itself, and what is read is what the commands say."""
    script = house.script("DO_NOTHING: resting", *["TOOL: reply(text='yes')"] * 2, *["DO_NOTHING: resting"] * 5000)
    live = house.begin("--script", script, "--ui-port", "0", interval=0.05)
    live.recorded(2)
    live.until(lambda: house.status().get("ui"), "the page's address")
    headers = {"Authorization": f"Bearer {LoginTokens(Home(house.home)).token()}"}

    with httpx2.Client(base_url=f"{house.status()['ui']}/api/v1", headers=headers, timeout=20) as api:

        def posted(path: str, body: Any = None) -> Any:
            answer = api.post(path, json=body) if body is not None else api.post(path)
            assert answer.status_code == 200, answer.text
            return answer.json()

        def shown(path: str) -> Any:
            answer = api.get(path)
            assert answer.status_code == 200, answer.text
            return answer.json()

        told = posted("/agents/echo/tell", {"text": "hello"})
        goal = posted(
            "/agents/echo/goal",
            {"statement": "Write it", "check": {"kind": "file", "path": "a.txt"}},
        )
        posted("/agents/echo/pause")
        live.until(lambda: shown("/status")["agent"]["state"] == "paused", "the pause")
        posted("/cycles/1/approve", {"reason": "a good rest"})
        live.until(
            lambda: any(one["component"] == "approval" for one in shown("/cycles/1")["cycle"]["scores"]), "the score"
        )
        live.until(lambda: shown("/marks/verify")["waiting"] == 0, "the marks")
        rows = shown("/cycles?limit=1000")["cycles"]
        verified, bus, agents = shown("/marks/verify"), shown("/bus"), shown("/agents")
        goals = [one["id"] for one in shown("/goals")["goals"]]
        listed = house.cycles()
        posted("/agents/echo/resume")
        live.until(lambda: len(live.rows) > len(rows), "another cycle")

    assert told["running"] is True
    assert goal["goal"] in goals
    assert rows == listed
    assert verified["ok"]
    assert bus["schema"] == "conch.v1.bus"
    assert [(one["agent"], one["running"]) for one in agents["agents"]] == [("echo", True)]
    house.conch("stop")
