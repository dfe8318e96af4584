"""A real team: four roles, each with a model behind an endpoint of its own, mend the test suite of the notebook."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
import yaml

from conch.rewards import progress
from tests.run.servers import Endpoint

if TYPE_CHECKING:
    from tests.run.conftest import House, MakeHouse

TEST = 'TOOL: shell(command="python3 -m unittest")'
MENDED = {
    "test_the_richest_pool_is_told_by_kinds_and_not_by_heads": (
        "tidepool/sightings.py",
        "    heads: dict[int, int] = {}\n"
        "    for sighting in sightings:\n"
        "        heads[sighting.pool] = heads.get(sighting.pool, 0) + sighting.count\n"
        "    return max(sorted(heads), key=lambda pool: heads[pool])\n",
        "    pools = sorted({sighting.pool for sighting in sightings})\n"
        "    return max(pools, key=lambda pool: len(kinds(sightings, pool)))\n",
    ),
    "test_the_warmest_water_was_in_pool_four_in_august": (
        "tidepool/sightings.py",
        "    raise NotImplementedError\n",
        "    return max(sightings, key=lambda sighting: sighting.water_celsius)\n",
    ),
    "test_the_slack_is_twenty_minutes_around_the_turn": (
        "tidepool/tide.py",
        "    raise NotImplementedError\n",
        "    turn = minutes(high)\n"
        '    before, after = (f"{at // 60:02}:{at % 60:02}" for at in (turn - 10, turn + 10))\n'
        "    return before, after\n",
    ),
}
"""By the test that fails: its file, what is wrong there, what is right."""
STEP = {"step", "delta_pass_rate", "delta_tokens", "phase_advance", "switch_committed", "r_step"}
DECISION = {"step", "topology", "x", "action", "epsilon", "ms", "switch"}


class Role:
    """The model of one role: it knows of its task what its prompt says, and of files what it reads and wrote."""

    def __init__(self, name: str, workspace: Path) -> None:
        self.name, self.workspace = name, workspace
        self.failing: list[str] = []

    def says(self, prompt: str) -> str:
        """The reply to a question; it has the turn, or the question came to the wrong endpoint."""
        assert f"You have the turn as {self.name} of the team crew" in prompt
        _, _, rest = prompt.partition("Messages of your team that you have not read:")
        heard = rest.partition("\n\n")[0]
        if not prompt.rstrip().endswith("nothing else."):
            return "I do what I was told."
        decide = getattr(self, self.name)
        reply: str = decide(heard)
        return reply

    def planner(self, heard: str) -> str:
        """Names the failing tests to the coder one by one; what was written is for the critic; then the tests run."""
        for name in re.findall(r"(?:FAIL|ERROR): (test_\w+)", heard):
            self.failing += [name] if name not in self.failing else []
        if "filesystem(" in heard and "write" in heard:
            return 'TOOL: tell(to="critic", text="look at what the coder wrote")'
        if self.failing:
            return f'TOOL: tell(to="coder", text="mend {self.failing.pop(0)}")'
        return 'TOOL: tell(to="runner", text="run the tests")'

    def coder(self, heard: str) -> str:
        """Mends the test that it was told of, and does nothing without."""
        told = [name for name in MENDED if name in heard]
        if not told:
            return "DO_NOTHING: I was told nothing"
        path, wrong, right = MENDED[told[0]]
        text = (self.workspace / path).read_text().replace(wrong, right)
        return f'TOOL: filesystem(operation="write", path="{path}", content={json.dumps(text)})'

    def runner(self, heard: str) -> str:
        """Runs the tests when it was asked to."""
        return TEST if "run the tests" in heard else "DO_NOTHING: nobody asked"

    def critic(self, heard: str) -> str:
        """Reflects on what it was shown."""
        return "REFLECT: it mends what its test says" if "look at" in heard else "DO_NOTHING: nobody asked"


@pytest.fixture
def crew(make_house: MakeHouse) -> Iterator[tuple[House, str, dict[str, Endpoint]]]:
    """A home with the notebook, a configuration whose team has a model for each role, and the endpoints of these."""
    house = make_house(furnished=True)
    house.conch("run", "--cycles", "1", "--interval", "0", CONCH_UI__ENABLED="false")
    with ExitStack() as stack:
        endpoints = {
            name: stack.enter_context(Endpoint(Role(name, house.workspace).says).serving())
            for name in ("planner", "coder", "runner", "critic")
        }
        roles = {
            name: {"mind": {"kind": "openai", "base_url": one.url, "model": name, "constrain": "off"}}
            for name, one in endpoints.items()
        }
        task = {"id": "mend", "statement": "All tests pass.", "check": {"kind": "tests"}}
        file = house.directory / "team.yaml"
        settings = {"cycle": {"interval": 0}, "team": {"crew": {"goal": task, "roles": roles}}}
        file.write_text(yaml.safe_dump(settings))
        yield house, str(file), endpoints


def _tests_pass(house: House) -> bool:
    """Whether the suite of the workspace passes, run by this test."""
    command = [sys.executable, "-B", "-m", "unittest"]
    return subprocess.run(command, cwd=house.workspace, capture_output=True).returncode == 0


def _rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_team_of_four_models_mends_a_red_test_suite(crew: tuple[House, str, dict[str, Endpoint]]) -> None:
    """`conch team run` ends by itself when all tests pass: red before, green after. Each role is asked at its own
    endpoint, and told by messages what to do. Logs, `team show` and the page have the same steps."""
    house, file, endpoints = crew
    assert not _tests_pass(house)

    house.conch("team", "run", "crew", "--config", file, CONCH_UI__ENABLED="false")

    assert _tests_pass(house)
    assert all(len(one.served) > 1 for one in endpoints.values())
    shown = json.loads(house.conch("team", "show", "crew", "--json", "--config", file))
    _check_roles(shown)
    _check_logs(house.home / "agents" / "crew", shown)
    [row] = json.loads(house.conch("team", "list", "--json", "--config", file))["teams"]
    assert (row["team"], row["steps"]) == ("crew", shown["steps"])
    active = json.loads(house.conch("goal", "list", "--agent", "crew", "--json", "--config", file))["goals"]
    assert "mend" not in [goal["id"] for goal in active]
    assert house.refused("team", "show", "crow", "--config", file, status=2) == (
        "there is no team 'crow' in the configuration: the teams are crew"
    )
    assert "no run is in progress" in house.refused("team", "switch", "crew", "flat", "--config", file, status=3)
    _check_page(house, file, shown)


def _check_roles(shown: dict[str, Any]) -> None:
    """Each role had turns and a score; planner, runner and critic talked, and the coder was told each failing test."""
    roles = {row["role"]: row for row in shown["by_role"]}
    assert list(roles) == ["planner", "coder", "runner", "critic"]
    assert all(row["turns"] and row["tokens"] and row["mean_reward"] is not None for row in roles.values())
    ways = {(message["sender"], to) for message in shown["messages"] for to in message["to"]}
    assert ways >= {("planner", "coder"), ("planner", "runner"), ("planner", "critic"), ("runner", "planner")}
    told = " ".join(message["text"] for message in shown["messages"] if message["to"] == ["coder"])
    assert all(name in told for name in MENDED)


def _check_logs(directory: Path, shown: dict[str, Any]) -> None:
    """A row a step; the last one of the task is terminal, and has no decision after it; rewards keep to the rule."""
    steps = _rows(directory / "episodes" / "mend" / "rewards.jsonl")
    decisions = _rows(directory / "controller_decisions.jsonl")
    assert [row["step"] for row in steps] == list(range(shown["steps"]))
    assert all(row.keys() >= STEP for row in steps)
    assert [row.get("terminal", False) for row in steps] == [False] * (len(steps) - 1) + [True]
    for row in steps:
        said = 0.3 * row["phase_advance"] + 0.7 * row["delta_pass_rate"] - 0.0001 * row["delta_tokens"]
        said += progress.final_bonus(row.get("terminal", False)) - 0.05 * row["switch_committed"]
        assert row["r_step"] == pytest.approx(said)
    assert [row["step"] for row in decisions] == list(range(len(steps) - 1))
    assert all(row.keys() >= DECISION and len(row["x"]) == 8 for row in decisions)
    assert [row["i"] for row in _rows(directory / "controller_latency.jsonl")] == list(range(len(decisions)))
    earned = [row["reward"] for row in shown["last_steps"]]
    assert earned[0] is None
    assert earned[1:] == pytest.approx([row["r_step"] for row in steps[1:]])


def _check_page(house: House, file: str, shown: dict[str, Any]) -> None:
    """The page of the next run, of another agent, has each role's turns and the conversation of the team that ended."""
    run = house.start("run", "--config", file, "--script", house.endless(), "--interval", "1", "--ui-port", "0")
    run.until(lambda: any(line.startswith("page ") for line in run.lines), "its page")
    link = next(line for line in run.lines if line.startswith("page ")).removeprefix("page ")
    with httpx2.Client(base_url=link.partition("/?")[0], follow_redirects=True, timeout=60) as client:
        inside = client.get(link).url
        told = "mend test_the_slack_is_twenty_minutes_around_the_turn"
        run.until(lambda: told in client.get(inside.join("teams?agent=crew")).text, "the conversation")
        page = client.get(inside.join("teams?agent=crew")).text
        same = client.get(inside.join("api/v1/agents/crew/team")).json()
    assert all(f'id="row-{row["role"]}"' in page for row in shown["by_role"])
    assert {key: same[key] for key in ("steps", "by_role", "switches")} == {
        key: shown[key] for key in ("steps", "by_role", "switches")
    }
