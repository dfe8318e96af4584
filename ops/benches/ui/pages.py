"""The first load of every page with 100,000 cycles stored: milliseconds from the request to the whole answer, the first
time and the median of the next five."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import httpx2
from history import fill_store

from conch.home import Home
from ui.shown import TOKEN, dashboard

CYCLES, QUICK_CYCLES = 100_000, 300
PAGES = (
    "/",
    "/overview",
    "/cycles",
    "/cycles?outcome=error",
    "/cycles?text=kelp",
    "/cycles/{middle}",
    *("/rewards", "/needs", "/training", "/review", "/bus", "/witness", "/settings"),
    *("/api/v1/cycles", "/api/v1/status", "/api/v1/rewards"),
)
TIMES = 5


async def main(*, quick: bool = False) -> None:
    """A row a page."""
    cycles = QUICK_CYCLES if quick else CYCLES
    with tempfile.TemporaryDirectory(prefix="conch-bench-") as directory:
        home = Path(directory) / "home"
        Home(home).make()
        fill_store(home, cycles)
        print(f"{cycles:,} cycles stored; milliseconds to the whole answer, on loopback", flush=True)
        async with (
            dashboard(home, None) as shown,
            httpx2.AsyncClient(
                base_url=shown.address, headers={"authorization": f"Bearer {TOKEN}"}, timeout=60
            ) as client,
        ):
            for path in PAGES:
                taken = []
                for _ in range(1 + TIMES):
                    began = time.perf_counter()
                    answer = await client.get(path.format(middle=cycles // 2))
                    taken.append((time.perf_counter() - began) * 1000)
                first, again = taken[0], statistics.median(taken[1:])
                size = len(answer.content) / 1024
                print(
                    f"{path:<28} {answer.status_code}  first {first:7.1f}  then {again:7.1f} ms  {size:7.1f} KiB",
                    flush=True,
                )
