"""The first load of the story with 1,000 agents and 1 million cycles stored, 900,100 of them of the agent shown:
milliseconds from the request to the whole answer and of the server's processor time (in steps of 10), the very first
after the start, then other pages."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import httpx2
from history import fill_store_of

from conch.bus.server import EmbeddedServer
from conch.home import Home
from ui.shown import TOKEN, dashboard, server

AGENTS, CYCLES, OWN = 1000, 1_000_000, 100
"""Agents; cycles of all; cycles of each agent but the one that is shown."""
QUICK_AGENTS, QUICK_CYCLES, QUICK_OWN = 20, 1000, 10
PATHS = ("/", "/", "/?agent=agent-7", "/agents", "/alarms", "/cycles", "/overview")


async def main(*, quick: bool = False) -> None:
    """A row a request."""
    agents, cycles, own = (QUICK_AGENTS, QUICK_CYCLES, QUICK_OWN) if quick else (AGENTS, CYCLES, OWN)
    with tempfile.TemporaryDirectory(prefix="conch-bench-") as directory:
        home = Path(directory) / "home"
        Home(home).make()
        others = {f"agent-{number}": own for number in range(agents - 1)}
        fill_store_of(home, {"echo": cycles - own * len(others)} | others)
        print(f"{agents:,} agents, {cycles:,} cycles stored; milliseconds to the whole answer, on loopback", flush=True)
        async with server(Path(directory) / "nats") as nats:
            await timed(home, nats)


async def timed(home: Path, nats: EmbeddedServer) -> None:
    """Ask a dashboard that has just started."""
    async with (
        dashboard(home, nats) as shown,
        httpx2.AsyncClient(base_url=shown.address, headers={"authorization": f"Bearer {TOKEN}"}, timeout=60) as client,
    ):
        for path in PATHS:
            began, before = time.perf_counter(), shown.cpu_seconds()
            answer = await client.get(path)
            taken, worked = (time.perf_counter() - began) * 1000, (shown.cpu_seconds() - before) * 1000
            print(
                f"{path:<20} {answer.status_code}  {taken:7.1f} ms, {worked:5.0f} of the server's processor  "
                f"{len(answer.content) / 1024:7.1f} KiB",
                flush=True,
            )
