"""The agent beside a training child: how long its cycles take while one trains, and while none does.

One `conch run` of the embedded mind in the default workspace, all its consumers with it. Spans with and without
training take turns, so that the rest of the machine does the same to both: one child trains a tiny base, and is stopped
in the others.
A cycle's time is that of its thought, and from the storing of that to the storing of its act.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
from runs import CONCH, percentile

from conch.bus.access import access_to
from conch.bus.jetstream import JetStreamBus
from conch.config import Settings
from conch.data import Selection, make_row, write_snapshot
from conch.errors import ConchError
from conch.home import Home
from conch.rounds import run_child
from conch.training import TrainingFailure, TrainingJob
from conch_schemas import ActionTaken, ThoughtFormed, decode, subject_filter

INTERVAL = 0.05
"""Seconds from one cycle to the next."""
SPANS, QUICK_SPANS = 5, 1
"""Spans of each kind."""
SECONDS, QUICK_SECONDS = 25.0, 5.0
"""Of a span."""
SETTLE = 1.0
"""Seconds at the beginning of a span whose cycles do not count: what the span before left is at its end by then."""
ROWS = 400
START_SECONDS, BEGIN_SECONDS = 60.0, 300.0
"""Longest waits for the first acts, and for the child's first step."""
SYSTEM = 'Answer with one action: TOOL: filesystem(operation="read", path="FILE"), or DO_NOTHING: reason.'
MAKE = """
import json, sys
from pathlib import Path
from conch.training.tiny import make_tiny_model
make_tiny_model(Path(sys.argv[1]), json.loads(sys.stdin.read()), steps=0)
"""


class Span(NamedTuple):
    """A span of time, in seconds since the epoch."""

    trains: bool
    begin: float
    end: float


def measure(quick: bool) -> None:
    """Print all rows. `quick`: short spans, no figures to quote."""
    asyncio.run(_measure(QUICK_SPANS if quick else SPANS, QUICK_SECONDS if quick else SECONDS))


async def _measure(spans: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory(prefix="conch-bench-") as directory:
        place = Path(directory)
        job, home = _job(place), Home(place / "home")
        process = subprocess.Popen(
            [CONCH, "run", "--home", home.path, "--interval", str(INTERVAL), "--seed", "1", "--ui-port", "0"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            await _acts(home)
            async with _child(place, job) as child:
                had = list[Span]()
                for number in range(2 * spans):
                    begin, trains = time.time(), bool(number % 2)
                    child.goes_on(trains)
                    await asyncio.sleep(seconds)
                    had.append(Span(trains, begin + SETTLE, time.time()))
                steps, share = child.steps, child.used() / (spans * seconds)
            times = await _cycle_times(home)
        finally:
            process.terminate()
            process.wait()
    _tell(times, had, steps, share)


def _job(place: Path) -> TrainingJob:
    """A job that takes longer than a span."""
    rows, prompts = [], []
    for number in range(ROWS):
        file = f"notes/{number * 7919 % 1000}.md"
        user = f"{number}: the needs are curiosity 0.{number % 10}, order 0.{number % 7}. Read the file {file}. " * 8
        prompt = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": user}]
        said = [{"role": "assistant", "content": f'TOOL: filesystem(operation="read", path="{file}")'}]
        columns = {"prompt": prompt, "completion": said}
        split = "eval" if number % 10 == 0 else "train"
        rows.append(
            make_row("sft", columns, agent="echo", action_ids=(), state_key=file, prompt_hash="", split=split)  # type: ignore[arg-type]
        )
        prompts.append(prompt)
    base = place / "tiny"
    subprocess.run([sys.executable, "-c", MAKE, str(base)], input=json.dumps(prompts[:50]), text=True, check=True)
    snapshot, *_ = write_snapshot(rows, place / "data", "sft", Selection(), name="new")
    return TrainingJob(
        round="r",
        method="sft",
        snapshot=snapshot,
        base=base,
        out=place / "adapter",
        epochs=100.0,
        batch=8,
        kl_cap=100.0,
    )


class TrainingChild:
    """A child that trains, is stopped and goes on."""

    def __init__(self, process: psutil.Process) -> None:
        self._process, self._before = process, process.cpu_times()
        self.steps = 0
        """Since its first one."""

    def goes_on(self, trains: bool) -> None:
        """Let it train, or stop it."""
        self._process.send_signal(signal.SIGCONT if trains else signal.SIGSTOP)

    def used(self) -> float:
        """Seconds of processor time since its first step."""
        now = self._process.cpu_times()
        return now.user + now.system - self._before.user - self._before.system


@asynccontextmanager
async def _child(place: Path, job: TrainingJob) -> AsyncIterator[TrainingChild]:
    """Entered, a child has done its first step."""
    begun, child = asyncio.Event(), list[TrainingChild]()

    async def follow() -> None:
        async with aclosing(run_child(job, place / "child.log")) as reports:
            async for report in reports:
                if isinstance(report, TrainingFailure):
                    raise SystemExit(f"the child failed: {report.reason}")
                if begun.is_set():
                    child[0].steps += 1
                    continue
                known = [one for one in psutil.Process().children() if "conch.training.child" in one.cmdline()]
                child.append(TrainingChild(known[0]))
                begun.set()

    following = asyncio.create_task(follow())
    try:
        async with asyncio.timeout(BEGIN_SECONDS):
            await asyncio.wait(
                {following, beginning := asyncio.create_task(begun.wait())}, return_when="FIRST_COMPLETED"
            )
        if following.done():
            await following
        await beginning
        yield child[0]
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


async def _acts(home: Home) -> None:
    """Wait for the agent's first acts."""
    async with asyncio.timeout(START_SECONDS):
        while True:
            with contextlib.suppress(ConchError, OSError):
                if len(await _cycle_times(home)) >= 20:
                    return
            await asyncio.sleep(0.5)


async def _cycle_times(home: Home) -> list[tuple[float, float]]:
    """When each act was stored, in seconds since the epoch, and the milliseconds that its cycle took until then."""
    access = access_to(home, Settings())
    if access is None:
        return []
    thought, found = dict[int, tuple[float, float]](), list[tuple[float, float]]()
    async with JetStreamBus(access, name="bench") as bus:
        async for delivery in bus.read([subject_filter(ThoughtFormed), subject_filter(ActionTaken)]):
            event = decode(delivery.data)
            if isinstance(event, ThoughtFormed):
                thought[event.cycle or 0] = delivery.time, event.ms
            elif isinstance(event, ActionTaken) and (event.cycle or 0) in thought:
                stored, ms = thought[event.cycle or 0]
                found.append((delivery.time, (delivery.time - stored) * 1000 + ms))
    return found


def _tell(times: Sequence[tuple[float, float]], spans: Sequence[Span], steps: int, share: float) -> None:
    p99s = []
    for trains, name in ((False, "without training"), (True, "beside training")):
        took = [ms for at, ms in times if any(one.trains is trains and one.begin <= at < one.end for one in spans)]
        p99s.append(percentile(took, 0.99))
        print(
            f"cycle {name:<17} n {len(took):>5}  p50 {statistics.median(took):6.1f} ms  p99 {p99s[-1]:6.1f} ms",
            flush=True,
        )
    print(
        f"p99 beside training / without: {p99s[1] / p99s[0]:.2f}; {steps} steps, the child had {share:.0%} of a core, "
        f"of {os.cpu_count()}, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
