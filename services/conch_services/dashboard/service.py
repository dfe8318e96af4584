"""The dashboard service: serves the application on a port, and attaches it to a bus while there is one."""

from __future__ import annotations

import asyncio
import importlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager

import uvicorn

from conch.auth import LoginTokens, called
from conch.bus import SharedSubscription
from conch.config import UiSettings
from conch.config.model import UI_PORT
from conch.consumer import ServiceContext
from conch.consumer.runtime import ConsumerCounts
from conch.errors import ConchError
from conch.home import Home
from conch.log import get_logger
from conch.processes import PageServed
from conch.tasks import background, innermost, race
from conch_services.dashboard.app import make_app
from conch_services.dashboard.page import compile_templates
from conch_services.dashboard.security import MOST_HEAD, RequestGuard, TimedHttpProtocol
from conch_services.dashboard.stream.hub import ALONE
from conch_services.dashboard.world import DashboardContext

log = get_logger(__name__)

BACKLOG = 256
"""Connections that wait to be taken."""


class DashboardService:
    """Serves the pages, the live stream and the API. It stores no position: its history is the store's."""

    name = "dashboard"

    def __init__(self, context: ServiceContext) -> None:
        self.tally = ConsumerCounts()
        self._settings = context.settings.ui
        self._report = context.report
        self._world = DashboardContext(context.settings, Home(context.home))
        self.address: str | None = None
        """`http://host:port`, while it serves."""

    @property
    def handled(self) -> None:
        """None: a run's end does not wait for the pages."""
        return None

    @property
    def busy(self) -> bool:
        """Never: nothing here waits for its time."""
        return False

    async def run(self, shared_events: SharedSubscription, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then close every connection. Cancelled: the same.

        Raises ConchError when the named port cannot be had.
        """
        async with self.serving():
            self._report(PageServed(url=self.address))
            await self.show(shared_events, stop)

    async def show(self, shared_events: SharedSubscription, stop: asyncio.Event) -> None:
        """Attach the pages to this bus until `stop` is set; they wait for another one then. Cancelled: the same.

        Raises BusError when the bus refuses the reading.
        """
        self._world.shared_events = shared_events
        try:
            await race(
                {
                    "conch.dashboard.follow": self._world.hub.follow(shared_events),
                    "conch.dashboard.stop": stop.wait(),
                }
            )
        except ExceptionGroup as failed:
            raise innermost(failed) from None
        finally:
            self._world.shared_events = None
            self._world.hub.say(ALONE)

    def say(self, state: str) -> None:
        """Tell the pages in a sentence why they follow no bus; empty: no run is in progress."""
        self._world.hub.say(state or ALONE)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Listen and answer while entered; without a bus at first.

        Raises ConchError when the named port cannot be had, HomeError where no login would be possible.
        """
        self.say("")
        login_tokens = LoginTokens(self._world.home)
        await asyncio.to_thread(_warm)
        with closing(listen(self._settings)) as listening:
            host, port = listening.getsockname()[:2]
            self.address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            config = uvicorn.Config(
                RequestGuard(make_app(self._world), self._settings, login_tokens, port),
                http=TimedHttpProtocol,
                h11_max_incomplete_event_size=MOST_HEAD,
                ws="none",
                lifespan="off",
                log_config=None,
                proxy_headers=False,  # where a request comes from is known from its connection alone
                server_header=False,
                timeout_graceful_shutdown=1,
            )
            server = _Server(config)
            async with background(server.serve(sockets=[listening]), name="conch.dashboard.serve") as serving:
                log.info("dashboard.serving", address=self.address)
                try:
                    with login_tokens.shown_at(called(self._settings, self.address)):
                        yield
                finally:
                    self._world.hub.close()
                    server.should_exit = True
                    await asyncio.wait([serving])
                    self._world.close()
                    self.address = None


def _warm() -> None:
    """What the first request would wait for: templates, what reads a store, and what tells of acts that wait for an
    approval."""
    compile_templates()
    for module in ("conch.cycle.approvals.answer", "conch.cycle.state.recover", "conch.experience.sql_store"):
        importlib.import_module(module)


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers: signals belong to the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Installs no signal handlers."""
        yield


def listen(settings: UiSettings) -> socket.socket:
    """A listening socket at the address of the settings; without a named port at 26624, or at a free one.

    Raises ConchError when a named port is in use.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        port = UI_PORT if settings.port is None else settings.port
        return socket.create_server((settings.host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        if settings.port is None:
            return socket.create_server((settings.host, 0), family=family, backlog=BACKLOG)
        raise ConchError(
            f"port {settings.port} of {settings.host} cannot be had ({error.strerror}): name another one for the "
            "dashboard (ui.port, --ui-port), or none, and a free one is found"
        ) from None
