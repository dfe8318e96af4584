"""Servers of one's own."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from conch.bus.server import find_binary

REPLY = "DO_NOTHING: as I was told"


class Server:
    """A nats-server that Conch did not start."""

    def __init__(self, directory: Path, *options: str) -> None:
        directory.mkdir()
        command = [find_binary(), "-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", str(directory), *options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ports = directory / f"nats-server_{self._process.pid}.ports"
        self.url = ""
        while not self.url:
            try:
                self.url = json.loads(ports.read_text())["nats"][0]
            except (OSError, ValueError):
                assert self._process.poll() is None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Endpoint(ThreadingHTTPServer):
    """An OpenAI-compatible endpoint; `plan` says what it does at each request, then it is well."""

    daemon_threads = True

    def __init__(self, model: Callable[[str], str] = lambda prompt: REPLY) -> None:
        """`model`: the reply to the text of a question."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = model
        self.plan: list[str] = []
        self.served: list[str] = []
        self.released = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"
        self.environment = {
            "CONCH_MIND__BASE_URL": self.url,
            "CONCH_MIND__KIND": "openai",
            "CONCH_MIND__TIMEOUT": "2",
            "CONCH_MIND__CONSTRAIN": "off",
        }

    @contextmanager
    def serving(self) -> Iterator[Self]:
        """Entered, it answers."""
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self.released.set()
            self.shutdown()
            self.server_close()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        what = self.server.plan.pop(0) if self.server.plan else "well"
        self.server.served.append(what)
        if what == "hangs":
            self.server.released.wait(60)
            what = "well"
        if what == "page":
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<html>Welcome to our router</html>")
            return
        if what.isdecimal():
            self.send_response(int(what))
            self.send_header("retry-after", "0.05")
            self.send_header("content-length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self._say(
            {"choices": [{"index": 0, "delta": {"content": self.server.model(asked["messages"][-1]["content"])}}]}
        )
        if what == "drips":
            self.server.released.wait(60)
            what = "well"
        if what == "well":
            self._say({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            self._say({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10}})
            self.wfile.write(b"data: [DONE]\n\n")

    def _say(self, chunk: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    def log_message(self, *_: object) -> None:
        """Nothing: the test says what went wrong."""
