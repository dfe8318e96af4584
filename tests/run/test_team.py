"""A real team: four roles with scripts of their own mend the test suite of the notebook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from tests.run.conftest import House, MakeHouse

TEST = 'TOOL: shell(command="python3 -m unittest")'
KINDS = """    pools = sorted({sighting.pool for sighting in sightings})
    return max(pools, key=lambda pool: len(kinds(sightings, pool)))
"""
WARMEST = "    return max(sightings, key=lambda sighting: sighting.water_celsius)\n"
SLACK = """    turn = minutes(high)
    before, after = (f"{at // 60:02}:{at % 60:02}" for at in (turn - 10, turn + 10))
    return before, after
"""
MISSING = "    raise NotImplementedError\n"


def _write(path: str, text: str) -> str:
    return f'TOOL: filesystem(operation="write", path="{path}", content={json.dumps(text)})'


def _scripts(workspace: Path) -> dict[str, list[str]]:
    """Each role's replies, as the models of four people would give them."""
    sightings = (workspace / "tidepool" / "sightings.py").read_text()
    tide = (workspace / "tidepool" / "tide.py").read_text()
    begin, end = sightings.index("    heads: dict"), sightings.index("\n\n\ndef warmest")
    kinds = sightings[:begin] + KINDS.rstrip("\n") + sightings[end:]
    return {
        "planner": [
            'TOOL: filesystem(operation="read", path="tests/test_sightings.py")',
            'TOOL: tell(to="coder", text="richest_pool counts heads, the test wants kinds")',
            'TOOL: tell(to="coder", text="slack in tidepool/tide.py is missing")',
            *["REFLECT: what is left to do"] * 9,
        ],
        "coder": [
            _write("tidepool/sightings.py", kinds),
            _write("tidepool/sightings.py", kinds.replace(MISSING, WARMEST)),
            _write("tidepool/tide.py", tide.replace(MISSING, SLACK)),
            *[TEST] * 9,
        ],
        "runner": [TEST] * 12,
        "critic": ["REFLECT: is every failing test mended?"] * 12,
    }


def _configure(house: House) -> Path:
    """A home with the notebook, and a team whose roles have a script each."""
    house.conch("run", "--cycles", "1", "--interval", "0", CONCH_UI__ENABLED="false")
    roles: dict[str, Any] = {}
    for name, replies in _scripts(house.workspace).items():
        script = house.directory / f"{name}.jsonl"
        script.write_text("".join(json.dumps({"thought": name, "reply": reply}) + "\n" for reply in replies))
        roles[name] = {"mind": {"kind": "scripted", "script": str(script)}}
    task = {"id": "mend", "statement": "All tests pass.", "check": {"kind": "tests"}}
    file = house.directory / "team.yaml"
    team = {"goal": task, "topology": "flat", "controller": {"kind": "fixed"}, "roles": roles}
    file.write_text(yaml.safe_dump({"cycle": {"interval": 0}, "ui": {"enabled": False}, "team": {"crew": team}}))
    return file


def test_a_team_of_four_mends_a_red_test_suite(make_house: MakeHouse) -> None:
    """The run ends when all tests pass; each act names its role, is scored and joined; the logs and `team show` have
    the same steps. A team that is not there, and one that does not run, are told in a sentence."""
    furnished = make_house(furnished=True)
    file = str(_configure(furnished))

    furnished.conch("team", "run", "crew", "--steps", "30", "--config", file)

    shown = json.loads(furnished.conch("team", "show", "crew", "--json", "--config", file))
    roles = {row["role"]: row for row in shown["by_role"]}
    directory = furnished.home / "agents" / "crew"
    decisions = (directory / "controller_decisions.jsonl").read_text().splitlines()
    rewards = (directory / "episodes" / "mend" / "rewards.jsonl").read_text().splitlines()
    steps = [json.loads(line) for line in rewards]
    assert steps[-1]["terminal"] is True
    assert steps[-1]["test_pass_rate"] == 1.0
    assert steps[-1]["r_step"] > 1.0
    assert len(steps) == shown["steps"] == len(decisions) + 1 <= 20
    assert roles["coder"]["turns"] >= 3
    assert roles["coder"]["mean_reward"] is not None
    assert {message["sender"] for message in shown["messages"]} >= {"planner", "coder"}
    [row] = json.loads(furnished.conch("team", "list", "--json", "--config", file))["teams"]
    assert (row["team"], row["steps"]) == ("crew", shown["steps"])

    assert furnished.refused("team", "show", "crow", "--config", file, status=2) == (
        "there is no team 'crow' in the configuration: the teams are crew"
    )
    assert "no run is in progress" in furnished.refused("team", "switch", "crew", "flat", "--config", file, status=3)
