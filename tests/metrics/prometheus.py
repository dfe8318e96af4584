"""A Prometheus of the tests' own, and a mind at an endpoint for it to be told of."""

from __future__ import annotations

import itertools
import json
import re
import socket
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

SECONDS = 30
"""For one answer."""


class Prometheus:
    """Debian's, which scrapes one address every second and knows these rules."""

    def __init__(self, directory: Path, scraped: str, rules: Path) -> None:
        directory.mkdir()
        target = urllib.parse.urlsplit(scraped).netloc
        every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        job = {"job_name": "conch", "static_configs": [{"targets": [target]}]}
        config = {"global": every, "rule_files": [str(rules)], "scrape_configs": [job]}
        (directory / "prometheus.yml").write_text(json.dumps(config))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._address = f"http://127.0.0.1:{port}/api/v1"
        self.log = directory / "log"
        command = ["prometheus", f"--config.file={directory / 'prometheus.yml'}"]
        command += [f"--storage.tsdb.path={directory / 'data'}", f"--web.listen-address=127.0.0.1:{port}"]
        command += ["--enable-feature=exemplar-storage"]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory)

    def asks(self, path: str, **parameters: str) -> Any:
        """The data of an answer; None while it is not there yet. Fails on a query that it cannot read."""
        assert self._process.poll() is None, self.log.read_text()
        query = urllib.parse.urlencode({name.replace("match", "match[]"): text for name, text in parameters.items()})
        try:
            with urllib.request.urlopen(f"{self._address}/{path}?{query}", timeout=SECONDS) as answer:
                return json.loads(answer.read())["data"]
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.BAD_REQUEST:
                pytest.fail(f"{parameters}: {error.read().decode()}")
            return None
        except OSError:
            return None

    def figures(self, query: str) -> list[tuple[Mapping[str, str], float]]:
        """The series that a query finds now, with their labels; none that is not a number."""
        data = self.asks("query", query=query)
        found = [(one["metric"], float(one["value"][1])) for one in (data or {"result": ()})["result"]]
        return [(labels, figure) for labels, figure in found if figure == figure]

    def values(self, query: str) -> list[str]:
        """Of a `label_values(SELECTOR, LABEL)`, as Grafana asks it."""
        told = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
        assert told is not None, query
        return list(self.asks(f"label/{told[2]}/values", match=told[1]) or ())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class _Handler(BaseHTTPRequestHandler):
    replies: Iterator[str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for delta, finish in (({"content": next(self.replies)}, None), ({}, "stop")):
            self._say({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        self._say({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10}})
        self.wfile.write(b"data: [DONE]\n\n")

    def _say(self, chunk: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    def log_message(self, *_: object) -> None:
        """Nothing: the test says what went wrong."""


@contextmanager
def mind(replies: Sequence[str]) -> Iterator[dict[str, str]]:
    """An OpenAI-compatible endpoint that says these, one after the other and again; the environment that names it."""
    handler = type("Handler", (_Handler,), {"replies": itertools.cycle(replies)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield {"CONCH_MIND__KIND": "openai", "CONCH_MIND__BASE_URL": url, "CONCH_MIND__MODEL": "tide"}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
