"""Somebody without a pass, passes, and requests to the letter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest
import pytest_asyncio

from conch.auth import LoginTokens
from tests.dashboard.conftest import Dashboard


@pytest_asyncio.fixture(loop_scope="session")
async def stranger(dashboard: Dashboard) -> AsyncIterator[httpx2.AsyncClient]:
    """Somebody without any pass."""
    async with httpx2.AsyncClient(base_url=dashboard.address, timeout=10) as client:
        yield client


@pytest.fixture
def passes(dashboard: Dashboard) -> LoginTokens:
    """Those of the dashboard's home."""
    return LoginTokens(dashboard.seeded.home)


async def raw(dashboard: Dashboard, request: bytes) -> bytes:
    """What is answered to these very bytes, until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(dashboard.address.rpartition(":")[2]))
    writer.write(request)
    try:
        async with asyncio.timeout(30):
            return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


def get(target: str, dashboard: Dashboard) -> bytes:
    """A request for this target, to the letter."""
    return f"GET {target} HTTP/1.1\r\nHost: {dashboard.address[7:]}\r\nConnection: close\r\n\r\n".encode()
