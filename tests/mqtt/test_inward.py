"""The bridge inward, at a real Mosquitto: sensors heard as facts, devices told at once or not at all."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import aiomqtt
import pytest

from conch.bus import Bus, MemoryBus, MemoryJournal, shared_subscription
from conch.config import Settings, ToolSettings
from conch.consumer import ServiceContext
from conch.errors import BusError
from conch.home import Home
from conch.tools import Notes, Sandbox, Toolbox, ToolContext
from conch.tools.device import ACTUATE, device_tools
from conch_schemas import Action, PolicySet, SenseMeasured, decode, encode, subject_of
from conch_services.mqtt.inbound import InboundService

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.mqtt.conftest import Broker, Hub, Line, MakeHub


SENSES = {
    "kitchen": {"topic": "home/+/climate", "path": "t", "unit": "°C", "every": 0.1},
    "door": {"topic": "home/door", "every": 0.1},
}
ACTUATORS = {
    "light": {"topic": "home/light/set", "payloads": ["on", "off"]},
    "blind": {"topic": "home/blind/set", "range": [0, 100], "retain": True},
}


class Inward:
    """The service on a bus of the test's own."""

    def __init__(self, home: Path, url: str, **edge: Any) -> None:
        self.home = Home(home)
        self.home.make()
        self.home.agentuid("echo")
        edge = {"bridge": url, "senses": SENSES, "actuators": ACTUATORS} | edge
        self.settings = Settings.model_validate({"edge": edge})
        self.journal, self.troubles = MemoryJournal(), []
        self.bus: Bus

    @asynccontextmanager
    async def runs(self) -> AsyncIterator[None]:
        context = ServiceContext(self.settings, self.home.path, lambda said: self.troubles.append(said.why))
        stop = asyncio.Event()
        async with MemoryBus(self.journal) as self.bus, shared_subscription(self.bus) as shared_events:
            self.service = InboundService(context)
            task = asyncio.create_task(self.service.run(shared_events, stop))
            try:
                yield
            finally:
                stop.set()
                await task

    async def there(self) -> bool:
        """Whether it is connected, and hears."""
        return self.service.ready

    def facts(self, sense: str) -> list[SenseMeasured]:
        events = [decode(delivery.data) for delivery in self.journal.events.values()]
        return [event for event in events if isinstance(event, SenseMeasured) and event.sense == sense]

    def values(self, sense: str) -> list[Any]:
        return [event.value for event in self.facts(sense)]

    async def tell(self, device: str, payload: str, *, seconds: float = 5.0) -> dict[str, Any]:
        body = {"device": device, "payload": payload, "until": time.time() + seconds}
        found: dict[str, Any] = json.loads(await self.bus.request(ACTUATE, json.dumps(body).encode(), timeout=10))
        return found


@pytest.fixture
def inward(tmp_path: Path) -> Callable[..., Inward]:
    """Make one for a broker's address."""
    return lambda url, **edge: Inward(tmp_path / "home", url, **edge)


async def test_what_sensors_say_becomes_facts(
    inward: Callable[..., Inward], broker: Broker, hub: Hub, until: Until
) -> None:
    """Value, unit, topic; garbage between them is counted and harms nothing."""
    made = inward(broker.url)

    async with made.runs():
        await until(made.there)
        for payload in (b"\xff\x00", b"{", b'{"t": NaN}', b"x" * 1_000_000, b'{"t": 21.5}'):
            hub.say("home/kitchen/climate", payload)
        hub.say("home/door", b"open")
        await until(lambda: made.facts("kitchen") and made.facts("door"))
        refused = made.service.tally.failures

    [fact], [door] = made.facts("kitchen"), made.facts("door")
    assert (fact.value, fact.unit, fact.topic, fact.kept) == (21.5, "°C", "home/kitchen/climate", False)
    assert (fact.agent, fact.agentuid) == ("echo", made.home.agentuid("echo"))
    assert (door.value, refused) == ("open", 4)


async def test_what_the_broker_keeps_is_heard_once_for_all_connections(
    inward: Callable[..., Inward], broker: Broker, hub: Hub, line: Line, until: Until
) -> None:
    """A connection that breaks brings the kept value again, and no second fact; what is new is heard."""
    hub.say("home/door", b"closed", retain=True)
    made = inward(line.url)

    async with made.runs():
        await until(lambda: made.facts("door"))
        await line.cut()
        await line.open()
        await until(lambda: made.troubles and made.troubles[-1] == "")
        await until(made.there)
        hub.say("home/door", b"open", retain=True)
        await until(lambda: len(made.facts("door")) > 1)

    assert [(one.value, one.kept) for one in made.facts("door")] == [("closed", True), ("open", False)]
    assert any("is lost" in why for why in made.troubles)


async def test_the_agents_that_a_sense_is_for_hear_it(
    inward: Callable[..., Inward], broker: Broker, hub: Hub, until: Until
) -> None:
    """All of the home, or the one that is named, also by a fact of its own; none is made for a name."""
    named = {"echo_2": "echo-2", "afar": "afar", "nobody": "nobody"}
    senses = {sense: {"topic": "own", "agent": agent} for sense, agent in named.items()}
    made = inward(broker.url, senses=senses | {"all": {"topic": "all"}})
    made.home.agentuid("echo-2")
    afar = PolicySet(id="1", source=f"conch/afar/{uuid4()}", agent="afar", mind="m", model="m", system_prompt="")

    async with made.runs():
        await made.bus.publish(subject_of(afar), encode(afar), id=afar.id)
        await until(made.there)
        hub.say("own", b"1")
        hub.say("all", b"1")
        await until(lambda: len(made.facts("all")) >= 2)

    assert {one.agent for one in made.facts("all")} == {"echo", "echo-2"}
    assert [one.agent for one in made.facts("echo_2")] == ["echo-2"]
    assert [one.source for one in made.facts("afar")] == [afar.source]
    assert made.facts("nobody") == []
    assert sorted(made.home.agents()) == ["echo", "echo-2"]


async def test_a_device_is_told_what_is_allowed_and_nothing_else(
    inward: Callable[..., Inward], broker: Broker, hub: Hub, until: Until
) -> None:
    """Success is the broker's acknowledgement; what is not in the settings never reaches it."""
    made = inward(broker.url)

    async with made.runs():
        await until(made.there)
        done = [await made.tell("light", "on"), await made.tell("blind", "50.0")]
        refused = [
            await made.tell(*command)
            for command in (("light", "explode"), ("blind", "101"), ("blind", "nan"), ("oven", "on"), ("home/+", "on"))
        ]
        garbage = [json.loads(await made.bus.request(ACTUATE, data, timeout=5)) for data in (b"\xff", b"[]", b"{}")]
        await until(lambda: len(hub.heard) == 2)

    assert done == [{"ok": True}] * 2
    assert [(one.topic, one.payload) for one in hub.heard] == [("home/light/set", b"on"), ("home/blind/set", b"50")]
    assert [one["error"] for one in refused] == [
        "light takes on, off, not 'explode'",
        "blind takes a number from 0 to 100, not '101'",
        "blind takes a number from 0 to 100, not 'nan'",
        "there is no device oven; there are light, blind",
        "there is no device home/+; there are light, blind",
    ]
    assert all("error" in one for one in garbage)


async def test_a_command_waits_for_a_connection_that_is_being_made(
    inward: Callable[..., Inward], broker: Broker, hub: Hub, until: Until, tmp_path: Path
) -> None:
    """The first act of a run may be a command: it is done when the connection stands, and is no failure."""
    made = inward(broker.url)
    settings = ToolSettings(sandbox="off", timeout=20)

    async with made.runs():
        tools = Toolbox(device_tools(made.settings.edge.actuators, made.bus.request))
        with Notes(tmp_path / "notes.db") as notes:
            context = ToolContext(tmp_path, Sandbox(settings), notes, settings)
            action = Action(kind="TOOL", valid=True, tool="device", args={"name": "light", "value": "on"})
            outcome = await tools.run(action, context)
        await until(lambda: hub.heard)

    assert (outcome.status, outcome.error) == ("success", None)
    assert hub.payloads("home/light/set") == [b"on"]


async def test_a_command_waits_no_longer_than_it_may_be_sent(
    inward: Callable[..., Inward], line: Line, until: Until
) -> None:
    """While a broker that says nothing is connected to, the refusal comes with the end of the command's time."""
    line.dead = True
    made = inward(line.url)

    async with made.runs():
        await until(lambda: line.swallowed)
        reply = await made.tell("light", "on", seconds=0.2)

    assert "light was not told: the MQTT broker is being connected to" in reply["error"]


async def test_a_command_that_is_late_or_has_no_broker_is_refused_and_not_kept(
    inward: Callable[..., Inward], broker: Broker, make_hub: MakeHub, until: Until
) -> None:
    """Nothing is sent once the broker is back."""
    made = inward(broker.url)

    async with made.runs():
        await until(made.there)
        late = await made.tell("light", "on", seconds=-1.0)
        broker.stop()
        await until(lambda: not made.service.ready and made.troubles)
        gone = await made.tell("light", "on")
        broker.start()
        hub = make_hub(broker.port)
        await until(made.there)
        again = await made.tell("light", "off")
        await until(lambda: hub.heard)

    assert "too late" in late["error"]
    assert "light was not told: the connection to the MQTT broker" in gone["error"]
    assert again == {"ok": True}
    assert hub.payloads("home/light/set") == [b"off"]


async def test_a_command_does_not_wait_for_a_device_at_the_broker(
    inward: Callable[..., Inward], broker: Broker, until: Until
) -> None:
    """A broker of MQTT 5 is told when to forget it; one that is kept on purpose, never."""
    made = inward(broker.url)
    newest, expiry = aiomqtt.ProtocolVersion.V5, []

    async with (
        made.runs(),
        asyncio.timeout(30),
        aiomqtt.Client("127.0.0.1", broker.port, protocol=newest, identifier="device") as device,
    ):
        await device.subscribe("home/+/set")
        await until(made.there)
        await made.tell("light", "on", seconds=30)
        await made.tell("blind", "1", seconds=30)
        for _ in range(2):
            message = await anext(device.messages)
            expiry.append(getattr(message.properties, "MessageExpiryInterval", None))

    assert (25 <= expiry[0] <= 30, expiry[1]) == (True, None)


async def test_a_command_that_is_not_acknowledged_is_told_to_be_uncertain(
    inward: Callable[..., Inward], broker: Broker, line: Line, until: Until
) -> None:
    """A line that went dead: nobody knows, the connection is given up, and nothing is sent again later."""
    made = inward(line.url)

    async with made.runs():
        await until(made.there)
        line.dead = True
        reply = await made.tell("light", "on", seconds=0.2)
        await until(lambda: not made.service.ready)

    assert reply["timeout"] is True
    assert "nobody knows whether light was told" in reply["error"]


async def test_a_command_under_way_when_the_connection_ends_is_uncertain_at_once(
    inward: Callable[..., Inward], broker: Broker, line: Line, until: Until
) -> None:
    """Its time need not run out."""
    made = inward(line.url)

    async with made.runs(), asyncio.timeout(30):
        await until(made.there)
        line.dead = True
        telling = asyncio.create_task(made.tell("light", "on", seconds=50))
        await until(lambda: line.swallowed)
        await line.cut()
        reply = await telling

    assert reply["timeout"] is True


async def test_without_devices_nobody_answers(inward: Callable[..., Inward], broker: Broker, until: Until) -> None:
    """No allow-list, no commands."""
    made = inward(broker.url, actuators={})

    async with made.runs():
        await until(made.there)
        with pytest.raises(BusError, match="nobody answers"):
            await made.tell("light", "on")
