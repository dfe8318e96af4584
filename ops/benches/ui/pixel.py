"""Act to pixel: from the stream's storing of `action.taken` to its row in the page, and to its reward there, in a
headless Chromium that looks at a real run."""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from playwright.async_api import async_playwright
from runs import CONCH, percentile

from conch.bus.access import access_to
from conch.bus.jetstream import JetStreamBus
from conch.config import Settings
from conch.home import Home
from conch_schemas import ActionTaken, decode, subject_filter

CYCLES, QUICK_CYCLES, INTERVAL = 120, 6, 0.5
WARM_SECONDS = 5.0
"""The dashboard has just started, and makes its templates ready: for some seconds it is slow."""
PATIENCE, PATIENCE_A_CYCLE = 60.0, 5.0
"""Seconds until the page has to have shown the cycles: one that shows none is an error."""
CHROMIUM = "/usr/bin/chromium"
NOTES = """
() => {
  const there = [...document.querySelectorAll("[data-cycle]")].map((row) => Number(row.dataset.cycle));
  const noted = (window.noted = { begun: Date.now(), last: Math.max(-1, ...there), row: {}, total: {} });
  const note = (what, cycle) => {
    if (cycle in noted[what]) return;
    noted[what][cycle] = null;
    requestAnimationFrame(() => { noted[what][cycle] = Date.now(); });
  };
  const look = () => {
    for (const row of document.querySelectorAll("[data-cycle]")) {
      note("row", row.dataset.cycle);
      if (Number(row.dataset.revision) > 0) note("total", row.dataset.cycle);
    }
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, attributes: true });
}
"""
"""Notes when a row, and its total, were there to be painted."""


async def main(*, quick: bool = False) -> None:
    """Two rows."""
    cycles = QUICK_CYCLES if quick else CYCLES
    with tempfile.TemporaryDirectory(prefix="conch-bench-") as directory:
        home = Path(directory) / "home"
        run = await asyncio.create_subprocess_exec(
            str(CONCH), "run", "--home", str(home), "--interval", str(INTERVAL), "--seed", "1", "--ui-port", "0",
            stdout=asyncio.subprocess.PIPE, env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        assert run.stdout is not None
        try:
            link = await link_of(run.stdout)
            draining = asyncio.create_task(run.stdout.read())
            noted = await _watch(link, cycles)
            stored = await _stored(Home(home))
        finally:
            run.terminate()
            await run.wait()
        await draining
    for what, name in (("row", "act to its row"), ("total", "act to its reward")):
        seen = {int(cycle): at for cycle, at in noted[what].items() if at is not None}
        late = [seen[cycle] - at for cycle, at in stored.items() if at > noted["begun"] and cycle in seen]
        p50, p99 = statistics.median(late), percentile(late, 0.99)
        print(f"{name:<20} n {len(late):>4}  p50 {p50:6.1f} ms  p99 {p99:6.1f} ms", flush=True)


async def link_of(out: asyncio.StreamReader) -> str:
    """The link that a run prints. Ends the bench where none comes."""
    async with asyncio.timeout(60):
        while line := (await out.readline()).decode():
            if (found := re.search(r"http://\S+token=\S+", line)) is not None:
                return found[0]
    raise SystemExit("the run printed no link")


async def _watch(link: str, cycles: int) -> dict[str, Any]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page()
        await page.goto(link)
        await page.goto(urljoin(page.url, "overview"))
        await asyncio.sleep(WARM_SECONDS)
        await page.evaluate(NOTES)
        seen: dict[str, Any] = {"total": {}, "last": -1}
        async with asyncio.timeout(PATIENCE + PATIENCE_A_CYCLE * cycles):
            while sum(int(cycle) > seen["last"] for cycle in seen["total"]) < cycles:  # rows from before do not count
                await asyncio.sleep(1)
                seen = await page.evaluate("() => window.noted")
        await browser.close()
        return seen


async def _stored(home: Home) -> dict[int, float]:
    """Cycle -> when the stream stored its act, milliseconds since the epoch."""
    access = access_to(home, Settings())
    assert access is not None
    async with JetStreamBus(access, name="bench") as bus:
        return {
            event.cycle or 0: delivery.time * 1000
            async for delivery in bus.read([subject_filter(ActionTaken)])
            if isinstance(event := decode(delivery.data), ActionTaken)
        }
