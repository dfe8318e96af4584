"""Reaching a bus from a program."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import conch
from conch.errors import BusUnreachableError
from conch.home import Home
from conch.testing import make_action_taken


async def test_a_local_bus_keeps_its_events_for_the_next_time(tmp_path: Path) -> None:
    """They lie in its directory; the server ends with the block."""
    async with conch.local_bus(tmp_path) as bus:
        await conch.publish(bus, make_action_taken())
        server = urlsplit(bus.url)

    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(server.hostname, server.port)
    async with conch.local_bus(tmp_path) as bus:
        assert (await bus.state()).last == 1


async def test_two_connections_share_the_stream_of_a_server(tmp_path: Path) -> None:
    """One is the local bus's own, one another program's."""
    async with conch.local_bus(tmp_path) as bus, conch.connect(bus.url, token=bus.token) as other:
        await conch.publish(bus, make_action_taken())

        assert (await other.state()).last == 1


async def test_a_home_names_its_server(tmp_path: Path) -> None:
    """By `bus.url` in its settings, where no run is in progress."""
    home = Home(tmp_path / "home")
    home.make()
    async with conch.local_bus(tmp_path / "server") as bus:
        home.config_file.write_text(f"bus:\n  url: {bus.url}\n  token: {bus.token}\n")

        async with conch.connect(home=home.path) as other:
            assert other.connected


async def test_a_home_without_a_run_and_a_server_is_an_error_that_says_so(tmp_path: Path) -> None:
    """No server is started for it."""
    Home(tmp_path / "home").make()

    with pytest.raises(BusUnreachableError, match="no run is in progress"):
        async with conch.connect(home=tmp_path / "home"):
            pass
