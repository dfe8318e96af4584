"""What a broker that is away costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conch.bus import MemoryBus
from conch.processes.messages import ConsumerWaits
from conch_services.mqtt import service as services
from conch_services.mqtt import wire
from tests.mqtt.bridge.conftest import Bridging, ids, last_status, put

if TYPE_CHECKING:
    from tests.conftest import MakeAct, Until
    from tests.mqtt.conftest import Broker, Hub, Line


async def test_a_broker_that_is_away_loses_nothing(
    bus: MemoryBus, broker: Broker, hub: Hub, line: Line, bridging: Bridging, act: MakeAct, until: Until
) -> None:
    """What is published while the line is cut comes once it is back, in order and once."""
    acts = [act(cycle) for cycle in range(1, 301)]
    async with bridging(line.url) as bridge:
        await put(bus, *acts[:100])
        await until(lambda: bridge.handled == 100)

        await line.cut()
        await put(bus, *acts[100:])
        await until(lambda: bridge._link.trouble)
        await line.open()
        await until(lambda: bridge.handled == 300)

    assert ids(hub) == [one.id for one in acts]


async def test_a_line_that_is_cut_in_the_middle(
    bus: MemoryBus, broker: Broker, hub: Hub, line: Line, bridging: Bridging, act: MakeAct, until: Until
) -> None:
    """Cut again and again with facts on the wire, none is missing, and what comes twice is the same event."""
    acts = [act(cycle) for cycle in range(1, 1001)]
    async with bridging(line.url) as bridge:
        await put(bus, *acts)
        for upto in (100, 300, 500, 700):
            await until(lambda upto=upto: bridge._done >= upto)
            await line.cut()
            await line.open()
        await until(lambda: bridge._done == 1000)

    assert list(dict.fromkeys(ids(hub))) == [one.id for one in acts]
    assert len(set(hub.payloads("conch/echo/action/taken"))) == 1000
    assert len(ids(hub)) <= 1000 + 4 * wire.WINDOW


async def test_an_end_with_no_broker_is_not_waited_for(
    bus: MemoryBus,
    bridging: Bridging,
    act: MakeAct,
    until: Until,
    reports: list[ConsumerWaits],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run that ends with its broker away leaves the facts on the stream, and says how many and why."""
    monkeypatch.setattr(services, "LOST_SECONDS", 0.05)
    await put(bus, act(1), act(2))

    async with bridging("mqtt://127.0.0.1:1") as bridge:
        await until(lambda: bridge.handled is None)

    why = "the MQTT broker 127.0.0.1:1 cannot be reached: Connection refused"
    assert reports == [
        ConsumerWaits(consumer="mqtt", why=why),
        ConsumerWaits(consumer="mqtt", why=f"2 facts are left on the stream for the next run: {why}"),
    ]


async def test_a_broker_that_is_frozen_is_not_waited_for_long(
    bus: MemoryBus,
    broker: Broker,
    hub: Hub,
    bridging: Bridging,
    act: MakeAct,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that holds the connection and acknowledges nothing does not hold up the end."""
    for name, seconds in (("PATIENCE_SECONDS", 0.2), ("LAST_SECONDS", 0.1)):
        monkeypatch.setattr(services, name, seconds)
    async with bridging(broker.url) as bridge:
        await until(lambda: last_status(hub))
        broker.freeze()
        await put(bus, act(1))

        assert bridge.handled == 0
        await until(lambda: bridge.handled is None)


async def test_what_waits_is_said_and_that_it_is_over(
    bus: MemoryBus, broker: Broker, bridging: Bridging, until: Until, reports: list[ConsumerWaits]
) -> None:
    """The run hears why the broker is away, and once it is back."""
    broker.stop()
    async with bridging(broker.url):
        await until(lambda: reports)
        broker.start()
        await until(lambda: len(reports) == 2)

    assert "cannot be reached" in reports[0].why
    assert reports[1] == ConsumerWaits(consumer="mqtt", why="")
