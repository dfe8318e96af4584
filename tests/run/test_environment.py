"""Runs in an environment whose proxies, certificates or key log no client can be made with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.run.servers import REPLY, Endpoint

if TYPE_CHECKING:
    from tests.run.conftest import House

BROKEN = {
    "ALL_PROXY": "socks4://127.0.0.1:9",
    "HTTPS_PROXY": "://",
    "http_proxy": "ftp://127.0.0.1:9",
    "SSL_CERT_FILE": "/no/such/file.pem",
    "SSL_CERT_DIR": "/no/such/folder",
    "SSLKEYLOGFILE": "/no/such/folder/keys.log",
    "REQUESTS_CA_BUNDLE": "/no/such/bundle.pem",
}
MIND = {
    "CONCH_MIND__KIND": "openai",
    "CONCH_MIND__BASE_URL": "https://model.invalid/v1",
    "CONCH_MIND__MODEL": "tiny",
}
CLIENTS = {
    "mind": (MIND, "SSL_CERT_FILE"),
    "webhook": (
        {
            "CONCH_ALERTS__WEBHOOK": "https://alerts.invalid/",
            "CONCH_ALERTS__SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        },
        "ALL_PROXY",
    ),
    "otel": ({"CONCH_OTEL__ENDPOINT": "https://otel.invalid"}, "REQUESTS_CA_BUNDLE"),
    "http": ({"CONCH_TOOLS__HTTP__ALLOW": '["example.org"]'}, "SSLKEYLOGFILE"),
    "mcp": ({"CONCH_TOOLS__MCP": json.dumps({"far": {"url": "https://mcp.invalid/mcp"}})}, "SSL_CERT_DIR"),
}
"""The settings by which a run has a client for another machine, and a variable that it reads."""


@pytest.fixture(autouse=True)
def _nothing_set(house: House) -> None:
    """The environment of the tests may name certificates and proxies of its own."""
    for name in [name for name in house.environment if name in BROKEN or name.lower().endswith("_proxy")]:
        del house.environment[name]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """A well endpoint on a free port of this machine."""
    with Endpoint().serving() as server:
        yield server


def test_an_endpoint_on_this_machine_needs_nothing_of_the_environment(house: House, endpoint: Endpoint) -> None:
    """Whatever it names, the cycles are those of any run."""
    rows = house.run("--cycles", "2", **endpoint.environment | BROKEN).rows

    assert [row["raw"] for row in rows] == [REPLY, REPLY]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_cannot_be_made_ends_the_run_with_the_name_of_the_variable(house: House, client: str) -> None:
    """One sentence and exit code 3, without a restart; `conch doctor` says the same."""
    settings, variable = CLIENTS[client]
    without = {"CONCH_UI__ENABLED": "false"}
    environment = settings | without | {variable: BROKEN[variable]}

    sentence = house.refused("run", "--cycles", "5000", "--interval", "0.1", status=3, **environment)
    found = json.loads(house.conch("doctor", "--json", status=3, **environment))["checks"]

    assert sentence.startswith(variable)
    [problem] = {check["says"] for check in found if check["name"] == "environment"}
    assert problem == sentence
    assert not [file.name for file in (house.home / "logs").glob("*.log") if "process.died" in file.read_text()]


def test_a_judge_that_cannot_be_asked_ends_the_run_with_the_name_of_the_variable(house: House) -> None:
    """As every other client does."""
    rubric = house.directory / "tone.md"
    rubric.write_text("1 for a friendly act, 0 for any other.\n")
    house.home.mkdir()
    (house.home / "conch.yaml").write_text(
        "rewards:\n  judges:\n    tone:\n"
        f"      {{rubric: {rubric}, weight: 0.1, base_url: 'https://judge.invalid/v1', model: tiny}}\n"
    )

    sentence = house.refused("run", "--cycles", "5000", status=3, SSL_CERT_FILE=BROKEN["SSL_CERT_FILE"])

    assert sentence.startswith("SSL_CERT_FILE: ")
