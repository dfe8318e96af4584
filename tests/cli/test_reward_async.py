"""The example of an async rule, over recorded acts and a real service."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from conch.cli.common import CommonOptions
from conch.cli.reward.new import TEMPLATE
from conch.cli.reward.trying import try_
from conch.errors import CheckError

EXAMPLE = str(Path(__file__).parents[1] / "examples" / "friendliness.py")
ACTS = TEMPLATE / "actions.jsonl"


class Service(BaseHTTPRequestHandler):
    """Finds everything half friendly, but for those who would rather talk, whom it cannot answer."""

    def do_POST(self) -> None:
        text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"]
        self.send_response(500 if "would rather" in text else 200)
        self.end_headers()
        self.wfile.write(b'{"score": 0.5}')

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The service, where the example looks for it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    monkeypatch.setenv("FRIENDLINESS_URL", f"http://127.0.0.1:{server.server_port}/score")
    yield
    server.shutdown()
    serving.join()
    server.server_close()


async def test_an_async_rule_is_awaited(service: None, common: CommonOptions, printed: Callable[[], str]) -> None:
    """What the service says is the score; what it cannot say is an error of that act alone."""
    with pytest.raises(CheckError, match="1 of 5 scores of friendliness could not be made: HTTPStatusError"):
        await try_(EXAMPLE, replay=ACTS, common=replace(common, json=True))

    [tested] = json.loads(printed())["rules"]
    assert [one["status"] for one in tested["scores"]] == ["scored"] * 4 + ["error"]
    assert tested["mean"] == 0.5


async def test_without_its_service_it_scores_nothing(
    common: CommonOptions, printed: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error each, never a zero."""
    monkeypatch.setenv("FRIENDLINESS_URL", "http://127.0.0.1:1/score")

    with pytest.raises(CheckError, match="5 of 5 scores of friendliness could not be made: ConnectError"):
        await try_(EXAMPLE, replay=ACTS, common=replace(common, json=True))

    assert json.loads(printed())["rules"][0]["mean"] is None
