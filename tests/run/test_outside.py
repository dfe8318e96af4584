"""A rule in another process and language: the example in Node beside a real run."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch_schemas import RewardAssigned, consequence_id
from tests.run.servers import Server

if TYPE_CHECKING:
    from typing import NoReturn

    from tests.run.conftest import House


EXAMPLE = Path(__file__).parents[1] / "examples" / "node-rule"
NPM_SECONDS = 100
CYCLES = 40
PARTS = "rewards:\n  parts:\n    plainness: {weight: 0.1, deadline: 60}\n"


@pytest.fixture(scope="module")
def packages(needs: Callable[[str, str], None], lacking: Callable[[str], NoReturn]) -> None:
    """What the example needs, as its lock file says."""
    for program in ("node", "npm"):
        needs(program, "install nodejs and npm")
    if not (EXAMPLE / "node_modules" / ".package-lock.json").exists():
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(command, cwd=EXAMPLE, capture_output=True, text=True, timeout=NPM_SECONDS)
        if done.returncode:
            lacking(f"npm ci in {EXAMPLE} failed: {done.stderr[-500:]}")


@pytest.fixture
def node(packages: None, house: House) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """`node()`: the example beside the run of this home, or where it is told."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*place: str) -> subprocess.Popen[bytes]:
        command = ["node", str(EXAMPLE / "rule.js"), *(place or [str(house.home)])]
        output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(command, env={"PATH": os.environ["PATH"]}, **output))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def component(row: dict[str, Any]) -> dict[str, Any]:
    [found] = [score for score in row["scores"] if score["component"] == "plainness"]
    return dict(found)


def test_a_rule_in_node_completes_each_experience_once_though_it_is_killed(
    house: House, node: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """Killed and started again it goes on; made to read all from the start again it doubles nothing."""
    house.home.mkdir()
    (house.home / "conch.yaml").write_text(PARTS)
    live = house.begin("--cycles", str(CYCLES), "--script", house.endless(), interval=0.2)
    live.until(lambda: (house.home / "run.json").exists(), "the run's address")

    first = node()
    live.recorded(5)
    first.kill()
    first.wait()
    house.conch("consumer", "forget", "plainness", "--yes")
    second = node()
    assert live.ended() == 0, live.told()
    _, last_words = second.communicate(timeout=30)
    assert second.returncode == 3
    assert re.fullmatch(rb"plainness: the bus at nats://\S+ is gone[^\n]*\n", last_words)
    assert "part plainness (asks for weight 0.1) from outside, scored by plainness\n" in live.said

    rows = house.cycles()
    assert len(rows) == CYCLES
    assert {component(row)["status"] for row in rows} == {"scored"}
    assert {(row["complete"], row["coverage"]) for row in rows} == {(True, 1.0)}
    assert {component(row)["weight"] for row in rows} == {0.1}
    said = [json.loads(line)["event"] for line in facts(house, "reward.assigned")]
    ours = Counter(event["causationid"] for event in said if event["data"]["scorer"] == "plainness")
    acts = [json.loads(line)["event"]["id"] for line in facts(house, "action.taken")]
    assert ours == Counter(acts)
    ids = {event["id"] for event in said if event["data"]["scorer"] == "plainness"}
    assert ids == {consequence_id(act, "plainness", "1", RewardAssigned) for act in acts}


def test_on_a_server_that_tells_users_apart_it_has_one_of_its_own(
    house: House, node: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """As `conch bus permissions` prints it, it scores."""
    house.conch("init")
    settings, keys = house.home / "conch.yaml", house.home / "keys"
    settings.write_text(PARTS)
    (tmp_path / "users.conf").write_text(house.conch("bus", "permissions"))
    (tmp_path / "server.conf").write_text(f'jetstream {{ store_dir: "{tmp_path}" }}\ninclude "users.conf"\n')
    server = Server(tmp_path / "server", "-c", str(tmp_path / "server.conf"))
    run_user = {"CONCH_BUS__URL": server.url, "CONCH_BUS__NKEY": str(keys / "run.nk")}
    settings.write_text("")
    house.run("--cycles", "1", "--script", house.endless(), **run_user)  # makes the stream
    settings.write_text(PARTS)

    scorer = node(server.url, str(keys / "plainness.nk"))
    live = house.run("--cycles", "2", "--script", house.endless(), **run_user)
    places = json.loads(house.conch("consumer", "list", "--json", **run_user))["consumers"]
    scorer.send_signal(signal.SIGTERM)
    _, last_words = scorer.communicate(timeout=30)
    server.close()

    assert (scorer.returncode, last_words) == (0, b"")
    assert [component(row)["status"] for row in live.rows] == ["scored"] * 2
    assert [one["acknowledged"] > 0 for one in places if one["name"] == "plainness"] == [True]


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["HERE/home"], 3, "there is no run in progress at HERE/home: conch run starts one"),
        (["nats://127.0.0.1:1"], 3, "the bus at nats://127.0.0.1:1 does not let it in (connection refused)"),
        (["nats://127.0.0.1:1", "HERE/my.nk"], 2, "HERE/my.nk holds no key (ENOENT"),
        (["nats://127.0.0.1:1", "--schemas", "HERE"], 2, "--schemas names the directory they are in"),
        (["--schema", "HERE"], 2, "Unknown option '--schema'"),
    ],
)
def test_what_it_is_given_and_cannot_use_is_a_sentence(
    tmp_path: Path, arguments: list[str], status: int, says: str
) -> None:
    """2 for what it was given, 3 for a bus that is not there; one line, no stack."""
    given = [one.replace("HERE", str(tmp_path)) for one in arguments]

    assert_ends(EXAMPLE / "rule.js", given, status, says.replace("HERE", str(tmp_path)))


@pytest.mark.usefixtures("packages")
def test_a_copy_of_it_says_what_it_lacks(tmp_path: Path) -> None:
    """Its packages, then the contracts; told where these are, it goes on to the bus."""
    for name in ("rule.js", "package.json"):
        shutil.copy(EXAMPLE / name, tmp_path)
    nobody, copy = "nats://127.0.0.1:1", tmp_path / "rule.js"
    contracts = str(EXAMPLE.parents[2] / "schemas" / "json")

    assert_ends(copy, [nobody], 2, "its packages are not here: npm ci installs them")
    (tmp_path / "node_modules").symlink_to(EXAMPLE / "node_modules")
    assert_ends(copy, [nobody], 2, "--schemas names the directory they are in")
    assert_ends(copy, [nobody, "--schemas", contracts], 3, "does not let it in")


def assert_ends(script: Path, arguments: list[str], status: int, says: str) -> None:
    """The script ends with that status and one line that says so."""
    done = subprocess.run(["node", str(script), *arguments], capture_output=True, text=True, timeout=30)
    assert done.returncode == status, done.stderr
    assert done.stderr.startswith("plainness: ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def facts(house: Any, kind: str) -> list[str]:
    return str(house.conch("bus", "tail", "--kind", kind, "--after", "0", "--json")).splitlines()
