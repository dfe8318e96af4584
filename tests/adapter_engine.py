"""A stand-in for an engine that loads adapters while it runs: vLLM's API, and replies that differ by adapter.

`python -m tests.adapter_engine PORT` runs it as a process, for tests that kill it; port 0 is a free one, and
the address is its first line.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from conch_schemas import PromptMessage

BASE = "tiny"
"""Name of its base model."""
WEIGHTS = "adapter_model.safetensors"


def mark_of(folder: Path | None) -> str:
    """The word by which the replies under an adapter are known: of its weights."""
    return "base" if folder is None else hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()[:12]


def reply_to(messages: list[dict[str, str]], mark: str) -> str:
    """The reply of the model under the adapter of this mark."""
    asked = hashlib.sha256(json.dumps([one["content"] for one in messages]).encode()).hexdigest()[:8]
    return f"DO_NOTHING: {mark} rests at {asked}"


def replies(messages: tuple[PromptMessage, ...], folder: Path) -> tuple[str, str]:
    """The replies of the base and under an adapter."""
    said = [{"role": one.role, "content": one.content} for one in messages]
    return reply_to(said, mark_of(None)), reply_to(said, mark_of(folder))


@dataclass
class AdapterEngine:
    """The engine. Its fields may be changed while it serves."""

    loaded: dict[str, Path] = field(default_factory=dict)
    """Adapters by the name that they are served as."""
    asked: list[str] = field(default_factory=list)
    """The model of each request for a completion."""
    applies: bool = True
    """Whether a reply is that of the adapter; False: it lists the adapter and applies nothing."""
    serves_base: bool = False
    """Whether it replies as the base to names that it does not know."""
    loads: bool = True
    """Whether it takes adapters."""
    forgets: bool = False
    """Whether it loses all adapters as it replies as the base, and takes none again."""
    url: str = ""

    @contextmanager
    def serving(self, port: int = 0) -> Iterator[Self]:
        """Entered, it listens at `url`."""
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(*engine.models())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                path = self.path.removeprefix("/v1/")
                if path == "chat/completions":
                    self._answer(*engine.complete(body))
                elif path == "load_lora_adapter":
                    self._answer(*engine.load(body))
                else:
                    engine.loaded.pop(body["lora_name"], None)
                    self._answer(200, {})

            def _answer(self, status: int, body: Any) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def models(self) -> tuple[int, Any]:
        """The list of models: the base and what is loaded."""
        names = [{"id": BASE, "object": "model"}]
        names += [{"id": name, "object": "model", "root": str(path), "parent": BASE} for name, path in
                  self.loaded.items()]  # fmt: skip
        return 200, {"object": "list", "data": names}

    def load(self, body: dict[str, Any]) -> tuple[int, Any]:
        """Load an adapter."""
        name, path = body["lora_name"], Path(body["lora_path"])
        if not self.loads:
            return 500, {"error": {"message": "no room for an adapter", "code": 500}}
        if name in self.loaded:
            return 400, {"error": {"message": f"The lora adapter '{name}' has already been loaded.", "code": 400}}
        self.loaded[name] = path
        return 200, f"Success: LoRA adapter '{name}' added successfully."

    def complete(self, body: dict[str, Any]) -> tuple[int, Any]:
        """A completion."""
        name = body["model"]
        self.asked.append(name)
        if self.forgets and name == BASE:
            self.loaded.clear()
            self.loads = False
        if name != BASE and name not in self.loaded and not self.serves_base:
            return 404, {"error": {"message": f"The model `{name}` does not exist.", "code": 404}}
        folder = self.loaded.get(name) if self.applies else None
        said = reply_to(body["messages"], mark_of(folder))
        return 200, {
            "model": name if name in self.loaded else BASE,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 40, "completion_tokens": 9},
        }


if __name__ == "__main__":
    with AdapterEngine().serving(int(sys.argv[1])) as serving:
        sys.stdout.write(f"{serving.url}\n")
        sys.stdout.flush()
        sys.stdin.read()
