"""The outbound bridge: every event of the stream to the MQTT broker of `edge.bridge`, in order, at QoS 1.

The stream is the spool. What the broker has not acknowledged waits there, and the position of the bridge, stored as it
moves, moves on with the acknowledgements: nothing is lost while a broker is away, and an event that is sent again after
a crash is the same event with the same id.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import deque
from dataclasses import dataclass

import aiomqtt

from conch.bus import Bus, ReceivedEvent, SharedSubscription, StreamSubscription
from conch.consumer import ConsumerSpec, ServiceContext
from conch.consumer.group import take_position
from conch.consumer.runtime import ConsumerCounts
from conch.errors import UsageError
from conch.log import get_logger
from conch.processes import ConsumerWaits
from conch.tasks import OwnedTasks, ungrouped
from conch_schemas import EVENTS, ContractViolationError, type_of
from conch_services.mqtt.discovery import RetainedMessage
from conch_services.mqtt.link import BrokerLink
from conch_services.mqtt.presence import AgentPresence, status
from conch_services.mqtt.topics import fact_topic, status_topic
from conch_services.mqtt.wire import BrokerConnection, BrokerRefusalError

log = get_logger(__name__)

BATCH = 256
"""Facts taken from the stream at a time."""
REST_SECONDS = 0.02
"""Seconds between two batches: events are this much late at the broker, and acts are scored sooner for it."""
SAVE_SECONDS = 0.2
"""Seconds between two writes of the position: what the broker acknowledged since is sent again after a crash."""
STATUS_SECONDS = 1.0
"""Seconds between two statuses of an agent."""
LAST_SECONDS = 3.0
"""Time for the broker to acknowledge what is in hand when the run ends; the rest waits on the stream."""
LOST_SECONDS, PATIENCE_SECONDS, END_SECONDS = 1.0, 5.0, 30.0
"""At the end of a run: a broker that is away for the first, or acknowledges nothing for the second, is not waited for;
and none is for longer than the last."""
BREAKS = 3
"""Connections that break with the same event first in line, in a row and without an acknowledgement in between, after
which that event is the cause: a broker of MQTT 3.1.1 reacts so to an event that is too large for it."""
SOON_SECONDS = 2.0
"""A connection that breaks later than this did not break of what was sent first."""

SPEC = ConsumerSpec("mqtt", "1", (), lambda _: None)
_KNOWN = frozenset(kind.TYPE for kind in EVENTS)


@dataclass(eq=False)
class _OutgoingFact:
    """An event with its topic, to be sent."""

    arrived: ReceivedEvent
    topic: str | None
    """None: it is none, and is passed over."""


@dataclass
class _InFlightFact:
    """An in-flight event, and the broker's acknowledgement."""

    fact: _OutgoingFact
    answer: asyncio.Future[None] | None
    """None: nothing was sent."""


class MqttService:
    """See `conch.consumer.services.Service`. Its place is a key of the bus's bucket, like a consumer's."""

    name = "mqtt"

    def __init__(self, context: ServiceContext) -> None:
        edge, host = context.settings.edge, context.settings.agent
        if edge.bridge is None:
            raise UsageError("edge.bridge names no MQTT broker: set it to mqtt://host in conch.yaml")
        self.tally = ConsumerCounts()
        self._report = context.report
        will = aiomqtt.Will(status_topic(host), status(host, "offline"), qos=1, retain=True)
        self._link = BrokerLink(edge, "bridge", will=will, report=self._waits)
        self._presence = AgentPresence(host, edge.discovery)
        self._stop = asyncio.Event()
        self._subscription: StreamSubscription | None = None
        self._waiting: deque[_OutgoingFact] = deque()
        """Taken from the stream and not yet the broker's, in order."""
        self._taken = self._done = 0
        """The last that was taken; everything up to `_done` is the broker's, or was passed over."""
        self._moved = self._asked = 0.0
        """When the broker last acknowledged something, or something began to wait for it; when `handled` was asked."""
        self._breaks = 0
        self._forbidden: set[str] = set()
        """Types of events that the broker refused on this connection: each is reported once."""

    def _waits(self, why: str) -> None:
        self._report(ConsumerWaits(consumer=self.name, why=why))

    @property
    def handled(self) -> int | None:
        """Everything up to this sequence is with the broker; None: a run's end need not wait for the broker any longer.

        It is asked when a run ends.
        """
        now = time.monotonic()
        self._asked = self._asked or now
        gone = self._link.trouble and now - self._link.since > LOST_SECONDS
        stuck = self._waiting and now - self._moved > PATIENCE_SECONDS
        if gone or stuck or now - self._asked > END_SECONDS:
            return None
        if self._subscription is None or self._waiting or self._subscription.given > self._taken:
            return self._done
        return self._subscription.seen

    @property
    def busy(self) -> bool:
        """Never: nothing here waits for its time."""
        return False

    async def run(self, shared_events: SharedSubscription, stop: asyncio.Event) -> None:
        """Send events until `stop`; then what is in hand is finished as far as the broker is there, and the position
        stored.

        Raises FencedError when another bridge of this stream took over. Cancelled, it ends at once.
        """
        self._stop = stop
        self._place = await take_position(shared_events.bus, SPEC)
        self._taken = self._done = self._place.seq
        await self._presence.remember(shared_events.bus)
        async with shared_events.subscribe(None, after=self._done) as self._subscription:
            log.info("mqtt.started", broker=self._link.address, after=self._done)
            with ungrouped():
                await self._bridge(shared_events.bus)
        await self._report_what_waits(shared_events.bus)

    async def _bridge(self, bus: Bus) -> None:
        over = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._saves(bus, over), name="conch.mqtt.save")
            linked = group.create_task(self._link.keep(self._live), name="conch.mqtt.link")
            await self._stop.wait()
            if self._link.connected:  # then it ends by itself
                await asyncio.wait([linked], timeout=2 * LAST_SECONDS)
            linked.cancel()
            await asyncio.wait([linked])
            over.set()

    # -- while there is a connection ---------------------------------------------------------------------------------

    async def _live(self, wire: BrokerConnection) -> None:
        """Send what waits, then what comes, until stopped. Cancelled when the connection is lost."""
        self._forbidden.clear()
        for retained in self._presence.everything():
            await self._keep(wire, retained)
        if self._breaks >= BREAKS:
            self._skip(self._waiting[0], f"{BREAKS} times the broker hung up at it: it may be too large for it")
            self._settled(self._waiting[0])
        first, begun = next(iter(self._waiting), None), time.monotonic()
        handed: asyncio.Queue[_InFlightFact] = asyncio.Queue()
        try:
            async with OwnedTasks() as tasks:
                handing = tasks.start(self._hand(wire, handed), name="conch.mqtt.hand")
                settling = tasks.start(self._settle(handed), name="conch.mqtt.settle")
                telling = tasks.start(self._statuses(wire), name="conch.mqtt.statuses")
                stopped = tasks.start(self._stop.wait(), name="conch.mqtt.stop")
                await asyncio.wait([handing, settling, telling, stopped], return_when=asyncio.FIRST_COMPLETED)
                for task in (handing, settling, telling):
                    if task.done():
                        task.result()  # none of them ends but by an error
                handing.cancel()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LAST_SECONDS):
                        await handed.join()
                        await asyncio.wait([await self._keep(wire, retained) for retained in self._presence.farewell()])
        except asyncio.CancelledError:
            same = first is not None and self._waiting and self._waiting[0] is first
            self._breaks = self._breaks + 1 if same and time.monotonic() - begun < SOON_SECONDS else 0
            raise

    async def _hand(self, wire: BrokerConnection, handed: asyncio.Queue[_InFlightFact]) -> None:
        assert self._subscription is not None
        again = tuple(self._waiting)  # what the connection before this one left
        while True:
            for fact in again:
                await self._send(wire, fact, handed)
                if self._breaks:
                    await handed.join()  # one at a time: which is it that the broker hangs up at?
            if len(again) < BATCH:
                await asyncio.sleep(REST_SECONDS)
            again = tuple(self._take(arrived) for arrived in await self._subscription.get(BATCH))

    def _take(self, arrived: ReceivedEvent) -> _OutgoingFact:
        if self._taken and arrived.seq > self._taken + 1:
            lost = arrived.seq - self._taken - 1
            self.tally.failures += lost
            log.error("mqtt.given_up", facts=lost, why="bus.keep holds no more of what the MQTT broker has not had")
        self._taken = arrived.seq
        fact = _OutgoingFact(arrived, fact_topic(arrived.subject) if _is_fact(arrived) else None)
        if not self._waiting:
            self._moved = time.monotonic()
        self._waiting.append(fact)
        return fact

    async def _send(self, wire: BrokerConnection, fact: _OutgoingFact, handed: asyncio.Queue[_InFlightFact]) -> None:
        if fact.topic is None:
            handed.put_nowait(_InFlightFact(fact, None))
            return
        for retained in self._presence.learn(fact.arrived):
            await self._keep(wire, retained)
        handed.put_nowait(_InFlightFact(fact, await wire.send(fact.topic, fact.arrived.data)))

    async def _settle(self, handed: asyncio.Queue[_InFlightFact]) -> None:
        while True:
            one = await handed.get()
            if one.answer is None:
                self.tally.failures += 1
                log.warning("mqtt.no_fact", seq=one.fact.arrived.seq, subject=one.fact.arrived.subject[:200])
            else:
                try:
                    await one.answer
                    self.tally.handled += 1
                    log.debug("mqtt.sent", seq=one.fact.arrived.seq, action_id=_action_of(one.fact.arrived))
                except BrokerRefusalError as error:
                    self._refused(one.fact, error)
            self._settled(one.fact)
            handed.task_done()

    def _settled(self, fact: _OutgoingFact) -> None:
        assert self._waiting[0] is fact
        self._waiting.popleft()
        self._done, self._moved, self._breaks = fact.arrived.seq, time.monotonic(), 0

    def _refused(self, fact: _OutgoingFact, error: BrokerRefusalError) -> None:
        kind = fact.arrived.subject.split(".", 3)[3]
        if kind not in self._forbidden:
            self._skip(fact, str(error))
        else:
            self.tally.failures += 1
        if error.forbidden:
            self._forbidden.add(kind)

    def _skip(self, fact: _OutgoingFact, why: str) -> None:
        self.tally.failures += 1
        arrived = fact.arrived
        log.error("mqtt.skipped", seq=arrived.seq, topic=fact.topic, bytes=len(arrived.data), why=why)

    async def _statuses(self, wire: BrokerConnection) -> None:
        while True:
            await asyncio.sleep(STATUS_SECONDS)
            for retained in self._presence.changed():
                await self._keep(wire, retained)

    async def _keep(self, wire: BrokerConnection, retained: RetainedMessage) -> asyncio.Future[None]:
        """Send a retained message; one that is refused is not missed by the facts."""
        answer = await wire.send(retained.topic, retained.payload, retain=True)
        answer.add_done_callback(lambda answer: _report_refused(retained.topic, answer))
        return answer

    # -- the position ------------------------------------------------------------------------------------------------

    async def _saves(self, bus: Bus, over: asyncio.Event) -> None:
        """Save at intervals until `over`, and then once more. Never cancelled in a write: the next would find its own
        as another's."""
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SAVE_SECONDS):
                    await over.wait()
            if (done := self._done) > self._place.seq:
                await self._place.save(done)

    async def _report_what_waits(self, bus: Bus) -> None:
        left = (await bus.state()).last - self._done
        if left > 0:
            why = self._link.trouble or f"the MQTT broker {self._link.address} is slow"
            log.warning("mqtt.left", facts=left, why=why)
            self._waits(f"{left} facts are left on the stream for the next run: {why}")
        log.info("mqtt.stopped", at=self._done, **vars(self.tally))


def _is_fact(arrived: ReceivedEvent) -> bool:
    """Whether it is an event on its own subject; an unknown type is checked by its envelope."""
    kind = type_of(arrived.subject)
    try:
        return arrived.event is not None
    except ContractViolationError:
        if kind in _KNOWN:
            return False
    try:
        envelope = json.loads(arrived.data)
        return bool(
            envelope["type"] == f"conch.v1.{kind}"
            and envelope["agent"] == arrived.agent
            and isinstance(envelope["id"], str)
        )
    except (ValueError, LookupError, TypeError, RecursionError):
        return False


def _action_of(arrived: ReceivedEvent) -> str | None:
    return arrived.event.action_id if arrived.is_event else None


def _report_refused(topic: str, answer: asyncio.Future[None]) -> None:
    if not answer.cancelled() and (error := answer.exception()) is not None:
        log.warning("mqtt.not_kept", topic=topic, why=str(error))
