"""A bridge that runs, facts to put on its bus, and what came of them at the hub."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

from conch.bus import Bus, MemoryBus, shared_subscription
from conch.config import Settings
from conch.consumer import ServiceContext
from conch.processes.messages import ConsumerReport
from conch.retry import Backoff
from conch_schemas import Action, Event, ExperienceRecorded, NeedsChanged, encode, subject_of
from conch_services.mqtt import link as links
from conch_services.mqtt import service as services
from conch_services.mqtt.service import MqttService
from tests.conftest import MakeAct
from tests.mqtt.conftest import Hub


class Bridging(Protocol):
    """Runs bridges."""

    def __call__(
        self, url: str, *, agent: str = "echo", dies: bool = False, **edge: Any
    ) -> AbstractAsyncContextManager[MqttService]:
        """One to the broker at `url` while entered; left, it ends in order, or is cancelled where it `dies`. `edge`:
        more of that section of the settings."""


class MakeExperience(Protocol):
    """Makes experiences."""

    def __call__(self, cycle: int = 1, total: float = 0.5, agent: str = "echo") -> ExperienceRecorded:
        """That of a cycle."""


class MakeNeedsChanged(Protocol):
    """Makes changes of needs."""

    def __call__(self, cycle: int = 1, agent: str = "echo", **after: float) -> NeedsChanged:
        """That of a cycle; `after`: levels by need."""


@pytest.fixture(autouse=True)
def _in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries to connect follow each other at once, statuses their cause."""
    monkeypatch.setattr(links, "BROKER", Backoff((0.01,)))
    monkeypatch.setattr(services, "STATUS_SECONDS", 0.05)


@pytest.fixture
async def bus() -> AsyncIterator[MemoryBus]:
    """A bus with nothing on it."""
    async with MemoryBus() as bus:
        yield bus


@pytest.fixture
def reports() -> list[ConsumerReport]:
    """What the bridge told the run."""
    return []


@pytest.fixture
def bridging(bus: MemoryBus, tmp_path: Path, reports: list[ConsumerReport]) -> Bridging:
    """Runs a bridge to a broker while entered; left, it ends in order, or is cancelled (`dies`)."""

    @asynccontextmanager
    async def run(url: str, *, agent: str = "echo", dies: bool = False, **edge: Any) -> AsyncIterator[MqttService]:
        settings = Settings.model_validate({"agent": agent, "edge": {"bridge": url, **edge}})
        service = MqttService(ServiceContext(settings, tmp_path, reports.append))
        stop = asyncio.Event()
        async with shared_subscription(bus) as shared_events:
            running = asyncio.create_task(service.run(shared_events, stop))
            try:
                yield service
                stop.set()
                if not dies:
                    async with asyncio.timeout(30):
                        await running
            finally:
                running.cancel()
                await asyncio.wait([running])

    return run


async def put(bus: Bus, *events: Event) -> None:
    """Publish."""
    for event in events:
        await bus.publish(subject_of(event), encode(event), id=event.id)


def ids(hub: Hub, topic: str = "conch/echo/action/taken") -> list[str]:
    """Ids of the events that came on a topic, up to now."""
    hub.level()
    return [json.loads(payload)["id"] for payload in hub.payloads(topic)]


@pytest.fixture
def recorded(act: MakeAct) -> MakeExperience:
    """Make the experience of a cycle."""

    def make(cycle: int = 1, total: float = 0.5, agent: str = "echo") -> ExperienceRecorded:
        of = act(cycle, agent)
        parts: dict[str, Any] = {"scores": (), "breakdown": (), "coverage": 1.0, "complete": True, "revision": 1}
        return ExperienceRecorded(
            source=of.source,
            agent=agent,
            cycle=cycle,
            action_id=of.action_id,
            raw=of.raw,
            model=of.model,
            ms=of.ms,
            id=str(uuid.uuid5(uuid.NAMESPACE_URL, f"{agent}/{cycle}/{total}")),
            seq=cycle,
            acted_at="2026-01-01T00:00:00Z",
            action=Action(kind="DO_NOTHING", valid=True),
            outcome=of.outcome,
            total=total,
            weights="w1",
            **parts,
        )

    return make


@pytest.fixture
def needs_changed(act: MakeAct) -> MakeNeedsChanged:
    """Make a change of needs."""

    def make(cycle: int = 1, agent: str = "echo", **after: float) -> NeedsChanged:
        of = act(cycle, agent)
        return NeedsChanged(
            source=of.source,
            agent=agent,
            cycle=cycle,
            action_id=of.action_id,
            id=str(uuid.uuid5(uuid.NAMESPACE_URL, f"{agent}/{cycle}/{sorted(after.items())}")),
            before=after,
            after=after,
            most_pressing=next(iter(after)),
        )

    return make


def last_status(hub: Any, agent: str = "echo") -> Any:
    """The last status of an agent that came."""
    said = hub.payloads(f"conch/{agent}/status")
    return json.loads(said[-1]) if said else None
