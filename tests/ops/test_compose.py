"""ops/compose.yaml: its services do their work together, started here as processes of the same words; and its form."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jsonschema
import paho.mqtt.client as paho
import pytest

from conch.config import Settings
from conch.consumer.plugins.builtin import wanted_builtin
from tests.ops.containers import CONCH, OPS, PATIENCE, PROGRAMS, Containers, compose

SCHEMA = OPS.parent / "tests" / "data" / "compose-spec.json"
BY_ITSELF = {"nats", "mosquitto", "agent"}
"""Services that are started before the others."""


@pytest.fixture(scope="module")
def deployed(
    tmp_path_factory: pytest.TempPathFactory, needs: Callable[[str, str], None]
) -> Iterator[tuple[Containers, Path]]:
    """All of Conch's services, the broker and Prometheus, healthy; and what ops/prepare.py made for them."""
    needs("prometheus", "install prometheus")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
        needs("mosquitto", "install mosquitto")
        for name in [name for name in os.environ if name.startswith("CONCH_")]:
            patch.delenv(name)
        place = tmp_path_factory.mktemp("compose")
        for _ in range(2):
            subprocess.run([sys.executable, OPS / "prepare.py", place / "deployment"], check=True)
        running = Containers(place, place / "deployment")
        try:
            running.start("nats")
            running.start("mosquitto")
            running.healthy("nats")
            running.start("agent", CONCH_CYCLE__INTERVAL="0.2")
            running.healthy("agent")
            rest = [name for name in running.services if name not in BY_ITSELF]
            for name in rest:
                running.start(name)
            running.start("prometheus")
            for name in rest:
                running.healthy(name)
            yield running, place / "deployment"
        finally:
            running.kill()


def until(condition: Callable[[], Any], told: Callable[[], str] = str) -> Any:
    """What `condition` gives once it is something."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, told()
        time.sleep(0.1)
    return found


def conch(running: Containers, service: str, *command: str) -> Any:
    """A command in a service, as `docker compose exec` would run it."""
    done = subprocess.run(
        [PROGRAMS / "conch", *command, "--json"],
        env=os.environ | running.environment(service),
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout) if done.returncode == 0 else None


def fetched(address: str, **headers: str) -> Any:
    """A JSON document."""
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=10) as answer:
        return json.load(answer)


def variables(file: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in file.read_text().splitlines())


@pytest.mark.timeout(300)
def test_a_cycle_is_scored_recorded_and_witnessed_across_the_services(deployed: tuple[Containers, Path]) -> None:
    """Every part of its reward comes from another service; the chain of marks holds."""
    running, _ = deployed

    def scored() -> Any:
        rows = (conch(running, "cli", "cycle", "list", "--limit", "50") or {"cycles": ()})["cycles"]
        return [row for row in rows if row["complete"]]

    assert until(scored, lambda: running.said("store"))[0]["coverage"] == 1.0
    verified = until(lambda: conch(running, "cli", "mark", "verify"), lambda: running.said("witness"))
    assert verified["marks"] > 0


def test_the_agent_has_no_consumer_of_its_own_and_none_died(deployed: tuple[Containers, Path]) -> None:
    """Its process for consumers stays, without one, to trim the stream."""
    running, _ = deployed

    status = conch(running, "cli", "status")

    assert {(one["name"], one["state"], one["restarts"]) for one in status["processes"]} == {
        ("agent", "up", 0),
        ("consumers", "up", 0),
    }
    assert "stays down" not in running.said("agent")


def test_prometheus_scrapes_the_metrics_service(deployed: tuple[Containers, Path]) -> None:
    """With the scrape configuration of the file, cycles of the agent are counted there."""
    running, _ = deployed
    query = urlencode({"query": 'sum(conch_cycles_total{agent="echo"})'})

    def counted() -> Any:
        try:
            return fetched(f"http://127.0.0.1:{running.port('9090')}/api/v1/query?{query}")["data"]["result"]
        except OSError:
            return None

    [sample] = until(counted, lambda: running.said("prometheus"))
    assert float(sample["value"][1]) > 0


def test_the_dashboard_shows_the_cycles_to_who_has_its_token(deployed: tuple[Containers, Path]) -> None:
    """The token is that of the file of variables; the store is that of the volume."""
    running, deployment = deployed
    token = variables(deployment / "dashboard.env")["CONCH_UI__TOKEN"]
    address = f"http://127.0.0.1:{running.port('26624')}/api/v1/cycles"

    def shown() -> Any:
        return fetched(address, Authorization=f"Bearer {token}")["cycles"]

    assert until(shown, lambda: running.said("dashboard"))[0]["agent"] == "echo"
    with pytest.raises(urllib.error.HTTPError, match=r"40[13]"):
        fetched(address)


def test_the_agent_is_told_from_the_dashboard_though_each_part_may_say_its_own_alone(
    deployed: tuple[Containers, Path],
) -> None:
    """Paused and resumed, under the dashboard's key."""
    running, deployment = deployed
    token = variables(deployment / "dashboard.env")["CONCH_UI__TOKEN"]
    agent = f"http://127.0.0.1:{running.port('26624')}/api/v1/agents/echo"

    def state() -> str:
        return str(conch(running, "cli", "status")["agent"]["state"])

    for order, states in (("pause", ("paused",)), ("resume", ("running", "acting"))):
        asked = urllib.request.Request(f"{agent}/{order}", method="POST", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=10) as answer:
            assert answer.status < 300
        until(lambda states=states: state() in states, state)


def test_the_broker_is_handed_the_facts_and_lets_nobody_in_without_the_password(
    deployed: tuple[Containers, Path],
) -> None:
    """Under the user and the password that were made for it. A client that is refused asks again by itself."""
    running, deployment = deployed
    made, heard, refused = variables(deployment / "mqtt.env"), [], []
    clients = [paho.Client(paho.CallbackAPIVersion.VERSION2) for _ in range(2)]
    known, stranger = clients
    known.username_pw_set(made["CONCH_EDGE__USER"], made["CONCH_EDGE__PASSWORD"])
    known.on_connect = lambda client, *_: client.subscribe("conch/echo/experience/recorded")
    known.on_message = lambda _client, _data, message: heard.append(json.loads(message.payload))
    stranger.on_connect = lambda _client, _data, _flags, reason, _: refused.append(reason.is_failure)
    for client in clients:
        client.connect("127.0.0.1", int(running.port("1883")))
        client.loop_start()
    try:
        assert until(lambda: heard, lambda: running.said("mqtt"))[0]["agent"] == "echo"
        assert all(until(lambda: refused))
    finally:
        for client in clients:
            client.disconnect()
            client.loop_stop()


@pytest.mark.timeout(120)
def test_every_service_ends_in_order_within_its_grace(deployed: tuple[Containers, Path]) -> None:
    """On SIGTERM, as Docker stops them; the bus last. Behind all others in this file: nothing runs any more."""
    running, _ = deployed
    conchs = set(running.services)

    codes = running.stop()

    assert {name: code for name, code in codes.items() if name in conchs} == dict.fromkeys(conchs, 0)


def test_the_file_is_what_the_compose_specification_says() -> None:
    """Every key and type, by the specification's own schema."""
    jsonschema.Draft7Validator(json.loads(SCHEMA.read_text())).validate(compose())


def test_every_consumer_has_its_service_and_the_agent_runs_none() -> None:
    """All that a run with a broker hosts; each service has a key, reads health and starts again."""
    file = compose()
    wanted = set(wanted_builtin(Settings.model_validate({"edge": {"bridge": "mqtt://broker"}}), ()))
    commands = {name: one.get("command", []) for name, one in file["services"].items()}

    assert {command[1] for command in commands.values() if command[:1] == ["consume"]} == wanted
    assert set(commands["agent"][commands["agent"].index("--without") + 1].split(",")) == wanted
    for name in (*wanted, "agent"):
        [key] = [one["source"] for one in file["services"][name]["secrets"] if isinstance(one, dict)]
        assert key == f"{name}_key"


def test_every_service_that_stays_tells_of_its_health_and_starts_again() -> None:
    """And Conch's own run without a privilege, on a root that nobody can write."""
    for name, one in compose()["services"].items():
        if "profiles" in one:
            continue
        assert one["healthcheck"]["test"], name
        assert one["restart"] == "unless-stopped", name
        if one["image"].startswith(f"{CONCH}:"):
            assert (one["read_only"], one["cap_drop"]) == (True, ["ALL"]), name
            assert "no-new-privileges:true" in one["security_opt"], name


def test_what_it_names_is_there_and_no_image_floats() -> None:
    """Volumes, configs, secrets, services that are used are declared; the repository has its files; tags are exact."""
    file = compose()
    for name, one in file["services"].items():
        assert re.fullmatch(r"[a-z/-]+:v?\d+\.\d+\.\d+", one["image"]), name
        assert set(one.get("depends_on", ())) <= file["services"].keys(), name
        for kind in ("configs", "secrets"):
            used = {each if isinstance(each, str) else each["source"] for each in one.get(kind, ())}
            assert used <= file[kind].keys(), name
        for source in (each.split(":")[0] for each in one.get("volumes", ())):
            assert (OPS / source).exists() if source.startswith(".") else source in file["volumes"], (name, source)
    files = [one["file"] for kind in ("configs", "secrets") for one in file[kind].values()]
    assert all((OPS / each).exists() for each in files if not each.startswith("./deployment/"))


def test_only_loopback_is_published() -> None:
    """Whoever wants more says so."""
    published = [port for one in compose()["services"].values() for port in one.get("ports", ())]

    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_no_secret_stands_in_the_file() -> None:
    """A password or token comes from a file that the repository does not have."""
    words = [
        f"{key}={value}" for one in compose()["services"].values() for key, value in one.get("environment", {}).items()
    ]

    assert not [word for word in words if re.search(r"(?i)(password|token|secret)=", word)]
    assert (OPS / "deployment" / ".gitignore").read_text() == "*\n!.gitignore\n"
