"""The OpenTelemetry service: reads new events of every cycle, and sends them as traces."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import deque
from collections.abc import Sequence

from conch.bus import ReceivedEvent, SharedSubscription, StreamSubscription
from conch.config import Settings
from conch.consumer import ServiceContext
from conch.consumer.operations import FirstSightFilter, keep_taking
from conch.consumer.runtime import ConsumerCounts
from conch.errors import UsageError
from conch.log import get_logger
from conch.processes import ConsumerNote, ConsumerWaits
from conch.tasks import ungrouped
from conch_services.otel.exporter import EndpointUnreachableError, ExportRefusedError, OtlpExporter
from conch_services.otel.spans import FACTS, CycleSpan, ScoreEvent, TraceBuilder

log = get_logger(__name__)

BATCH = 256
"""Spans or evaluations sent at a time, and facts taken when the run ends."""
SEND_SECONDS = 1.0
"""Seconds between two exports, so that a cycle goes out as a few requests."""
AGAIN_SECONDS = 5.0
"""Before an endpoint that does not answer is tried again."""
LAST_SECONDS = 3.0
"""Time for the endpoint to take what is in hand when the run ends."""
POLL_SECONDS = 0.05
QUEUE_BYTES = 32 * 2**20
"""Size limit of the queue, as JSON; beyond, the oldest is dropped, and that is reported."""


class ExportQueue:
    """A bounded queue of what is to be sent, the oldest first.

    Not the SDK's BatchSpanProcessor and BatchLogRecordProcessor (1.45 was evaluated): they take a batch out of their
    queue before they export it, so a batch that the endpoint did not take is lost; their queues are bounded by count,
    not by bytes; and their shutdown waits for an endpoint that hangs.
    """

    def __init__(self) -> None:
        self._queue: deque[tuple[CycleSpan | ScoreEvent, int]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, told: Sequence[CycleSpan | ScoreEvent]) -> int:
        """Behind the others; what is too much then is dropped from the front: how many."""
        for one in told:
            size = len(json.dumps(dict(one.attributes)))
            self._queue.append((one, size))
            self._bytes += size
        dropped = 0
        while self._bytes > QUEUE_BYTES:
            self._bytes -= self._queue.popleft()[1]
            dropped += 1
        return dropped

    def first(self) -> list[CycleSpan | ScoreEvent]:
        """The items for one request, all of one kind; they stay in the queue."""
        kind = type(self._queue[0][0])
        found: list[CycleSpan | ScoreEvent] = []
        for one, _ in self._queue:
            if type(one) is not kind or len(found) == BATCH:
                break
            found.append(one)
        return found

    def done(self, batch: Sequence[CycleSpan | ScoreEvent]) -> None:
        """Done with these, which were `first`, as far as they were not dropped meanwhile."""
        which = set(map(id, batch))
        while self._queue and id(self._queue[0][0]) in which:
            self._bytes -= self._queue.popleft()[1]


class OtelService:
    """See `conch.consumer.services.Service`.

    It stores no position: it begins where the run began, or started again at the end of the stream, as metrics do, and
    what it has not sent when the process ends is not sent. An endpoint that is away delays no other consumer: what
    waits for it is bounded.
    """

    name = "otel"

    def __init__(self, context: ServiceContext) -> None:
        settings: Settings = context.settings
        if settings.otel.endpoint is None:
            raise UsageError("otel.endpoint names no OTLP endpoint: set it to http://host:4318 in conch.yaml")
        headers = {name: value.get_secret_value() for name, value in settings.otel.headers.items()}
        self.tally = ConsumerCounts()
        self.started = asyncio.Event()
        """Set while facts are read."""
        self._report, self._since = context.report, context.since
        self._exporter = OtlpExporter(settings.otel.endpoint, headers)
        provider = "openai" if settings.mind.kind == "openai" else "conch"
        self._traces = TraceBuilder(provider, settings.otel.content)
        self._waiting = ExportQueue()
        self._once = FirstSightFilter(self.tally)
        self._ending = asyncio.Event()
        self._trouble = ""
        self._dropped = 0
        """Since the endpoint last took something."""
        self._refused: set[str] = set()

    @property
    def handled(self) -> None:
        """None: a run's end does not wait for the endpoint."""
        return None

    @property
    def busy(self) -> bool:
        """Never: nothing here waits for its time."""
        return False

    async def run(self, shared_events: SharedSubscription, stop: asyncio.Event) -> None:
        """Read events until `stop`; then what waits is sent, within LAST_SECONDS. Cancelled, it ends at once.

        Raises BusError when the bus refuses the reading.
        """
        with self._exporter:
            log.info("otel.started", endpoint=self._exporter.address)
            try:
                with ungrouped():
                    async with (
                        shared_events.subscribe(
                            FACTS, after=shared_events.seq if self._since is None else self._since
                        ) as subscription,
                        asyncio.TaskGroup() as group,
                    ):
                        reading = group.create_task(keep_taking(subscription, self._take), name="conch.otel.read")
                        sending = group.create_task(self._send(), name="conch.otel.send")
                        self.started.set()
                        await stop.wait()
                        reading.cancel()
                        await asyncio.wait([reading])
                        await self._read_rest(subscription)
                        await self._finish(sending)
            finally:
                self.started.clear()

    def _take(self, arrived: ReceivedEvent) -> None:
        event = self._once.take(arrived)
        if event is None:
            return
        self._put(self._traces.take(event))
        log.debug("otel.taken", fact=event.TYPE, seq=arrived.seq, agent_id=event.agent, action_id=event.action_id)

    def _put(self, told: Sequence[CycleSpan | ScoreEvent]) -> None:
        dropped, before = self._waiting.put(told), self._dropped
        self._dropped += dropped
        self.tally.failures += dropped
        if dropped and not before:
            log.error("otel.drops", why=self._trouble or "more comes than the endpoint takes")
            self._report_trouble()

    async def _send(self) -> None:
        """Send what waits, at intervals; at the end, once more."""
        while not self._ending.is_set():
            await self._rest(SEND_SECONDS)
            try:
                await self._send_all()
            except EndpointUnreachableError as error:
                self._in_trouble(str(error))
                await self._rest(AGAIN_SECONDS)

    async def _rest(self, seconds: float) -> None:
        """Sleep; ends early when the service ends."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()

    async def _send_all(self) -> None:
        """Send what waits now and meanwhile. Raises EndpointUnreachableError; what was not sent stays in the queue."""
        while self._waiting:
            first = self._waiting.first()
            try:
                await self._send_one(first)
            except ExportRefusedError as error:
                self._is_refused(str(error), len(first))
            else:
                self._out_of_trouble()
            self._waiting.done(first)

    async def _send_one(self, batch: Sequence[CycleSpan | ScoreEvent]) -> None:
        if isinstance(batch[0], CycleSpan):
            await self._exporter.send_spans([one for one in batch if isinstance(one, CycleSpan)])
        else:
            await self._exporter.send_evaluations([one for one in batch if isinstance(one, ScoreEvent)])

    async def _read_rest(self, subscription: StreamSubscription) -> None:
        """Take what has arrived already, and the cycles that have acted, as far as they are known."""
        while not subscription.level:
            for one in await subscription.get(BATCH):
                self._take(one)
        self._put(self._traces.rest())

    async def _finish(self, sending: asyncio.Task[None]) -> None:
        """Let it send what waits, for LAST_SECONDS at most, and no longer than the endpoint answers."""
        self._ending.set()
        until = time.monotonic() + LAST_SECONDS
        while not sending.done() and not self._exporter.failing and time.monotonic() < until:
            await asyncio.wait([sending], timeout=POLL_SECONDS)
        sending.cancel()
        await asyncio.wait([sending])
        if self._waiting:
            log.warning("otel.left", unsent=len(self._waiting), why=self._trouble or "the endpoint did not take it")
        log.info("otel.stopped", dropped=self._dropped, **vars(self.tally))

    # -- reports about the endpoint ----------------------------------------------------------------------------------

    def _in_trouble(self, why: str) -> None:
        if not self._trouble:
            log.warning("otel.unreachable", endpoint=self._exporter.address, why=why)
        if why != self._trouble or self._dropped:
            self._trouble = why
            self._report_trouble()

    def _report_trouble(self) -> None:
        lost = f"; {self._dropped} spans and scores dropped" if self._dropped else ""
        why = f"{self._trouble or self._exporter.address + ' is slow'}{lost}"
        self._report(ConsumerWaits(consumer=self.name, why=why))

    def _out_of_trouble(self) -> None:
        if self._trouble or self._dropped:
            log.info("otel.reached", endpoint=self._exporter.address, dropped=self._dropped)
            self._trouble, self._dropped = "", 0
            self._report(ConsumerWaits(consumer=self.name, why=""))

    def _is_refused(self, why: str, count: int) -> None:
        self.tally.failures += count
        if why not in self._refused:
            self._refused.add(why)
            log.error("otel.refused", why=why, lost=count)
            self._report(ConsumerNote(consumer=self.name, note=f"{why}: what it refuses is not sent again"))
