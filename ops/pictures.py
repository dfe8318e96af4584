"""Make the pictures of real, seeded runs on fresh homes: a run and its status, `conch watch`, the dashboard, a team.

python ops/pictures.py makes the pictures of the documentation. With --every DIRECTORY one of every page,
whole, in both colours and three widths, of a fresh home, or of one (--home) in which it starts a run. It needs
the extra `dev`; Chromium is the system's.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright
from rich.console import Console
from rich.text import Text

from conch.cli.watch.picture import WatchPicture
from conch.cli.watch.screen import WatchApp
from conch.cli.watch.source import PictureSource
from conch.config.load import load
from conch.home import Home
from conch_services.dashboard.page import MENU

CONCH = Path(sys.executable).with_name("conch")
TARGET = Path(__file__).parent / "pictures"
CYCLES = 300
PATIENCE = 600.0
"""Seconds for so many cycles."""
SETTLE_MS = 1500
"""For charts to be drawn and a few cycles to come in live."""
MOST_BYTES = 300_000
"""Of one picture: they are fetched with the README."""
WIDE, LONG = {"width": 1440, "height": 900}, {"width": 1440, "height": 1240}
TALL, NARROW = {"width": 1280, "height": 1240}, {"width": 390, "height": 1100}
PAGES = (
    ("story-dark", "/", "dark", WIDE),
    ("story-light", "/", "light", WIDE),
    ("story-narrow", "/", "light", NARROW),
    ("overview-light", "/overview", "light", LONG),
    ("cycle-light", "/cycles/{cycle}", "light", TALL),
    ("rewards-dark", "/rewards", "dark", WIDE),
    ("needs-light", "/needs", "light", WIDE),
)
"""Name, path, colours, size."""
TEAM_PAGES = (("team-light", "/teams", "light", LONG), ("team-dark", "/teams", "dark", LONG))
TEAM_STEPS = 120
EVERY_PATH = (
    *(entry.path for entry in MENU),
    *("/cycles/{cycle}", "/rewards/component/execution", "/review/rows"),
)
WIDTHS = {"wide": WIDE, "middle": {"width": 1024, "height": 768}, "narrow": {"width": 390, "height": 844}}


def main() -> None:
    """Those that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=CYCLES, help="of the run whose pages are shown")
    parser.add_argument("--every", type=Path, metavar="DIRECTORY", help="every page, in both colours and three widths")
    parser.add_argument("--home", type=Path, help="of --every: a home, in which a run is started")
    chosen = parser.parse_args()
    if chosen.every:
        every(chosen.every, chosen.home, chosen.cycles)
    else:
        documented(chosen.cycles)


def documented(cycles: int) -> None:
    """The pictures of the documentation."""
    terminal()
    with tempfile.TemporaryDirectory() as directory, running(Path(directory) / "home", cycles) as link:
        home = Path(directory) / "home"
        asyncio.run(screen(home))
        cycle = best_cycle(home)
        pages(link, [(name, path.format(cycle=cycle), *look) for name, path, *look in PAGES])
    team()


def every(target: Path, home: Path | None, cycles: int) -> None:
    """Every page, from its top to its end."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        shown = home or Path(directory) / "home"
        with running(shown, 1 if home else cycles) as link, browsing(link) as (browser, session, inside):
            cycle = best_cycle(shown)
            for colours in ("light", "dark"):
                for width, size in WIDTHS.items():
                    context = browser.new_context(
                        storage_state=session, color_scheme=colours, viewport=size, reduced_motion="reduce",
                        is_mobile=width == "narrow",
                    )  # fmt: skip
                    page = context.new_page()
                    for path in EVERY_PATH:
                        opened(page, f"{inside}{path.format(cycle=cycle)}")
                        name = path.format(cycle="cycle").strip("/").replace("/", "-") or "story"
                        page.screenshot(path=target / f"{name}-{colours}-{width}.png", full_page=True)
                    context.close()


def team() -> None:
    """The page of a team of four, with the reflex mind."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "home"
        said("init", "--home", str(home))
        (home / "conch.yaml").write_text("team: {crew: {controller: {dwell: 6, cooldown: 6}}}\n")
        with running(home, TEAM_STEPS, "--team", "crew") as link:
            pages(link, TEAM_PAGES)


def terminal() -> None:
    """A run and its status, as they stand on a terminal."""
    with tempfile.TemporaryDirectory() as directory:
        home = str(Path(directory) / "home")
        run = said("run", "--home", home, "--cycles", "16", "--interval", "0.2", "--seed", "1")
        status = said("status", "--home", home)
        text = f"$ ./ops/run\n{run}\n$ conch status\n{status}".replace(home, "~/.local/share/conch")
    console = Console(record=True, width=112, file=io.StringIO(), force_terminal=True)
    for line in text.splitlines():
        console.print(Text(re.sub(r"token=\S+", "token=…", line), style=style_of(line)))
    keep("run.svg", console.export_svg(title="conch"))


def said(*command: str) -> str:
    """What a command prints."""
    return subprocess.run([CONCH, *command], capture_output=True, text=True, check=True).stdout


def style_of(line: str) -> str:
    """Commands stand out, outcomes have their colour."""
    if line.startswith("$"):
        return "bold"
    if not line.lstrip()[:1].isdigit():
        return ""
    return "green" if " success " in line else "red" if " error " in line else ""


@contextmanager
def running(home: Path, cycles: int, *options: str) -> Iterator[str]:
    """A run with these options that has so many cycles behind it and goes on: the link to its page."""
    command = [CONCH, "run", "--home", home, "--seed", "1", "--interval", "0.25", "--ui-port", "0", *options]
    lines: queue.Queue[str] = queue.Queue()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reading = threading.Thread(target=lambda: [lines.put(line) for line in process.stdout or ()], daemon=True)
        reading.start()
        try:
            link = ""
            while not link or cycles > 0:
                line = lines.get(timeout=PATIENCE)
                found = re.search(r"http://\S+token=\S+", line)
                link = found[0] if found else link
                cycles -= bool(re.match(r"\s*\d+ ", line))
            yield link
        finally:
            process.send_signal(signal.SIGTERM)
            reading.join()


def best_cycle(home: Path) -> int:
    """The number of a cycle that has much to show: of the last hundred the best paid that did something."""
    rows = json.loads(said("cycle", "list", "--home", str(home), "--limit", "100", "--json"))["cycles"]
    done = [row for row in rows if row["complete"] and row["outcome"] == "success"] or rows
    return int(max(done, key=lambda row: row["total"])["cycle"])


async def screen(home: Path) -> None:
    """`conch watch`."""
    source = PictureSource(Home(home), load(None, Home(home), {}), WatchPicture(["echo"]))
    app = WatchApp(source)
    async with app.run_test(size=(124, 36)) as pilot:
        following = asyncio.create_task(source.follow())
        await pilot.pause(SETTLE_MS * 4 / 1000)
        drawn = app.export_screenshot(title="conch watch")
        following.cancel()
        await asyncio.wait([following])
    keep("watch.svg", drawn)


def pages(link: str, wanted: Iterable[Any]) -> None:
    """The dashboard's: name, path, colours, size of each."""
    with browsing(link) as (browser, session, inside):
        for name, path, colours, size in wanted:
            context = browser.new_context(
                storage_state=session, color_scheme=colours, viewport=size, reduced_motion="reduce"
            )
            page = context.new_page()
            opened(page, f"{inside}{path}")
            keep(f"{name}.png", page.screenshot())
            context.close()


@contextmanager
def browsing(link: str) -> Iterator[tuple[Browser, Any, str]]:
    """A browser, the session that the link gives, which lets in once, and the address of the pages."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("there is no chromium: install your system's")
    with sync_playwright() as player:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = player.chromium.launch(executable_path=chromium, args=sandbox)
        first = browser.new_context()
        page = first.new_page()
        page.goto(link)
        yield browser, first.storage_state(), page.url.rstrip("/")
        browser.close()


def opened(page: Page, address: str) -> None:
    """The page as it stands a moment after it was loaded."""
    answer = page.goto(address)
    if answer is None or not answer.ok:
        sys.exit(f"{address} answered {answer.status if answer else 'nothing'}")
    page.wait_for_timeout(SETTLE_MS)


def keep(name: str, drawn: str | bytes) -> None:
    """Write a picture; an SVG without fonts from somebody's server."""
    if isinstance(drawn, str):
        drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL).encode()
    (TARGET / name).write_bytes(drawn)
    note = f", more than {MOST_BYTES // 1000} KB" if len(drawn) > MOST_BYTES else ""
    print(f"{TARGET / name}: {len(drawn) / 1000:.0f} KB{note}")


if __name__ == "__main__":
    main()
