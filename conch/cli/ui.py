"""`conch ui`: serve the dashboard of a home, beside its run or without one."""

from __future__ import annotations

import asyncio
import signal
from typing import Annotated, cast
from urllib.parse import urlsplit

from cyclopts import Parameter

from conch.auth import LoginTokens, called
from conch.bus import Access, access_to, shared_subscription
from conch.cli.common import CommonOptions, emit, say
from conch.cli.options import COMMON
from conch.cli.run.page import way_in
from conch.config import Settings
from conch.config.model import UI_PORT
from conch.consumer import DisplayService, ServiceContext
from conch.consumer.plugins import PAGE, builtin_services
from conch.errors import BusError, BusUnreachableError, UsageError
from conch.home import Home
from conch.processes import run_loop
from conch.tasks import background, race

LOOK_SECONDS = 0.25
"""Seconds between two checks for another bus."""


def ui(
    *,
    port: Annotated[int | None, Parameter(help="TCP port; without it 26624, or any.")] = None,
    host: Annotated[str | None, Parameter(help="Address that it listens on; default 127.0.0.1.")] = None,
    link: Annotated[bool, Parameter(negative="", help="Print a fresh way in to the page that runs, and end.")] = False,
    unsafe_allow_unauthenticated: Annotated[
        bool, Parameter(negative="", help="Let everybody who reaches it see and do everything.")
    ] = False,
    common: CommonOptions = COMMON,
) -> None:
    """Show this home until Ctrl-C: its history, and live whatever run is in progress, one after the other."""
    home = common.existing()
    given = {"port": port, "host": host, "unsafe_allow_unauthenticated": unsafe_allow_unauthenticated or None}
    settings = common.settings({"ui": given})
    if link:
        if any(value is not None for value in given.values()):
            raise UsageError("--link is to the page that runs: leave out --port, --host and the like")
        _tell(common, settings, home, _running(home))
        return
    from conch.config import Masker
    from conch.telemetry import configure

    configure(settings.log, home.logs / "ui.log", process="ui", mask=Masker.of(settings).text)
    run_loop(_serve(common, settings, home))


def _running(home: Home) -> str:
    """The address of this home's page. Raises BusUnreachableError where there is none."""
    run = home.running()
    address = (run.ui if run is not None else None) or LoginTokens(home).shown()
    if address is None:
        raise BusUnreachableError(
            f"there is no page of {home.path}: conch run serves it, and conch ui does alone; --home names another home"
        )
    return address


def _tell(common: CommonOptions, settings: Settings, home: Home, address: str, *, prefix: str = "") -> None:
    way = way_in(settings.ui, home, address)
    if common.json:
        from conch.views import PageAt

        emit(PageAt(address=called(settings.ui, address), link=way))
    else:
        say(f"{prefix}{way}")


async def _serve(common: CommonOptions, settings: Settings, home: Home) -> None:
    """Raises ConchError when the named port cannot be had, or the dashboard's packages are not there."""
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    display = cast(DisplayService, builtin_services([PAGE])[PAGE](ServiceContext(settings, home.path)))
    async with display.serving():
        address = display.address
        assert address is not None
        if settings.ui.port is None and urlsplit(address).port != UI_PORT and not common.json:
            say(f"port {UI_PORT} is taken, so the page is at another one (--port names one)")
        _tell(common, settings, home, address, prefix="page ")
        await race({"conch.ui.follow": _follow(display, settings, home), "conch.ui.stop": stop.wait()})


async def _follow(display: DisplayService, settings: Settings, home: Home) -> None:
    """Attach to the bus of the run in progress, then to the next run's, or to bus.url's; never returns.

    Where the run.json of a home that a process owns is damaged, the pages say so.
    """
    while True:
        access = access_to(home, settings)
        if access is not None:
            display.say(f"the bus at {access.shown} is asked and has not answered yet")
            try:
                await _attached(display, settings, home, access)
            except BusError as error:
                display.say(str(error))
        else:
            display.say(home.run_damage())
        await asyncio.sleep(LOOK_SECONDS)


async def _attached(display: DisplayService, settings: Settings, home: Home, access: Access) -> None:
    """Show this bus until the bus changes or goes away."""
    from conch.bus.jetstream import JetStreamBus

    over = asyncio.Event()

    async def look() -> None:
        while access_to(home, settings) == access:  # noqa: ASYNC110 - there is no notification
            await asyncio.sleep(LOOK_SECONDS)
        over.set()

    strict = settings.bus.durability == "strict"
    async with (
        JetStreamBus(access, name="conch-ui", max_bytes=-1, strict=strict) as bus,
        shared_subscription(bus) as shared_events,
        background(look(), name="conch.ui.look"),
    ):
        await display.show(shared_events, over)
