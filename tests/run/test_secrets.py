"""What opens the bus and the mind is in nothing that a run says or leaves."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.bus.server import find_binary

if TYPE_CHECKING:
    from tests.run.conftest import House


SECRETS = {
    "password": "hush-password-19d4",
    "CONCH_MIND__API_KEY": "hush-key-77ab",
    "CONCH_EDGE__PASSWORD": "hush-broker-c0de",
}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Of a server with a user, the password in front of it."""
    (tmp_path / "server").mkdir()
    place = json.dumps(str(tmp_path / "server"))
    users = f"authorization {{ user: me, password: {SECRETS['password']} }}"
    text = f'listen: "127.0.0.1:-1"\nports_file_dir: {place}\njetstream {{ store_dir: {place} }}\n{users}\n'
    (tmp_path / "server.conf").write_text(text)
    process = subprocess.Popen([find_binary(), "-c", tmp_path / "server.conf"], stderr=subprocess.DEVNULL)
    ports = tmp_path / "server" / f"nats-server_{process.pid}.ports"
    while True:
        try:
            address = json.loads(ports.read_text())["nats"][0]
            break
        except (OSError, ValueError):
            assert process.poll() is None
    yield address.replace("//", f"//me:{SECRETS['password']}@")
    process.kill()
    process.wait()


def test_no_secret_is_said_or_left(house: House, url: str) -> None:
    """At the finest level of the log: of a run, of the commands beside it, of one that is refused; in no file of the
    home, and on no command line."""
    environment = {name: secret for name, secret in SECRETS.items() if name.startswith("CONCH_")}
    environment |= {"CONCH_BUS__URL": url, "CONCH_LOG__LEVEL": "debug"}
    wrong = environment | {"CONCH_BUS__URL": url.replace("//me:", "//me:not-")}

    live = house.begin("--script", house.endless(), interval=0.05, page=True, **environment)
    live.recorded(2)
    said = [json.dumps(house.status()), *(" ".join(process.cmdline()) for process in house.processes())]
    for command in (("status", "--json"), ("config", "show"), ("doctor",)):
        beside = house.start(*command, **environment)
        beside.ended()
        said.append(beside.told())
    live.signal(signal.SIGTERM)
    assert live.ended() == 0
    said.append(live.told())
    said.append(house.refused("run", "--cycles", "1", status=3, **wrong))
    said.append(house.conch("doctor", status=3, **wrong))

    written = "\n".join(said) + "".join(
        file.read_bytes().decode(errors="replace") for file in house.home.rglob("*") if file.is_file()
    )

    assert "refused the user that bus.url names" in written
    assert '"level":"debug"' in written
    assert not [secret for secret in SECRETS.values() if secret in written]


def test_a_planted_secret_is_in_no_file_that_a_run_writes(house: House) -> None:
    """A key of the settings and one of the environment, in a file, a reply and a person's words: not in the stream, the
    store, the notes, the prompts or the logs."""
    planted = {"CONCH_MIND__API_KEY": "planted-of-settings-77ab", "SHOP_TOKEN": "planted-of-environment-19d4"}
    house.live_through(1)
    (house.workspace / "keys.env").write_text("\n".join(planted.values()))
    both = " ".join(planted.values())
    script = house.script(
        'TOOL: filesystem(operation="read", path="keys.env")',
        f'TOOL: notes(operation="remember", text="{both}")',
        f"nothing valid: {both}",
    )
    live = house.run("--script", script, **planted, CONCH_LOG__LEVEL="debug")

    shown = "".join(house.conch("cycle", "show", str(cycle), "--json") for cycle in range(1, 4))
    written = "".join(file.read_bytes().decode(errors="replace") for file in house.home.rglob("*") if file.is_file())
    assert shown.count("[secret hidden by Conch]") > 5
    assert not [secret for secret in planted.values() if secret in written + shown + live.told()]


def test_a_secret_that_is_told_while_no_agent_runs_is_masked(house: House) -> None:
    """The command publishes the message itself then."""
    house.live_through(1)
    house.conch("tell", "my key is planted-of-settings-77ab", CONCH_MIND__API_KEY="planted-of-settings-77ab")

    written = b"".join(file.read_bytes() for file in house.home.rglob("*") if file.is_file())
    assert b"my key is [secret hidden by Conch]" in written
    assert b"planted-of-settings" not in written
