"""A role in a process of its own: a real run, a nats-server of its own, workers that are killed and started again."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from conch.bus import Access
from conch.bus.jetstream import JetStreamBus
from conch_schemas import ActionTaken, Event, TeamPassed, agent_filter, decode
from tests.run.servers import Server

if TYPE_CHECKING:
    from tests.run.conftest import House, Live


def _configure(house: House) -> str:
    """A chain of planner and coder; the coder's mind is a worker's, with half a second for a question."""
    roles: dict[str, Any] = {"runner": None, "critic": None}
    for role in ("planner", "coder"):
        lines = [json.dumps({"thought": role, "reply": f"REFLECT: {role} {number}"}) for number in range(5000)]
        (house.directory / f"{role}.jsonl").write_text("\n".join(lines))
        mind = {"kind": "scripted", "script": str(house.directory / f"{role}.jsonl")}
        roles[role] = {"mind": mind, "worker": role == "coder"}
    team = {"topology": "chain", "turn_seconds": 0.5, "controller": {"kind": "fixed"}, "roles": roles}
    file = house.directory / "team.yaml"
    file.write_text(yaml.safe_dump({"cycle": {"interval": 0.02}, "ui": {"enabled": False}, "team": {"crew": team}}))
    return str(file)


def _coder(house: House, file: str, url: str) -> Live:
    live = house.start("team", "role", "crew", "coder", "--config", file, CONCH_BUS__URL=url)
    live.until(lambda: any("coder of the team crew answers" in line for line in live.lines), "the worker")
    return live


def test_a_role_in_a_process_of_its_own_is_killed_and_comes_back(house: House, tmp_path: Path) -> None:
    """Without its worker the turn passes; with it the coder acts; after a kill the turn passes again, and comes back
    with the next worker. Steps have no gap, no act and no message is there twice, and each reply was used once."""
    file = _configure(house)
    server = Server(tmp_path / "server", "-js", "-sd", str(tmp_path / "server" / "store"))
    try:
        run = house.begin("--team", "crew", "--config", file, interval=0.02, CONCH_BUS__URL=server.url)
        run.recorded(2)
        first = _coder(house, file, server.url)
        first.until(lambda: any("decide" in line for line in first.lines), "a turn of the first worker")
        first.signal(signal.SIGKILL)
        run.recorded(2)
        second = _coder(house, file, server.url)
        second.until(lambda: sum("decide" in line for line in second.lines) > 2, "turns of the second worker")
        run.signal(signal.SIGTERM)
        assert run.ended() == 0
        second.signal(signal.SIGTERM)
        assert second.ended() == 0
        facts = asyncio.run(_facts(server.url))
    finally:
        server.close()
    acts = [fact for fact in facts if isinstance(fact, ActionTaken)]
    turns = [act.team for act in acts if act.team is not None]
    said = [act.action.text for act in acts]
    assert sum(isinstance(fact, TeamPassed) for fact in facts) >= 2
    assert [turn.step for turn in turns] == list(range(len(acts)))
    assert sum(turn.role == "coder" for turn in turns) >= 3
    assert len(set(said)) == len(said)
    assert len({fact.id for fact in facts}) == len(facts)


async def _facts(url: str) -> list[Event]:
    """All that the team published."""
    async with JetStreamBus(Access(url)) as bus:
        return [decode(one.data) async for one in bus.read([agent_filter("crew")], after=0)]


def test_a_worker_of_no_such_role_is_refused(house: House) -> None:
    """A role that is not there, one without a worker, and no run: each in one sentence."""
    file = _configure(house)
    house.home.mkdir()

    assert "has no role 'tester'" in house.refused("team", "role", "crew", "tester", "--config", file, status=2)
    assert "set worker: true" in house.refused("team", "role", "crew", "planner", "--config", file, status=2)
    assert "no run is in progress" in house.refused("team", "role", "crew", "coder", "--config", file, status=3)
