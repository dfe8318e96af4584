"""`conch bus permissions`: what it prints is a server's configuration, and its users do their work."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conch.bus.server import find_binary
from tests.run.conftest import House

ROGUE = '''
from conch import consumer, follow
from conch_schemas import ActionTaken, CycleReflected, RewardAssigned


@consumer(ActionTaken)
def rogue(action: ActionTaken) -> RewardAssigned:
    """Says that it scores, and speaks for the agent."""
    return follow(action, CycleReflected, consumer="rogue", version="1", reflection="mine", sleep=0.0, ms=0.0)
'''


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """`server(configuration)`: the address of a nats-server that has it."""
    started: list[subprocess.Popen[bytes]] = []

    def start(configuration: str) -> str:
        (tmp_path / "users.conf").write_text(configuration)
        place = json.dumps(str(tmp_path))
        text = (
            f'listen: "127.0.0.1:-1"\nports_file_dir: {place}\njetstream {{ store_dir: {place} }}\ninclude "users.conf"'
        )
        (tmp_path / "server.conf").write_text(text)
        started.append(subprocess.Popen([find_binary(), "-c", tmp_path / "server.conf"], stderr=subprocess.DEVNULL))
        ports = tmp_path / f"nats-server_{started[-1].pid}.ports"
        while True:
            try:
                return str(json.loads(ports.read_text())["nats"][0])
            except (OSError, ValueError):
                assert started[-1].poll() is None

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_the_printed_users_are_a_server_that_a_run_works_on(house: House, server: Callable[[str], str]) -> None:
    """Asked again it is the same; a whole run and the command line do their work; a rogue plug-in is refused in one
    sentence, at its first fact."""
    rules = str(house.directory / "rogue.py")
    Path(rules).write_text(ROGUE)
    house.conch("init")
    printed = house.conch("bus", "permissions", "--rules", rules)
    assert house.conch("bus", "permissions", "--rules", rules) == printed
    keys = house.home / "keys"
    modes = {stat.S_IMODE(file.stat().st_mode) for file in keys.iterdir()}
    assert (modes, stat.S_IMODE(keys.stat().st_mode)) == ({0o600}, 0o700)
    assert not [file for file in keys.iterdir() if file.read_text().strip() in printed]
    url = server(printed)

    def user(name: str) -> dict[str, str]:
        return {"CONCH_BUS__URL": url, "CONCH_BUS__NKEY": str(keys / f"{name}.nk")}

    done = house.run("--cycles", "2", "--script", house.endless(), **user("run"))
    assert [(row["cycle"], row["complete"]) for row in done.rows] == [(0, True), (1, True)]
    house.conch("consumer", "lag", **user("cli"))

    sentence = house.refused("consume", "rogue", "--rules", rules, status=3, **user("rogue"))

    assert sentence.endswith("this user may not publish on conch.v1.echo.cycle.reflected")


def test_a_worker_of_agents_runs_as_their_user(house: House, server: Callable[[str], str], tmp_path: Path) -> None:
    """In two processes, one of which passes on what is asked of all; its claim, weights and facts are stored."""
    house.conch("init")
    url = server(house.conch("bus", "permissions"))
    keys = house.home / "keys"
    (tmp_path / "other").mkdir()
    worker = House(tmp_path / "other", furnished=True)
    as_agent, as_person = (
        {"CONCH_BUS__URL": url, "CONCH_BUS__NKEY": str(keys / f"{name}.nk")} for name in ("agent", "cli")
    )

    try:
        options = ("--agents", "3..4", "--processes", "2", "--interval", "0.1", "--script", worker.endless())
        live = worker.start("agent", "run", *options, **as_agent)
        live.until(lambda: "2 agents in 2 processes" in "".join(live.lines), "the start")
        live.until(
            lambda: json.loads(worker.conch("status", "--json", **as_person))["states"] == {"running": 2}, "both agents"
        )
        worker.conch("pause", **as_person)
        paused = json.loads(worker.conch("status", "--json", **as_person))
        worker.conch("stop", **as_person)
        assert live.ended() == 0, live.told()
    finally:
        worker.close()

    assert paused["states"] == {"paused": 2}
    assert "may not" not in live.said


def test_as_json_each_user_is_a_row(house: House) -> None:
    """With its key's file; a plug-in that does not say what it publishes may say nothing, and that is said."""
    rules = house.directory / "quiet.py"
    rules.write_text(ROGUE.replace(" -> RewardAssigned", "").replace("rogue", "quiet"))
    house.conch("init")

    live = house.start("bus", "permissions", "--json", "--agents", "echo,other", "--rules", str(rules))

    assert live.ended() == 0
    [document] = live.rows
    users = {user["name"]: user for user in document["users"]}
    assert {"run", "agent", "cli", "reward", "store", "metrics", "quiet"} <= set(users)
    facts = [subject for subject in users["reward"]["publish"] if subject.startswith("conch.v1.")]
    assert facts == [
        f"conch.v1.{agent}.{fact}" for fact in ("reward.assigned", "consumer.failed") for agent in ("echo", "other")
    ]
    assert Path(users["reward"]["file"]).read_text().startswith("SU")
    assert "quiet does not say what it publishes" in live.said


def test_names_that_would_open_more_than_was_meant_are_refused(house: House) -> None:
    """A wildcard for an agent's; a consumer that is called as the user of the agents is."""
    house.conch("init")
    rules = house.directory / "agent.py"
    rules.write_text(ROGUE.replace("rogue", "agent"))

    assert "--agents *" in house.refused("bus", "permissions", "--agents", "echo,*", status=2)
    assert "is named agent" in house.refused("bus", "permissions", "--rules", str(rules), status=2)
