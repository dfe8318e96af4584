"""The lines of a run about its dashboard, and the check of the dashboard's port."""

from __future__ import annotations

import time
from collections.abc import Container
from urllib.parse import urlsplit

from conch.auth import LoginTokens, called, link_to
from conch.cli.run.output import RunOutput
from conch.config import UiSettings
from conch.config.model import UI_PORT
from conch.consumer.operations import listen
from conch.consumer.plugins import PAGE
from conch.errors import HomeError
from conch.home import Home


def refuse_taken(settings: UiSettings, skipped: Container[str]) -> None:
    """Raises ConchError where a port that the settings name for the page is in use: a named port is never replaced."""
    if settings.port and settings.enabled and PAGE not in skipped:
        listen(settings.host, settings.port, "the page needs it: name another (--ui-port), or none").close()


def report_page(run_output: RunOutput, settings: UiSettings, home: Home, address: str) -> None:
    """Print the address of the page, with a login link that works once, on a line by itself."""
    if settings.port is None and urlsplit(address).port != UI_PORT:
        run_output.tell(f"port {UI_PORT} is taken, so the page is at another one (--ui-port names one)")
    try:
        run_output.tell(f"page {way_in(settings, home, address)}")
    except HomeError as error:
        run_output.tell(f"page {called(settings, address)}/")
        run_output.warn(str(error))


def way_in(settings: UiSettings, home: Home, address: str) -> str:
    """The address that lets in, once where a token is asked for. Raises HomeError where no link can be written down."""
    name = called(settings, address)
    return f"{name}/" if settings.unsafe_allow_unauthenticated else link_to(name, LoginTokens(home).link(time.time()))
