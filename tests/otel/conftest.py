"""A collector that takes OTLP over HTTP and decodes it, one agent's facts, and the service between them."""

from __future__ import annotations

import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from conch.bus.memory import MemoryBus
from conch.config import Settings
from conch.consumer import ServiceContext, follow
from conch.consumer.operations import export
from conch.processes.messages import ConsumerReport
from conch.text import cut
from conch_schemas import (
    ActionDecided,
    ActionTaken,
    CycleReflected,
    Event,
    RewardAssigned,
    Score,
    ThoughtFormed,
    action_id,
    cycle_event_id,
    encode,
    source_of,
    subject_of,
    traceparent_of,
)
from conch_services.otel import service as module
from conch_services.otel.service import OtelService
from tests.hosted import hosted

UID = str(uuid.uuid5(uuid.NAMESPACE_URL, "otel"))
SECRET = "what was said in confidence"


def of_cycle(kind: type[Event], cycle: int, at: float, agent: str = "echo", **data: Any) -> Any:
    """A fact of a cycle, `at` seconds after noon."""
    action = action_id(UID, cycle)
    identity = cycle_event_id(action, kind)
    return kind.model_validate(
        {
            "id": identity,
            "source": source_of(agent, UID),
            "agent": agent,
            "cycle": cycle,
            "action_id": action,
            "subject": action,
            "traceparent": traceparent_of(action, identity),
            "time": f"2026-11-20T12:00:{at:09.6f}Z",
            "policy": "p1",
        }
        | data
    )


def cycle_facts(cycle: int = 1, *, status: str = "success", reflection: str = SECRET) -> list[Event]:
    """A cycle that thinks 1 s, decides 2 s, works 0.5 s and reflects 1 s: from noon on."""
    action = {"kind": "TOOL", "valid": True, "tool": "shell", "args": {"command": SECRET}}
    outcome = {"status": status, "output": cut(SECRET), "ms": 500}
    return [
        of_cycle(
            ThoughtFormed, cycle, 1.0, thought=cut(SECRET), need="growth", pressing={}, model="m-1", ms=1000,
            usage={"input_tokens": 10, "output_tokens": 20},
        ),
        of_cycle(
            ActionDecided, cycle, 3.0, messages=[{"role": "user", "content": SECRET}], raw=SECRET, raw_length=1,
            raw_sha256="", action=action, model="m-1", finish_reason="stop", ms=2000,
            usage={"input_tokens": 100, "output_tokens": 200},
        ),
        of_cycle(
            ActionTaken, cycle, 3.5, action=action, raw=SECRET, raw_length=1, raw_sha256="", outcome=outcome, needs={},
            model="m-1", ms={"think": 1000, "decide": 2000, "act": 500},
            usage={"input_tokens": 110, "output_tokens": 220},
        ),
        of_cycle(
            CycleReflected, cycle, 4.5, reflection=reflection, sleep=0, ms=1000,
            usage={"input_tokens": 1, "output_tokens": 2} if reflection else {},
        ),
    ]  # fmt: skip


def reward(act: Event, scorer: str = "reward", **values: float | None) -> RewardAssigned:
    """A scorer's word on an act: a value for each component, None where it could not score."""
    scores = tuple(
        Score(
            component=name, value=value, range=(-1, 1), status="error" if value is None else "scored",
            explanation=SECRET, scorer=scorer, version="1",
        )
        for name, value in values.items()
    )  # fmt: skip
    return follow(act, RewardAssigned, consumer=scorer, version="1", scorer=scorer, scores=scores)


class Collector:
    """What a backend would hold: spans and events by their ids, so that twice is once, as backends do."""

    def __init__(self, port: int = 0) -> None:
        self.status = 200
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.received: list[Any] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.requests.append((self.path, {name.lower(): text for name, text in self.headers.items()}))
                if collector.status == 200:
                    collector._take(self.path, body)
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def _take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.received += [span for scope in group.scope_spans for span in scope.spans]
        elif path == "/v1/logs":
            for told in ExportLogsServiceRequest.FromString(body).resource_logs:
                self.received += [record for scope in told.scope_logs for record in scope.log_records]

    @property
    def spans(self) -> list[Any]:
        """Every span once, in the order of their beginnings."""
        found = {(one.trace_id, one.span_id): one for one in self.received if hasattr(one, "name")}
        return sorted(found.values(), key=lambda span: (span.start_time_unix_nano, -span.end_time_unix_nano))

    @property
    def events(self) -> list[Any]:
        """Every event once."""
        records = [one for one in self.received if not hasattr(one, "name")]
        return list({attributes(one)["log.record.uid"]: one for one in records}.values())

    def close(self) -> None:
        """Nobody answers any more."""
        self._server.shutdown()
        self._server.server_close()


def attributes(one: Any) -> dict[str, Any]:
    """A span's or an event's, as plain values."""
    return {each.key: _plain(each.value) for each in one.attributes}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(one) for one in value.array_value.values]
    return getattr(value, kind)


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


@pytest.fixture
async def bus() -> AsyncIterator[MemoryBus]:
    """A bus with nothing on it."""
    async with MemoryBus() as bus:
        yield bus


async def publish(bus: MemoryBus, events: Sequence[Event]) -> None:
    """Put facts on the bus, also ones that were there before."""
    for event in events:
        bus.forget_ids()
        await bus.publish(subject_of(event), encode(event), id=event.id)


class Running(Protocol):
    """Runs the exporting service."""

    def __call__(
        self, endpoint: str, report: Callable[..., None] = lambda **_: None, **otel: Any
    ) -> AbstractAsyncContextManager[OtelService]:
        """While entered; `otel`: more of that section of the settings."""


@pytest.fixture
def running(bus: MemoryBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    """Runs the service on the bus while entered; left, it is told to stop, and has stopped."""
    monkeypatch.setattr(module, "SEND_SECONDS", 0.01)
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(export, "REST_SECONDS", 0.001)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")

    def run(
        endpoint: str, report: Callable[[ConsumerReport], None] = lambda _: None, **otel: Any
    ) -> AbstractAsyncContextManager[OtelService]:
        settings = Settings.model_validate({"otel": {"endpoint": endpoint} | otel, "mind": {"kind": "openai"}})
        return hosted(OtelService(ServiceContext(settings, tmp_path, report)), bus)

    return run
