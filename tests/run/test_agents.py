"""Real runs of several agents: `conch run --agents 3`."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil
import pytest

if TYPE_CHECKING:
    from tests.run.conftest import House, Live, MakeHouse


NAMES = ("echo-1", "echo-2", "echo-3")
WRITE = 'TOOL: filesystem(operation="write", path="made.txt", content="made by the agent")'


def by_agent(rows: list[dict[str, Any]]) -> dict[str, list[int]]:
    """The cycles of each agent, in the order of the rows."""
    found: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        found[row["agent"]].append(row["cycle"])
    return dict(found)


def all_of(house: Any) -> dict[str, list[int]]:
    return {name: sorted(cycles) for name, cycles in by_agent(house.cycles()).items()}


@dataclass(frozen=True)
class LivedHouse:
    """A home in which three agents have lived."""

    house: House
    first: Live
    """Their run."""
    left: list[psutil.Process]
    """Processes that the run left."""


@pytest.fixture(scope="module")
def lived(make_house: MakeHouse) -> LivedHouse:
    """A fresh home in which three agents have lived three cycles each; with its run."""
    house = make_house(furnished=True)
    first = house.run("--agents", "3", "--cycles", "3", "--script", house.script(*[WRITE] * 3))
    left = house.processes()
    return LivedHouse(house, first, left)


def test_each_does_so_many_cycles_under_its_own_name(lived: LivedHouse) -> None:
    """All act, all are scored, the run ends when all have done theirs, and nothing is left behind."""
    expected = {name: [0, 1, 2] for name in NAMES}
    assert {name: sorted(cycles) for name, cycles in by_agent(lived.first.rows).items()} == expected
    assert all_of(lived.house) == expected
    for row in lived.house.cycles():
        assert (row["complete"], row["outcome"], len(row["scores"])) == (True, "success", 12)
    assert len({row["action_id"] for row in lived.house.cycles()}) == 9
    assert lived.left == []


def test_each_has_a_workspace_and_an_id_of_its_own(lived: LivedHouse) -> None:
    """Filled like a fresh one, with a history to go on with; what was made there was made by its agent."""
    for name in NAMES:
        workspace = lived.house.home / "workspace" / name
        assert (workspace / "made.txt").read_text() == "made by the agent"
        assert (workspace / ".git").is_dir()
        assert (workspace / "notes" / "kelp.md").exists()
    assert len({(lived.house.home / "agents" / name / "agentuid").read_text() for name in NAMES}) == 3
    assert "glossary" in json.dumps(json.loads(lived.house.conch("goal", "list", "--agent", "echo-2", "--json")))


def test_fewer_agents_later_leave_the_others_at_rest(lived: LivedHouse) -> None:
    """Their data stay; back again, each goes on with its own number."""
    lived.house.run("--agents", "2", "--cycles", "1", "--script", lived.house.endless())
    between = all_of(lived.house)
    lived.house.run("--agents", "3", "--cycles", "1", "--script", lived.house.endless())

    assert between == {"echo-1": [0, 1, 2, 3], "echo-2": [0, 1, 2, 3], "echo-3": [0, 1, 2]}
    assert all_of(lived.house) == {"echo-1": [*range(5)], "echo-2": [*range(5)], "echo-3": [*range(4)]}


def test_one_is_paused_alone(make_house: MakeHouse) -> None:
    """The others go on; resumed, it goes on as well; `stop` ends all."""
    house = make_house(furnished=True)
    live = house.begin("--agents", "3", "--script", house.endless(), interval=0.1)
    live.until(lambda: set(by_agent(live.rows)) == set(NAMES), "a cycle of each")
    house.conch("pause", "--agent", "echo-2")
    paused = json.loads(house.conch("status", "--json"))
    live.recorded(6)  # what was under way when it was paused is over
    before = len(by_agent(live.rows)["echo-2"])
    live.recorded(6)

    assert paused["states"] == {"paused": 1, "running": 2}
    assert len(by_agent(live.rows)["echo-2"]) == before
    house.conch("resume", "--agent", "echo-2")
    live.until(lambda: len(by_agent(live.rows)["echo-2"]) > before + 1, "more cycles of echo-2")
    house.conch("stop")
    assert live.ended() == 0


def test_a_kill_in_the_middle_costs_no_agent_anything(make_house: MakeHouse) -> None:
    """The agents' process, then the whole group: each agent goes on, no cycle has a gap, no outcome is there twice."""
    house = make_house(furnished=True)
    live = house.begin("--agents", "3", "--script", house.endless(WRITE), interval=0.05)
    live.recorded(5)
    os.kill(house.process("agent")["pid"], signal.SIGKILL)
    live.recorded(9)
    live.signal(signal.SIGKILL, group=True)
    live.ended()
    house.assert_nothing_runs(10.0, besides="bwrap")
    house.run("--agents", "3", "--cycles", "1", "--script", house.endless(WRITE))

    house.assert_nothing_runs()
    cycles = all_of(house)
    assert set(cycles) == set(NAMES)
    for name, numbers in cycles.items():
        assert numbers == list(range(len(numbers))), name
        assert len(numbers) >= 2
        assert json.loads(house.conch("mark", "verify", "--agent", name, "--json"))["ok"] is True


def test_one_that_fails_is_told_of_and_mended_while_the_others_go_on(make_house: MakeHouse) -> None:
    """Notes that are no database stop their agent alone; moved away, it goes on at a word."""
    house = make_house(furnished=True)
    notes = house.home / "agents" / "echo-2" / "notes.db"
    notes.parent.mkdir(parents=True)
    notes.write_bytes(b"this is no database" * 500)
    live = house.begin("--agents", "3", "--script", house.endless(), interval=0.1)
    live.says(r"echo-2: failed: the notes in .*notes\.db cannot be used.*move the file away")
    live.recorded(4)
    failed = json.loads(house.conch("status", "--json"))
    notes.unlink()
    house.conch("resume", "--agent", "echo-2")
    live.until(lambda: "echo-2" in by_agent(live.rows), "a cycle of echo-2")
    live.signal(signal.SIGTERM)

    assert live.ended() == 0
    assert failed["states"] == {"failed": 1, "running": 2}
    assert failed["agents"][0]["agent"] == "echo-2"
    assert all_of(house)["echo-2"][0] == 0


def test_a_set_number_of_cycles_ends_with_the_error_of_one_that_failed(make_house: MakeHouse) -> None:
    """The others do all of theirs and are recorded; the exit says that not all did."""
    house = make_house(furnished=True)
    notes = house.home / "agents" / "echo-3" / "notes.db"
    notes.parent.mkdir(parents=True)
    notes.write_bytes(b"this is no database" * 500)
    live = house.start(
        "run", "--agents", "3", "--cycles", "2", "--interval", "0", "--json", "--script", house.endless()
    )

    assert live.ended() == 1
    assert {name: sorted(cycles) for name, cycles in by_agent(live.rows).items()} == {
        "echo-1": [0, 1],
        "echo-2": [0, 1],
    }
    assert re.search(r"^conch: echo-3: the notes in .* cannot be used", live.said, re.MULTILINE)
