"""Whole runs beside a broker, and runs that know of none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.cli.common import open_bus
from conch.config import Settings
from conch.consumer.plugins.builtin import wanted_builtin
from conch.home import Home

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.mqtt.conftest import Broker, Hub, MakeHub


CONCH = Path(sys.executable).with_name("conch")


class Command:
    """`conch` on a home of this test's own, as a process."""

    def __init__(self, home: Path, *arguments: str, **variables: str) -> None:
        self._process = subprocess.Popen(
            [str(CONCH), *arguments, "--home", str(home)],
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stderr or ():
            self.said += line

    def end(self) -> tuple[int, str]:
        """Its exit status once it has ended, and what it wrote to stdout."""
        assert self._process.stdout is not None
        written = self._process.stdout.read()
        status = self._process.wait(60)
        self._reader.join(10)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        return status, written

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self.end()


@pytest.fixture
def conch(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    """Commands on one home."""
    made: list[Command] = []

    def start(*arguments: str, bridge: str = "") -> Command:
        made.append(Command(tmp_path / "home", *arguments, **({"CONCH_EDGE__BRIDGE": bridge} if bridge else {})))
        return made[-1]

    yield start
    for command in made:
        command.kill()


async def stream(home: Path) -> list[bytes]:
    """Every fact on a home's stream, in order."""
    async with open_bus(Home(home), Settings()) as bus:
        return [delivery.data async for delivery in bus.read(["conch.v1.>"])]


async def test_a_run_that_ends_by_itself_has_handed_over_every_fact(
    broker: Broker, hub: Hub, conch: Callable[..., Command], tmp_path: Path
) -> None:
    """After the last cycle the hub has what the stream has, in its order, and knows that the agent is gone."""
    status, written = conch("run", "--cycles", "2", "--interval", "0", "--json", bridge=broker.url).end()

    hub.level()
    statuses = [json.loads(one) for one in hub.payloads("conch/echo/status")]
    kept = ("conch/echo/status", "homeassistant/")
    assert status == 0
    assert [one.payload for one in hub.heard if not one.topic.startswith(kept)] == await stream(tmp_path / "home")
    assert statuses[-1]["state"] == "offline"
    assert statuses[-1]["reward"] == json.loads(written.splitlines()[-1])["total"]


def test_a_run_whose_broker_is_away_ends_and_the_next_hands_over(
    broker: Broker, make_hub: MakeHub, conch: Callable[..., Command]
) -> None:
    """What one run left on the stream the next one delivers, before its own."""
    broker.stop()
    first = conch("run", "--cycles", "1", "--interval", "0", bridge=broker.url)
    status, _ = first.end()
    broker.start()
    hub = make_hub(broker.port)

    second = conch("run", "--cycles", "1", "--interval", "0", bridge=broker.url)
    again, _ = second.end()

    hub.level()
    assert (status, again) == (0, 0), second.said
    assert "facts are left on the stream for the next run: the MQTT broker" in first.said
    assert [json.loads(one)["cycle"] for one in hub.payloads("conch/echo/experience/recorded")] == [0, 1]


async def test_status_says_what_the_bridge_waits_for(
    conch: Callable[..., Command], tmp_path: Path, until: Until
) -> None:
    """While a run goes on `conch status` tells why nothing reaches the broker."""
    run = conch("run", "--interval", "0.1", bridge="mqtt://127.0.0.1:1")
    await until(lambda: "mqtt waits" in run.said, 30.0)

    _, written = conch("status").end()

    assert "the MQTT broker 127.0.0.1:1 cannot be reached" in written


def test_the_bridge_alone_needs_a_broker(conch: Callable[..., Command]) -> None:
    """`conch consume mqtt` without edge.bridge is told what to set."""
    command = conch("consume", "mqtt")

    status, _ = command.end()

    assert status == 2
    assert "edge.bridge names no MQTT broker" in command.said


def test_without_a_broker_nothing_of_mqtt_is_loaded() -> None:
    """Neither the service nor aiomqtt is imported by a run that knows of no broker."""
    program = (
        "import sys; from conch.config import Settings; import conch.consumer.process;"
        "from conch.consumer.plugins.builtin import builtin_services, wanted_builtin;"
        "builtin_services(wanted_builtin(Settings(), ()));"
        "sys.exit(any(name.startswith(('aiomqtt', 'paho', 'conch_services.mqtt.')) for name in sys.modules))"
    )

    done = subprocess.run([sys.executable, "-c", program], check=False)

    assert done.returncode == 0


def test_a_bridge_that_is_skipped_is_not_wanted() -> None:
    """`--without mqtt --without devices` leaves both out, also where edge.bridge names a broker."""
    settings = Settings.model_validate({"edge": {"bridge": "mqtt://broker"}})

    assert "mqtt" in wanted_builtin(settings, ())
    assert "mqtt" not in wanted_builtin(settings, ("mqtt", "devices"))
