"""The inbound bridge: messages of sensors at the broker become events, and the agent's commands reach devices.

It has a connection of its own, so that no command waits behind events. While the broker is away, sensors' messages are
lost (but for retained ones), and every command is refused at once.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime

from conch.bus import Bus, OutgoingMessage, SharedSubscription
from conch.consumer import ServiceContext
from conch.consumer.runtime import ConsumerCounts
from conch.errors import UsageError
from conch.home import Home
from conch.log import get_logger
from conch.processes import ConsumerWaits
from conch.tasks import race
from conch.tools import ACTUATE
from conch_schemas import PolicySet, decode, encode, subject_filter, subject_of
from conch_services.mqtt.actuators import Actuators
from conch_services.mqtt.link import BrokerLink
from conch_services.mqtt.sensors import Measurement, SensorInbox, fact
from conch_services.mqtt.topics import status_topic
from conch_services.mqtt.wire import BrokerConnection, BrokerRefusalError

log = get_logger(__name__)


class InboundService:
    """See `conch.consumer.services.Service`. It reads no facts, and nobody need wait for it."""

    name = "devices"
    handled: int | None = None
    busy = False

    def __init__(self, context: ServiceContext) -> None:
        self._edge, self._report = context.settings.edge, context.report
        if self._edge.bridge is None:
            raise UsageError("edge.bridge names no MQTT broker: set it to mqtt://host in conch.yaml")
        self.tally = ConsumerCounts()
        self._home, self._host = Home(context.home), context.settings.agent
        self._senses, self._actuators = SensorInbox(self._edge.senses), Actuators(self._edge.actuators)
        self._link = BrokerLink(self._edge, "devices", heard=self._hear, report=self._troubled)
        self._news = asyncio.Event()
        self._agents: dict[str, str] = {}
        """UUIDs of the home's agents at the last read, by name."""

    @property
    def ready(self) -> bool:
        """Whether sensors are subscribed and devices can be reached now."""
        return self._actuators.ready

    async def run(self, shared_events: SharedSubscription, stop: asyncio.Event) -> None:
        """Run until `stop`. Readings that are not published by then are dropped: they came too soon after the one
        before."""
        async with AsyncExitStack() as stack:
            if self._edge.actuators:
                await stack.enter_async_context(shared_events.bus.serve(ACTUATE, self._actuators.answer))
            await race(
                {
                    "conch.devices.say": self._say(shared_events.bus),
                    "conch.devices.link": self._link.keep(self._live),
                    "conch.devices.stop": stop.wait(),
                }
            )
        refused = {f"{sense}/{reason}": count for (sense, reason), count in self._senses.refused.items()}
        log.info("devices.stopped", refused=refused, **vars(self.tally))

    async def _live(self, wire: BrokerConnection) -> None:
        """Hear and command by this connection, until it is lost or a command was not acknowledged."""
        for filter in self._senses.filters or (status_topic(self._host),):  # any answer shows that the broker is there
            try:
                await wire.subscribe(filter)
            except BrokerRefusalError as error:
                log.warning("sense.not_heard", filter=filter, why=str(error))
                self._report(ConsumerWaits(consumer=self.name, why=str(error)))
        await self._actuators.command(wire)

    def _troubled(self, why: str) -> None:
        self._actuators.trouble = why
        self._report(ConsumerWaits(consumer=self.name, why=why))

    # -- sensors' readings -------------------------------------------------------------------------------------------

    def _hear(self, topic: str, payload: bytes, kept: bool) -> None:
        if self._senses.hear(topic, payload, kept, datetime.now(UTC)):
            self._news.set()
        self.tally.failures = sum(self._senses.refused.values())

    async def _say(self, bus: Bus) -> None:
        """Publish the readings that are due. While the bus is away the newest of each sense waits."""
        while True:
            self._news.clear()
            messages = [one for measurement in self._senses.due() for one in await self._messages(bus, measurement)]
            if messages:
                await bus.publish_many(messages)
                self.tally.handled += len(messages)
                continue
            try:
                async with asyncio.timeout(self._senses.next):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _messages(self, bus: Bus, measurement: Measurement) -> list[OutgoingMessage]:
        settings = self._edge.senses[measurement.sense]
        hearing = await self._who_hears(bus, settings.agent)
        facts = [fact(measurement, settings, agent, agentuid) for agent, agentuid in hearing.items()]
        return [OutgoingMessage(subject_of(event), encode(event), event.id) for event in facts]

    async def _who_hears(self, bus: Bus, agent: str | None) -> dict[str, str]:
        """The UUIDs of the agents that receive a sense, by name. None is made here: on another machine than its home's
        an agent is known by its events."""
        name = agent or self._host
        if name not in self._agents:
            self._agents = self._home.agents()
        if name in self._agents:
            return self._agents if agent is None else {agent: self._agents[agent]}
        if (said := await bus.last(subject_filter(PolicySet, name))) is not None:
            return {name: decode(said.data).agentuid}
        log.warning("sense.nobody_hears", agent=name)
        return {}
