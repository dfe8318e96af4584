"""Real runs whose agents are spread over several processes: `conch run --agents 4 --processes 2`."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.run.conftest import House, Live, MakeHouse


NAMES = ("echo-1", "echo-2", "echo-3", "echo-4")
FIRST, SECOND = NAMES[:2], NAMES[2:]
WRITE = 'TOOL: filesystem(operation="write", path="made.txt", content="made by the agent")'
FOUR = ("--agents", "4", "--processes", "2")


def by_agent(rows: list[dict[str, Any]]) -> dict[str, list[int]]:
    """The cycles of each agent, in the order of the rows."""
    found: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        found[row["agent"]].append(row["cycle"])
    return dict(found)


def all_of(rows: list[dict[str, Any]]) -> dict[str, list[int]]:
    """The cycles of each agent, by number."""
    return {name: sorted(cycles) for name, cycles in by_agent(rows).items()}


def each(*cycles: int) -> dict[str, list[int]]:
    """These cycles of each of the four agents."""
    return {name: list(cycles) for name in NAMES}


def assert_whole(house: House) -> None:
    """Each agent's cycles are numbered without a gap, each once and scored, and its chain of marks holds."""
    rows = house.cycles()
    assert set(by_agent(rows)) == set(NAMES)
    for name, numbers in by_agent(rows).items():
        assert sorted(numbers) == list(range(len(numbers))), name
        assert json.loads(house.conch("mark", "verify", "--agent", name, "--json"))["ok"] is True
    assert len({row["action_id"] for row in rows}) == len(rows)
    assert all(row["complete"] for row in rows)


def after_the_next_cycles(live: Live, names: tuple[str, ...], more: int = 2) -> None:
    """Wait until each of these agents has so many more recorded cycles."""
    before = by_agent(live.rows)
    live.until(
        lambda: all(len(by_agent(live.rows).get(name, ())) >= len(before.get(name, ())) + more for name in names),
        f"{more} more cycles of {', '.join(names)}",
    )


@pytest.fixture(scope="module")
def lived(make_house: MakeHouse) -> tuple[House, Live]:
    """A home in which four agents have lived in two processes, two cycles each; with its run."""
    house = make_house(furnished=True)
    return house, house.run(*FOUR, "--cycles", "2", "--script", house.script(*[WRITE] * 2))


def test_all_agents_of_all_processes_do_their_cycles(lived: tuple[House, Live]) -> None:
    """Each in a workspace of its own; the run ends when the last process is done, and each has a log file."""
    house, live = lived

    assert all_of(live.rows) == each(0, 1)
    assert_whole(house)
    assert [(house.home / "workspace" / name / "made.txt").exists() for name in NAMES] == [True] * 4
    assert {file.name for file in (house.home / "logs").glob("agent*.log")} <= {"agent-1.log", "agent-2.log"}
    assert "4 agents in 2 processes, echo-1 to echo-4" in live.said
    house.assert_nothing_runs()


def test_a_later_run_may_have_another_number_of_processes(lived: tuple[House, Live]) -> None:
    """Each agent goes on with its own number; a setting that says more processes than agents gives one to each."""
    house, _ = lived
    more = house.run("--agents", "4", "--cycles", "1", "--script", house.endless(), CONCH_CYCLE__PROCESSES="9")
    house.run("--agents", "4", "--cycles", "1", "--script", house.endless())

    assert "4 agents in 4 processes" in more.said
    assert all_of(house.cycles()) == each(*range(4))


@pytest.mark.torture
def test_a_killed_process_comes_back_with_its_own_agents(make_house: MakeHouse) -> None:
    """Kill -9 of one agent process in the middle of its cycles: the other one goes on meanwhile, the killed one's
    agents go on where they were, and after a kill of the whole group all do."""
    house = make_house(furnished=True)
    live = house.begin(*FOUR, "--script", house.endless(WRITE), interval=0.02)
    after_the_next_cycles(live, NAMES)
    other = house.process("agent-2")["pid"]

    os.kill(house.process("agent-1")["pid"], signal.SIGKILL)

    after_the_next_cycles(live, SECOND)
    live.until(lambda: house.process("agent-1")["state"] == "up", "the restart")
    after_the_next_cycles(live, NAMES)
    assert (house.process("agent-1")["restarts"], house.process("agent-2")["pid"]) == (1, other)
    live.signal(signal.SIGKILL, group=True)
    live.ended()
    house.assert_nothing_runs(10.0, besides="bwrap")
    house.run(*FOUR, "--cycles", "1", "--script", house.endless(WRITE))
    assert_whole(house)


def test_a_set_number_of_cycles_is_kept_where_a_process_dies(make_house: MakeHouse) -> None:
    """`--cycles` counts from the run's start for each agent, also in the process that was started again."""
    house = make_house(furnished=True)
    live = house.begin(*FOUR, "--script", house.endless(), "--cycles", "25", interval=0.05)
    after_the_next_cycles(live, NAMES)

    os.kill(house.process("agent-2")["pid"], signal.SIGKILL)

    assert live.ended() == 0
    assert all_of(live.rows) == each(*range(25))


def test_commands_reach_the_agents_of_every_process(make_house: MakeHouse) -> None:
    """Pause and status of all, a message and a goal for an agent of the second process, a stop of one alone, whose
    process still answers, and of all."""
    house = make_house(furnished=True)
    live = house.begin(*FOUR, "--script", house.endless(), interval=0.1)
    after_the_next_cycles(live, NAMES, 1)

    house.conch("pause")
    paused = json.loads(house.conch("status", "--json"))
    house.conch("resume", "--agent", "echo-4")
    one = json.loads(house.conch("status", "--json"))
    house.conch("tell", "sleep well", "--agent", "echo-3")
    house.conch("goal", "add", "There is a log.", "--file", "log.md", "--agent", "echo-3")
    told = json.loads(house.conch("status", "--agent", "echo-3", "--json"))["agent"]
    house.conch("resume")
    after_the_next_cycles(live, NAMES, 1)
    for name in FIRST:
        house.conch("stop", "--agent", name)
    live.until(
        lambda: json.loads(house.conch("status", "--json"))["states"] == {"ended": 2, "running": 2}, "the two ends"
    )
    after_the_next_cycles(live, SECOND)
    house.conch("stop")

    assert live.ended() == 0
    assert paused["states"] == {"paused": 4}
    assert {row["agent"] for row in paused["agents"]} == set(NAMES)
    assert one["states"] == {"paused": 3, "running": 1}
    assert told["waiting"] == ["sleep well"]
    assert "There is a log." in [goal["statement"] for goal in told["goals"]]


def test_agents_of_a_process_that_does_not_answer_are_counted(make_house: MakeHouse) -> None:
    """A stopped process: `status` shows the others; `pause` pauses them and says that not all were."""
    house = make_house(furnished=True)
    live = house.begin(*FOUR, "--script", house.endless(), interval=0.1)
    after_the_next_cycles(live, NAMES, 1)
    pid = house.process("agent-1")["pid"]
    os.kill(pid, signal.SIGSTOP)

    found = json.loads(house.conch("status", "--json"))
    sentence = house.refused("pause", status=1)
    after = json.loads(house.conch("status", "--json"))
    os.kill(pid, signal.SIGCONT)
    live.signal(signal.SIGTERM)

    assert live.ended() == 0
    assert found["states"] == {"running": 2, "not answering": 2}
    assert sentence == "2 agents, echo-1 among them, do not answer: conch status, then again"
    assert after["states"] == {"paused": 2, "not answering": 2}


def break_notes(house: House, *names: str) -> None:
    """Make the notes of these agents a file that is no database."""
    for name in names:
        notes = house.home / "agents" / name / "notes.db"
        notes.parent.mkdir(parents=True, exist_ok=True)
        notes.write_bytes(b"this is no database" * 500)


def test_the_only_agent_of_a_process_is_mended_while_others_go_on(make_house: MakeHouse) -> None:
    """It fails as one of several in a process does: it is set aside, and goes on at a word."""
    house = make_house(furnished=True)
    break_notes(house, "echo-2")
    live = house.begin("--agents", "2", "--processes", "2", "--script", house.endless(), interval=0.1)
    live.says(r"echo-2: failed: the notes in .*notes\.db cannot be used.*move the file away")
    after_the_next_cycles(live, ("echo-1",))
    failed = json.loads(house.conch("status", "--json"))

    (house.home / "agents" / "echo-2" / "notes.db").unlink()
    house.conch("resume", "--agent", "echo-2")

    live.until(lambda: "echo-2" in by_agent(live.rows), "a cycle of echo-2")
    live.signal(signal.SIGTERM)
    assert live.ended() == 0
    assert failed["states"] == {"failed": 1, "running": 1}


def test_an_agent_that_cannot_be_had_leaves_its_process_out(make_house: MakeHouse) -> None:
    """A file where its directory should be: that is said, and the process that was meant for it is not there."""
    house = make_house(furnished=True)
    (house.home / "agents").mkdir(parents=True)
    (house.home / "agents" / "echo-2").write_text("a file")

    live = house.begin("--agents", "2", "--processes", "2", "--script", house.endless(), interval=0.1)
    after_the_next_cycles(live, ("echo-1",))
    processes = [one["name"] for one in house.status()["processes"]]
    live.signal(signal.SIGTERM)

    assert live.ended() == 0
    assert "echo-2 is left out" in live.said
    assert [name for name in processes if name.startswith("agent")] == ["agent-1"]
    house.assert_nothing_runs()


@pytest.mark.parametrize("more", [(), ("--cycles", "3")])
def test_where_the_agents_of_all_processes_fail_the_run_ends(make_house: MakeHouse, more: tuple[str, ...]) -> None:
    """With the sentence of one of them, as it does with one process."""
    house = make_house(furnished=True)
    break_notes(house, *NAMES)

    live = house.begin(*FOUR, "--script", house.endless(), *more)

    assert live.ended() == 1
    assert re.search(r"^conch: (echo-[1-4]: )?the notes in .* cannot be used", live.said, re.MULTILINE)
    house.assert_nothing_runs()


def test_more_processes_than_agents_are_refused(house: House) -> None:
    """In one sentence, before a home is made; and so is a number that there cannot be."""
    assert house.refused("run", "--agents", "2", "--processes", "3", status=2) == (
        "--processes 3: more than the 2 of --agents, and an agent acts in one process"
    )
    assert "cycle.processes" in house.refused("run", "--processes", "0", status=2)
    assert not house.home.exists()


def test_a_port_in_use_is_refused_with_several_processes(house: House) -> None:
    """The run ends before an agent begins, and none of its processes is left."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        sentence = house.refused("run", *FOUR, "--ui-port", str(port), status=1)

    assert str(port) in sentence
    house.assert_nothing_runs()


@pytest.mark.torture
def test_many_agents_begin_at_once_in_two_processes(make_house: MakeHouse) -> None:
    """200 agents, without a pause between their cycles: each does all of its own, and all are recorded."""
    house = make_house(furnished=True)
    live = house.begin("--agents", "200", "--processes", "2", "--cycles", "2", "--script", house.endless())

    assert live.ended(300.0) == 0
    assert by_agent(house.cycles()).keys() == {f"echo-{number}" for number in range(1, 201)}
    assert {tuple(sorted(cycles)) for cycles in by_agent(live.rows).values()} == {(0, 1)}
