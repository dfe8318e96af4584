"""What each page takes over the wire, in a headless Chromium that looks at a real run with 10,000 cycles behind it: its
first load with an empty cache, and what comes live in the 15 seconds behind that, both as sent, compressed."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from history import fill_store
from playwright.async_api import Browser, async_playwright
from runs import CONCH

from conch.home import Home
from ui.pixel import CHROMIUM, link_of

CYCLES, QUICK_CYCLES = 10_000, 300
INTERVAL = 0.5
"""Seconds from cycle to cycle, at least."""
SECONDS, QUICK_SECONDS = 15.0, 2.0
SETTLE_SECONDS = 2.0
"""After the load, until the live part begins."""
WARM_SECONDS = 5.0
PAGES = (
    *("", "overview", "film", "cycles", f"cycles/{QUICK_CYCLES}", "chat", "memory", "rewards", "needs", "training"),
    *("rewards/component/execution", "data", "review", "review/rows", "agents", "teams", "alarms", "bus", "witness"),
    *("settings", "compare", "whatif"),
)
FRAME_BYTES = len("id: 12345\ndata: \n\n")
"""Of a server-sent event beside its data."""


class Wire:
    """Counts bytes as they came over the wire, by what they are for."""

    def __init__(self) -> None:
        self.bytes: dict[str, float] = {"asked": 0.0, "events": 0.0}
        self._kept: set[str] = set()
        """Requests that the browser's cache answered."""

    def watch(self, session: Any) -> None:
        """Count what this session of the browser's own protocol tells."""
        session.on("Network.requestServedFromCache", lambda said: self._kept.add(said["requestId"]))
        session.on("Network.loadingFinished", self._finished)
        session.on("Network.eventSourceMessageReceived", self._heard)

    def _finished(self, said: dict[str, Any]) -> None:
        if said["requestId"] not in self._kept:
            self.bytes["asked"] += said["encodedDataLength"]

    def _heard(self, said: dict[str, Any]) -> None:
        self.bytes["events"] += FRAME_BYTES + len(said["data"].encode())

    def taken(self) -> dict[str, float]:
        """KiB since the last call."""
        found = {name: count / 1024 for name, count in self.bytes.items()}
        self.bytes = dict.fromkeys(self.bytes, 0.0)
        return found


async def main(*, quick: bool = False) -> None:
    """A row a page."""
    cycles, seconds = (QUICK_CYCLES, QUICK_SECONDS) if quick else (CYCLES, SECONDS)
    with tempfile.TemporaryDirectory(prefix="conch-bench-") as directory:
        home = Path(directory) / "home"
        Home(home).make()
        fill_store(home, cycles)
        run = await asyncio.create_subprocess_exec(
            str(CONCH), "run", "--home", str(home), "--interval", str(INTERVAL), "--seed", "1", "--ui-port", "0",
            stdout=asyncio.subprocess.PIPE, env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        assert run.stdout is not None
        try:
            link = await link_of(run.stdout)
            draining = asyncio.create_task(run.stdout.read())
            print(
                f"{cycles:,} cycles stored, {1 / INTERVAL:g} a second come; KiB as sent, and the machine's load",
                flush=True,
            )
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
                await _measure(browser, link, seconds)
                await browser.close()
        finally:
            run.terminate()
            await run.wait()
        await draining


async def _measure(browser: Browser, link: str, seconds: float) -> None:
    first = await browser.new_context()
    page = await first.new_page()
    await page.goto(link)
    inside, session = page.url, await first.storage_state()
    await asyncio.sleep(WARM_SECONDS)
    await first.close()
    for path in PAGES:
        context = await browser.new_context(storage_state=session)
        page, wire = await context.new_page(), Wire()
        protocol = await context.new_cdp_session(page)
        wire.watch(protocol)
        await protocol.send("Network.enable")
        await page.goto(urljoin(inside, path))
        await asyncio.sleep(SETTLE_SECONDS)
        load = sum(wire.taken().values())
        await asyncio.sleep(seconds)
        live = wire.taken()
        print(
            f"/{path:<27} first load {load:6.1f}   live in {seconds:g} s {sum(live.values()):6.1f}, of it the stream "
            f"{live['events']:5.1f}   load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        await context.close()
