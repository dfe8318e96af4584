"""`conch run --without agent`: a run for programs that act by `conch.agent`."""

from __future__ import annotations

import json
import re

import pytest

import conch
from tests.run.conftest import House, Live


def program(house: House, cycles: int, name: str = "mine") -> list[float | None]:
    """The rewards of a program that acts so many cycles in the home's run."""
    with conch.agent(name, home=house.home) as agent:
        totals = []
        for _ in range(cycles):
            with agent.cycle() as cycle:
                cycle.thought("I should look.")
                cycle.decided(tool="search", args={"query": f"cycle {cycle.number}"})
                cycle.taken(output="found")
                totals.append(cycle.reward(timeout=30))
        return totals


def begin(house: House, *arguments: str) -> Live:
    """`conch run --without agent`, going, and other programs can reach it."""
    run = house.start("run", "--json", "--without", "agent", *arguments, CONCH_UI__ENABLED="false")
    run.says("no agent: programs act here")
    run.until(lambda: (house.home / "run.json").exists(), "run.json")
    return run


def test_a_run_without_an_agent_scores_the_acts_of_programs(house: House) -> None:
    """No agent acts; each program that comes is reported, its cycles are printed, status knows it, and a next run goes
    on with it. `conch stop` ends the run."""
    run = begin(house)

    totals = program(house, 2)
    run.until(lambda: len(run.lines) >= 2, "the rows")

    assert None not in totals
    assert [(row["agent"], row["cycle"]) for row in run.rows] == [("mine", 0), ("mine", 1)]
    run.says("agent mine begins, by its program")
    assert {one["name"] for one in house.status()["processes"]} == {"nats-server", "consumers"}
    status = json.loads(house.conch("status", "--json"))
    assert (status["agent"]["agent"], status["agent"]["state"]) == ("mine", "waits for its program")
    with conch.agent("other", home=house.home):
        run.says("agent other begins, by its program")
        states = json.loads(house.conch("status", "--json"))["agents"]
        assert [(row["agent"], row["state"]) for row in states] == [
            ("mine", "waits for its program"),
            ("other", "running"),
        ]
        live = house.start("pause")
        assert live.ended() == 2, live.told()
        assert "there are 2 agents (mine, other): name one with --agent" in live.said
    house.conch("stop")
    assert run.ended() == 0, run.told()

    again = begin(house)
    program(house, 1)
    again.until(lambda: len(again.lines) >= 1, "the rows")

    assert [(row["agent"], row["cycle"]) for row in again.rows] == [("mine", 2)]
    house.conch("stop")
    assert again.ended() == 0, again.told()
    assert [row["cycle"] for row in house.cycles()] == [0, 1, 2]


def test_a_program_has_the_weights_of_the_runs_rules(house: House) -> None:
    """A rule of the run weighs in its experiences from its first cycle on."""
    rule = house.directory / "always.py"
    rule.write_text("from conch import rule\n\n\n@rule(weight=0.5)\ndef always(action) -> float:\n    return 1.0\n")
    run = begin(house, "--rules", str(rule))
    program(house, 1)
    run.until(lambda: len(run.lines) >= 1, "the rows")

    [row] = run.rows
    assert [score["value"] for score in row["scores"] if score["component"] == "always"] == [1.0]


@pytest.mark.parametrize(
    "options", [["--cycles", "3"], ["--mind", "reflex"], ["--agents", "2"], ["--interval", "1"], ["--seed", "1"]]
)
def test_options_of_an_agent_are_refused_without_one(house: House, options: list[str]) -> None:
    """One sentence names the option and what to do."""
    arguments = ["--without", "agent", *options]
    live = house.start("run", *arguments)

    assert live.ended() == 2, live.told()
    assert re.search(rf"conch: --without agent and {options[0]}: .*leave it out", live.said), live.said
