"""The metrics service: reads new events, and serves `/metrics`, `/healthz` and `/readyz`."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping

from conch.bus import Bus, ReceivedEvent, SharedSubscription, decoded
from conch.config.model import METRICS_PORT
from conch.consumer import ServiceContext
from conch.consumer.group import standings
from conch.consumer.operations import (
    KEEP_SECONDS,
    FirstSightFilter,
    HttpRequest,
    HttpResponse,
    HttpServer,
    ThreadedEndpoint,
    health_of,
    keep_taking,
    listen,
    look,
    watched,
    watched_agents,
)
from conch.consumer.runtime import ConsumerCounts
from conch.errors import BusError, ConchError
from conch.log import get_logger
from conch.metrics import CONTENT_TYPES, PLUGIN_METRICS, wants_openmetrics
from conch.tasks import ungrouped
from conch_schemas import OF_TRAINING, ContractViolationError, TrainingProgressed, subject_filter
from conch_services.metrics.counting import EventCounter, WatchedFigures
from conch_services.metrics.instruments import Instruments

log = get_logger(__name__)

AT_ONCE = 16
"""Agents with watcher states read in one go: some 8 ms, during which the event loop is blocked."""
POLL_SECONDS = 5.0
"""Seconds between two reads of the consumers' lags and the watchers' states."""

ADVICE = (
    "name another one for the metrics (metrics.host, metrics.port, --metrics-port), or no port, and a free one is found"
)


class MetricsService:
    """Counts facts and serves /metrics, /healthz and /readyz, on loopback unless `metrics.host` says otherwise.

    It keeps no position: Prometheus expects counters to begin at 0 with the process, so it begins where the run began,
    or started again at the end of the stream, and leaves nothing on the bus. Several may run at once, each on a port of
    its own.
    """

    name = "metrics"

    def __init__(self, context: ServiceContext) -> None:
        self.tally = ConsumerCounts()
        self.tallies: Callable[[], Mapping[str, ConsumerCounts]] = dict
        """The counts of this process's consumers, by name; their host sets it. Called at every scrape."""
        self.started = asyncio.Event()
        """Set while facts are counted and served."""
        self._host, self._port = context.settings.metrics.host, context.settings.metrics.port
        self._keep, self._since = context.settings.bus.keep, context.since
        self._instruments = Instruments(lambda: {self.name: self.tally, **self.tallies()}, [PLUGIN_METRICS])
        self._counting = EventCounter(context.settings, self._instruments)
        self._once = FirstSightFilter(self.tally)
        self._bus: Bus | None = None
        self._endpoint: HttpServer | None = None
        self._scraping = asyncio.Lock()
        """A lock of the endpoint's loop: scrapes side by side would take the interpreter from the consumers."""

    @property
    def address(self) -> str | None:
        """`http://127.0.0.1:<port>`, for example, once `run` listens; None before."""
        return self._endpoint.address if self._endpoint is not None else None

    @property
    def handled(self) -> None:
        """None: a run's end does not wait for the metrics."""
        return None

    @property
    def busy(self) -> bool:
        """Never: nothing here waits for its time."""
        return False

    async def run(self, shared_events: SharedSubscription, stop: asyncio.Event) -> None:
        """Count and serve until `stop` is set; then close every connection and the port. Cancelled: the same.

        Raises ConchError when the named port cannot be had, BusError when the bus refuses the reading.
        """
        self._bus, self._loop = shared_events.bus, asyncio.get_running_loop()
        endpoint = HttpServer(self._listen(), self._answer, named=self._host)
        async with ThreadedEndpoint(endpoint):
            self._endpoint = endpoint
            log.info("metrics.serving", address=self.address)
            try:
                with ungrouped():
                    await self._run(shared_events, stop)
            finally:
                self.started.clear()

    def _listen(self) -> socket.socket:
        if self._port is not None:
            return listen(self._host, self._port, ADVICE)
        try:
            return listen(self._host, METRICS_PORT, ADVICE)
        except ConchError as error:
            log.warning("metrics.port_taken", error=str(error))
            return listen(self._host, 0, ADVICE)

    async def _run(self, shared_events: SharedSubscription, stop: asyncio.Event) -> None:
        bus = shared_events.bus
        begin = shared_events.seq if self._since is None else self._since
        await self._recall_training(bus, begin)
        async with (
            shared_events.subscribe(None, after=begin) as subscription,
            asyncio.TaskGroup() as group,
        ):
            await self._look_at_consumers(bus)
            await self._look_at_trimming(bus)
            await self._look_at_watchers(bus)
            tasks = [
                group.create_task(keep_taking(subscription, self._take), name="conch.metrics.read"),
                group.create_task(_again(self._look_at_consumers, bus, POLL_SECONDS), name="conch.metrics.lag"),
                group.create_task(_again(self._look_at_trimming, bus, KEEP_SECONDS), name="conch.metrics.keep"),
                group.create_task(_again(self._look_at_watchers, bus, POLL_SECONDS), name="conch.metrics.watch"),
            ]
            self.started.set()
            await stop.wait()
            for task in tasks:
                task.cancel()

    async def _recall_training(self, bus: Bus, upto: int) -> None:
        """Take what the stream has of training up to this sequence, so that its gauges do not wait for the next
        move. What was trimmed is not known."""
        filters = [subject_filter(kind) for kind in OF_TRAINING if kind is not TrainingProgressed]
        async for delivery in bus.read(filters):
            if delivery.seq > upto:
                return
            with contextlib.suppress(ContractViolationError):  # its consumers write the dead letters
                self._counting.remember(decoded(delivery.subject, delivery.data))

    async def _look_at_consumers(self, bus: Bus) -> None:
        self._counting.set_standings(await standings(bus))

    async def _look_at_trimming(self, bus: Bus) -> None:
        self._counting.set_held((await look(bus, self._keep)).held, (await bus.state()).bytes)

    async def _look_at_watchers(self, bus: Bus) -> None:
        shown = [agent for agent in await watched_agents(bus) if self._counting.is_shown(agent)]
        seen = WatchedFigures()
        for start in range(0, len(shown), AT_ONCE):
            for agent, state in (await watched(bus, shown[start : start + AT_ONCE])).items():
                self._counting.see(agent, state, seen)
            await asyncio.sleep(0)
        self._counting.set_watched(seen)

    def _take(self, delivery: ReceivedEvent) -> None:
        """Count one event; skips invalid messages, events on another's subject, and duplicates."""
        event = self._once.take(delivery)
        if event is None:
            return
        self._counting.count(event, delivery.time)
        log.debug("metrics.counted", fact=event.TYPE, seq=delivery.seq, agent_id=event.agent, action_id=event.action_id)

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        """Runs in the endpoint's thread. Health is asked of the consumers' loop: while that is blocked, a probe gets no
        answer."""
        if request.path == "/metrics":
            is_open = wants_openmetrics(request.accept)
            async with self._scraping:
                text = await asyncio.to_thread(self._instruments.text, openmetrics=is_open)
            return HttpResponse(text, type=CONTENT_TYPES[is_open])
        ready = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._is_ready(), self._loop))
        return health_of(request.path, ready) or HttpResponse(b"there are /metrics, /healthz and /readyz\n", 404)

    async def _is_ready(self) -> bool:
        return self.started.is_set() and self._bus is not None and self._bus.connected


async def _again(look: Callable[[Bus], Awaitable[None]], bus: Bus, seconds: float) -> None:
    """Repeat at this interval; a failure is made up for by the next call."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await look(bus)
        except BusError as error:
            log.debug("metrics.not_looked", error=str(error))
