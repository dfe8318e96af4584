"""Bridge and broker killed at random moments: every fact reaches the hub, and what comes twice is the same event."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conch.bus import Bus
from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch_schemas import Event, encode, subject_of

if TYPE_CHECKING:
    from conch.bus.server import EmbeddedServer
    from tests.conftest import MakeAct, Until
    from tests.mqtt.conftest import Broker, Hub, Line


CONCH = Path(sys.executable).with_name("conch")
TOPIC = "conch/echo/action/taken"
FACTS = 4000


async def publish(bus: Bus, events: Sequence[Event]) -> None:
    """One after the other."""
    for one in events:
        await bus.publish(subject_of(one), encode(one), id=one.id)


class Bridge:
    """`conch consume mqtt` as a process."""

    def __init__(self, home: Path, **settings: str) -> None:
        self._command = [str(CONCH), "consume", "mqtt", "--home", str(home)]
        self._environment = os.environ | settings
        self.log = home.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, env=self._environment, stdout=log, stderr=log)

    def end(self, how: signal.Signals) -> int:
        """Its exit status."""
        assert self._process is not None
        self._process.send_signal(how)
        return self._process.wait(20)


@pytest.fixture
async def bridge(nats_server: EmbeddedServer, line: Line, tmp_path: Path) -> AsyncIterator[Bridge]:
    """A bridge from the server to the line, running."""
    made = Bridge(
        tmp_path / "home",
        CONCH_BUS__URL=nats_server.url,
        CONCH_BUS__TOKEN=nats_server.token,
        CONCH_EDGE__BRIDGE=line.url,
    )
    made.start()
    yield made
    made.end(signal.SIGKILL)


@pytest.mark.torture
async def test_kills_of_bridge_and_broker_lose_nothing(
    nats_server: EmbeddedServer, broker: Broker, hub: Hub, line: Line, bridge: Bridge, act: MakeAct, until: Until
) -> None:
    """Killed four times each while facts flow, no id is missing at the hub, and none stands for two contents."""
    draw = random.Random(7)
    acts = [act(cycle) for cycle in range(1, FACTS + 1)]
    async with JetStreamBus(Access(nats_server.url, token=nats_server.token)) as bus, asyncio.TaskGroup() as group:
        group.create_task(publish(bus, acts))
        for turn in range(8):
            more = len(hub.heard) + draw.randint(1, FACTS // 15)
            await until(lambda more=more: len(hub.heard) >= more, 20.0)
            if turn % 2:
                bridge.end(signal.SIGKILL)
                bridge.start()
            else:
                broker.stop(signal.SIGKILL)
                await line.cut()
                hub.lost()
                broker.start()
                hub.listens()
                await line.open()
        await until(lambda: hub.payloads(TOPIC)[-1] == encode(acts[-1]), 30.0)

    hub.level()
    heard = hub.payloads(TOPIC)
    first = list(dict.fromkeys(heard))
    assert [json.loads(one)["id"] for one in first] == [one.id for one in acts]
    assert bridge.end(signal.SIGTERM) == 0
