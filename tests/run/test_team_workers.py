"""A role in a process of its own: a real run, a nats-server of its own, workers that are killed and started again."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from conch.bus import Access
from conch.bus.jetstream import JetStreamBus
from conch_schemas import (
    ActionTaken,
    Event,
    TeamDecided,
    TeamPassed,
    TeamSwitchAborted,
    TeamSwitched,
    TeamSwitchPrepared,
    agent_filter,
    decode,
)
from tests.run.conftest import House
from tests.run.servers import Server

if TYPE_CHECKING:
    from tests.run.conftest import Live


def _configure(house: House, *workers: str) -> str:
    """A chain of planner and coder with a script each, and so much time for a question that a worker on a busy machine
    answers in it. `workers`: the roles that have one."""
    roles: dict[str, Any] = {"runner": None, "critic": None}
    for role in ("planner", "coder"):
        mind = {"kind": "scripted", "script": _script(house.directory, role, "REFLECT: {} {}")}
        roles[role] = {"mind": mind, "worker": role in workers}
    team = {"topology": "chain", "turn_seconds": 3, "controller": {"kind": "fixed"}, "roles": roles}
    file = house.directory / "team.yaml"
    file.write_text(yaml.safe_dump({"cycle": {"interval": 0.02}, "ui": {"enabled": False}, "team": {"crew": team}}))
    return str(file)


def _script(directory: Path, role: str, reply: str) -> str:
    """A file of replies, each with the role and its number."""
    lines = [json.dumps({"thought": role, "reply": reply.format(role, number)}) for number in range(5000)]
    (directory / f"{role}.jsonl").write_text("\n".join(lines))
    return str(directory / f"{role}.jsonl")


def _coder(house: House, file: str, url: str, **environment: str) -> Live:
    live = house.start("team", "role", "crew", "coder", "--config", file, CONCH_BUS__URL=url, **environment)
    live.until(lambda: any("coder of the team crew answers" in line for line in live.lines), "the worker")
    return live


def _acted(run: Live, more: int, word: str = "coder") -> None:
    """Wait for so many more recorded acts whose reply has the word."""
    seen = _acts(run, word)
    run.until(lambda: _acts(run, word) >= seen + more, f"{more} acts with {word}")


def _acts(run: Live, word: str) -> int:
    return sum(word in json.loads(line)["raw"] for line in [*run.lines])


def _passed(house: House, run: Live, more: int = 1) -> None:
    """Wait for so many more passed turns in the agent's log."""
    log = house.home / "logs" / "agent.log"

    def passes() -> int:
        return log.read_text().count('"team.passed"') if log.exists() else 0

    seen = passes()
    run.until(lambda: passes() >= seen + more, "a passed turn")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A nats-server of the test's own."""
    made = Server(tmp_path / "server", "-js", "-sd", str(tmp_path / "server" / "store"))
    yield made
    made.close()


def test_a_role_in_a_process_of_its_own_is_killed_and_comes_back(house: House, server: Server) -> None:
    """Without its worker the turn passes; with it the coder acts; after a kill the turn passes again, and comes back
    with the next worker. Steps have no gap, no act and no message is there twice, and the next worker goes on where the
    first one was."""
    file = _configure(house, "coder")
    run = house.begin("--team", "crew", "--config", file, interval=0.02, CONCH_BUS__URL=server.url)
    _passed(house, run)
    first = _coder(house, file, server.url)
    _acted(run, 1)
    first.signal(signal.SIGKILL)
    _passed(house, run)
    second = _coder(house, file, server.url)
    _acted(run, 2)
    run.signal(signal.SIGTERM)
    assert run.ended() == 0
    second.signal(signal.SIGTERM)
    assert second.ended() == 0
    facts = asyncio.run(_facts(server.url))
    acts = [fact for fact in facts if isinstance(fact, ActionTaken)]
    turns = [act.team for act in acts if act.team is not None]
    assert sum(isinstance(fact, TeamPassed) for fact in facts) >= 2
    assert [turn.step for turn in turns] == list(range(len(acts)))
    assert sum(turn.role == "coder" for turn in turns) >= 3
    assert [act.action.text for act in acts].count("coder 0") <= 1
    assert len({fact.id for fact in facts}) == len(facts)


def test_a_role_on_another_machine_acts_in_the_workspace_of_its_team(house: House, server: Server) -> None:
    """Its worker has a home, a HOME and a configuration of its own, and of the team's machine the address of the bus
    alone. What it decides is done where the team runs; its own home has no store, no journal and no workspace."""
    file = _configure(house, "coder")
    far = House(house.directory / "far")
    script = _script(far.directory, "coder", 'TOOL: filesystem(operation="write", path="{}.txt", content="line {}")')
    settings = yaml.safe_load(Path(file).read_text().replace(str(house.directory / "coder.jsonl"), script))
    del settings["team"]["crew"]["roles"]["planner"]["mind"]
    (far.directory / "team.yaml").write_text(yaml.safe_dump(settings))
    far.home.mkdir(mode=0o700)
    assert str(house.home) not in (far.directory / "team.yaml").read_text()
    try:
        run = house.begin("--team", "crew", "--config", file, interval=0.02, CONCH_BUS__URL=server.url)
        worker = _coder(far, str(far.directory / "team.yaml"), server.url, HOME=str(far.directory))
        _acted(run, 2, "coder.txt")
        run.signal(signal.SIGTERM)
        assert run.ended() == 0
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
        left = {str(path.relative_to(far.home)) for path in far.home.rglob("*") if path.is_file()}
    finally:
        far.close()
    assert (house.workspace / "coder.txt").read_text().startswith("line ")
    assert not (far.workspace / "coder.txt").exists()
    assert not [name for name in left if not name.startswith(("logs", "agents"))], left
    shown = json.loads(house.conch("cycle", "list", "--json"))["cycles"]
    assert sum("coder.txt" in row["raw"] and row["outcome"] == "success" for row in shown) >= 2


def test_a_team_that_is_killed_while_it_switches_goes_on_in_one_epoch(house: House, server: Server) -> None:
    """All its processes get SIGKILL three times, in a life that switches after most steps: steps and epochs have no
    gap, each prepared switch has one end, and nothing is there twice."""
    roles = {"runner": None, "critic": None}
    team = {"controller": {"kind": "random", "dwell": 0, "cooldown": 0}, "roles": roles}
    file = house.directory / "team.yaml"
    file.write_text(yaml.safe_dump({"ui": {"enabled": False}, "team": {"crew": team}}))
    command = ("--team", "crew", "--config", str(file), "--script", house.endless("REFLECT: on the tide"))
    for steps in (3, 5, 7):
        run = house.begin(*command, CONCH_BUS__URL=server.url)
        run.recorded(steps)
        run.signal(signal.SIGKILL, group=True)
        run.ended()
    house.run(*command, "--cycles", "5", CONCH_BUS__URL=server.url)

    facts = asyncio.run(_facts(server.url))
    ends = [fact for fact in facts if isinstance(fact, TeamSwitched | TeamSwitchAborted)]
    turns = [fact.team for fact in facts if isinstance(fact, ActionTaken)]
    assert len(ends) == sum(isinstance(fact, TeamSwitchPrepared) for fact in facts) > 3
    assert [fact.epoch for fact in ends if isinstance(fact, TeamSwitched)] == list(range(1, len(ends) + 1))
    assert [turn.step for turn in turns if turn is not None] == list(range(len(turns)))
    assert [fact.step for fact in facts if isinstance(fact, TeamDecided)] == list(range(len(turns)))
    assert len({fact.id for fact in facts}) == len(facts)


async def _facts(url: str) -> list[Event]:
    """All that the team published."""
    async with JetStreamBus(Access(url)) as bus:
        return [decode(one.data) async for one in bus.read([agent_filter("crew")], after=0)]


def test_a_worker_of_no_such_role_is_refused(house: House) -> None:
    """A role that is not there, one without a worker, and no run: each in one sentence."""
    file = _configure(house, "coder")
    house.home.mkdir()

    assert "has no role 'tester'" in house.refused("team", "role", "crew", "tester", "--config", file, status=2)
    assert "set worker: true" in house.refused("team", "role", "crew", "planner", "--config", file, status=2)
    assert "no run is in progress" in house.refused("team", "role", "crew", "coder", "--config", file, status=3)
