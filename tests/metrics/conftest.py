"""Facts made by hand, and a service that counts them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

import pytest
from prometheus_client.parser import text_string_to_metric_families as read_plain
from prometheus_client.samples import Sample

from conch.bus.memory import MemoryBus
from conch.config import Settings
from conch.consumer import ServiceContext
from conch.rewards.watch import WatchState
from conch.text import cut
from conch_schemas import (
    ActionTaken,
    Event,
    ExperienceRecorded,
    ScoredPart,
    action_id,
    cycle_event_id,
    encode,
    source_of,
    subject_of,
)
from conch_services.metrics.counting import EventCounter, WatchedFigures
from conch_services.metrics.instruments import Instruments
from conch_services.metrics.service import MetricsService
from tests.hosted import hosted

UID = "6f3f0d1e-56a0-4a3f-9c6b-0a8f3f1f1c11"
TRACE = "0af7651916cd43dd8448eb211c80319c"

_REPLY: dict[str, Any] = {
    "raw": "TOOL: shell()",
    "action": {"kind": "TOOL", "valid": True, "tool": "shell", "args": {}},
    "outcome": {"status": "success", "output": cut("")},
    "model": "test",
    "ms": {"think": 20.0, "ground": 2.0, "decide": 30.0, "act": 40.0},
}


def make(kind: type[Event], *, agent: str = "echo", cycle: int = 0, id: str | None = None, **data: Any) -> Any:
    """One fact of a cycle; an act with its derived id, anything else with one of its own, unless one is given."""
    action = action_id(UID, cycle)
    envelope = {
        "id": id or (cycle_event_id(action, kind) if kind is ActionTaken else str(uuid.uuid4())),
        "source": source_of(agent, UID),
        "agent": agent,
        "cycle": cycle,
        "action_id": action,
        "subject": action,
        "traceparent": f"00-{TRACE}-b7ad6b7169203331-01",
    }
    return kind.model_validate(envelope | data)


def make_act(
    *, kind: str = "TOOL", valid: bool = True, tool: str = "shell", status: str = "success", **data: Any
) -> ActionTaken:
    """One act; a successful call of `shell` unless said otherwise."""
    action = {"kind": kind, "valid": valid, "tool": tool if kind == "TOOL" else None}
    outcome = {"status": status, "output": cut("")}
    reply = _REPLY | {"action": action, "outcome": outcome, "raw_length": 13, "raw_sha256": "", "needs": {}}
    act: ActionTaken = make(ActionTaken, **reply | {"tools": ("shell", "git")} | data)
    return act


def part(component: str, value: float | None = None, status: str = "scored", scorer: str = "reward") -> ScoredPart:
    """One line of an experience's scores."""
    return ScoredPart.model_validate(
        {
            "component": component,
            "value": value,
            "weight": 0.2,
            "status": status,
            "explanation": "",
            "scorer": scorer,
            "version": "1",
        }
    )


def make_experience(*scores: ScoredPart, seq: int = 1, revision: int = 1, **data: Any) -> ExperienceRecorded:
    """One experience with these scores."""
    joined = {
        "seq": seq,
        "revision": revision,
        "scores": scores,
        "acted_at": "2026-01-01T00:00:00Z",
        "total": 0.4,
        "breakdown": (),
        "coverage": 1.0,
        "complete": True,
        "weights": "w1",
    }
    experience: ExperienceRecorded = make(ExperienceRecorded, **_REPLY | joined | data)
    return experience


class Board:
    """Counts facts and reads the metrics back."""

    def __init__(self, **settings: Any) -> None:
        self.instruments = Instruments()
        self.counting = EventCounter(Settings.model_validate(settings), self.instruments)

    def count(self, *events: Event, at: float = 1_767_225_600.0) -> None:
        """Take facts; `at` is 2026-01-01 UTC unless said otherwise."""
        for event in events:
            self.counting.count(event, at)

    def watch(self, states: Mapping[str, WatchState]) -> None:
        """Take what the watchers know, by agent."""
        seen = WatchedFigures()
        for agent, state in states.items():
            self.counting.see(agent, state, seen)
        self.counting.set_watched(seen)

    def value(self, name: str, **labels: str) -> float | None:
        """A sample, or None when there is none."""
        return next((sample.value for sample in self._samples(name) if sample.labels == labels), None)

    def labels(self, name: str, label: str) -> set[str]:
        """The values of a label among the samples of this name."""
        return {sample.labels[label] for sample in self._samples(name)}

    def scrape(self) -> bytes:
        """As OpenMetrics."""
        return self.instruments.text(openmetrics=True)

    def _samples(self, name: str) -> Iterator[Sample]:
        families = read_plain(self.instruments.text(openmetrics=False).decode())
        return (sample for family in families for sample in family.samples if sample.name == name)


@pytest.fixture
def board() -> Board:
    """Metrics of a process that has just begun."""
    return Board()


@pytest.fixture
async def bus() -> AsyncIterator[MemoryBus]:
    """A bus with nothing on it."""
    async with MemoryBus() as bus:
        yield bus


async def publish(bus: MemoryBus, *events: Event) -> None:
    """Put facts on the bus, also ones that were there before."""
    for event in events:
        bus.forget_ids()
        await bus.publish(subject_of(event), encode(event), id=event.id)


async def counted(service: MetricsService, events: int) -> None:
    """Until the service has met that many facts, repetitions included."""
    async with asyncio.timeout(30):
        while service.tally.handled + service.tally.duplicates < events:
            await asyncio.sleep(0)


class Running(Protocol):
    """Runs the metrics service."""

    def __call__(self, port: int | None = 0, **sections: Any) -> AbstractAsyncContextManager[MetricsService]:
        """While entered, at this port (0: a free one, None: not served); `sections` of the settings."""


@pytest.fixture
def running(bus: MemoryBus, tmp_path: Path) -> Running:
    """Runs the service on the bus while entered; on a free port unless one is named."""

    def run(port: int | None = 0, **sections: Any) -> AbstractAsyncContextManager[MetricsService]:
        settings = Settings.model_validate({"metrics": {"port": port}} | sections)
        return hosted(MetricsService(ServiceContext(settings, tmp_path)), bus)

    return run
