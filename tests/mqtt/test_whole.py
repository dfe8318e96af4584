"""Whole runs of an agent that hears sensors and tells devices, and of one that is listened to."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiomqtt
import pytest
import yaml

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.mqtt.conftest import Broker, Hub


CONCH = str(Path(sys.executable).with_name("conch"))
THOUGHT = "The kitchen is 30 °C warm; front_door is open."
REPLY = 'TOOL: device(name="light", value="on")'


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`conch run` of a home with this section `edge`, thinking and doing the same again and again."""
    made: list[subprocess.Popen[str]] = []

    def start(edge: dict[str, Any]) -> subprocess.Popen[str]:
        (tmp_path / "script.jsonl").write_text(f"{json.dumps({'thought': THOUGHT, 'reply': REPLY})}\n" * 5000)
        config = tmp_path / "conch.yaml"
        config.write_text(yaml.safe_dump({"edge": edge, "tools": {"sandbox": "off"}}))
        script = ("--script", str(tmp_path / "script.jsonl"), "--interval", "0.1")
        arguments = (CONCH, "run", "--home", str(tmp_path / "home"), "--config", str(config), *script)
        log = (tmp_path / "said").open("w")
        made.append(subprocess.Popen(arguments, stdout=log, stderr=log, text=True, env=os.environ))
        log.close()
        return made[-1]

    yield start
    for process in made:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        process.kill()


def facts(hub: Any, kind: str) -> list[dict[str, Any]]:
    """The data of what the hub heard of a kind."""
    return [json.loads(one)["data"] for one in hub.payloads(f"conch/echo/{kind}")]


def prompts(hub: Any) -> list[str]:
    """What the mind was asked in each decision that the hub heard of."""
    return [fact["messages"][0]["content"] for fact in facts(hub, "action/decided")]


async def test_an_agent_hears_its_sensors_and_tells_its_devices(
    broker: Broker, hub: Hub, run: Callable[..., subprocess.Popen[str]], until: Until
) -> None:
    """What a sensor said refutes or verifies the thought; a command that succeeded has reached the broker."""
    hub.say("home/kitchen", b'{"t": 21.5}', retain=True)
    hub.say("home/door", b"open", retain=True)
    senses = {"kitchen": {"topic": "home/kitchen", "path": "t", "unit": "°C"}, "front_door": {"topic": "home/door"}}
    light = {"topic": "home/light/set", "payloads": ["on", "off"]}

    run({"bridge": broker.url, "senses": senses, "actuators": {"light": light}})
    await until(lambda: any(len(fact["claims"]) == 2 for fact in facts(hub, "thought/grounded")), 60)
    await until(lambda: any(fact["outcome"]["status"] == "success" for fact in facts(hub, "action/taken")), 60)

    grounded = next(fact for fact in facts(hub, "thought/grounded") if len(fact["claims"]) == 2)
    await until(lambda: any("kitchen: 21.5 °C, heard " in asked for asked in prompts(hub)), 60)
    assert {(claim["about"], claim["verdict"]) for claim in grounded["claims"]} == {
        ("sense", "refuted"),
        ("sense", "verified"),
    }
    assert "device(name: light, value)" in facts(hub, "policy/set")[0]["system_prompt"]
    assert set(hub.payloads("home/light/set")) == {b"on"}


async def test_a_run_is_listened_to_at_the_embedded_server(
    run: Callable[..., subprocess.Popen[str]], tmp_path: Path, until: Until
) -> None:
    """It says where; whoever connects there hears each cycle; commands reach the run as ever."""
    process = run({"listen": "127.0.0.1:0", "listen_password": "x"})
    state, said = tmp_path / "home" / "run.json", tmp_path / "said"
    await until(lambda: state.exists() and json.loads(state.read_text())["mqtt"], 60)
    address = json.loads(state.read_text())["mqtt"]

    port = int(address.rsplit(":", 1)[1])
    async with asyncio.timeout(60), aiomqtt.Client("127.0.0.1", port, username="edge", password="x") as hub:
        await hub.subscribe("conch/v1/echo/action/taken")
        message = await anext(hub.messages)
    paused = subprocess.run([CONCH, "pause", "--home", str(tmp_path / "home")], check=False)

    assert json.loads(message.payload)["data"]["thought"] == THOUGHT
    assert f"{address} · MQTT clients hear conch/v1/… there, as edge" in said.read_text()
    assert (process.poll(), paused.returncode) == (None, 0)


def test_a_run_whose_listening_port_is_taken_ends_with_a_sentence(
    run: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """Before anything is thought."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]

        status = run({"listen": f"127.0.0.1:{port}"}).wait(60)

    said = (tmp_path / "said").read_text()
    assert status == 1
    assert said.endswith(
        f"conch: port {port} of 127.0.0.1 is taken: name another one in edge.listen (port 0: a free one)\n"
    )
