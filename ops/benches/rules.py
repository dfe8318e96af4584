"""What a rule that blocks costs its neighbours: a good rule's time from act to score, and the agent's cycle.

Real runs under strict durability. The neighbour blocks for 10 s of its 20 s timeout on every act, asleep or, with
`--spin`, at work. Act to score: between the act's and the score's times in the stream, one clock. A cycle: from one act
to the next, there, the interval between them included.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median

from runs import CONCH, fresh_home, options, percentile

from conch.bus.access import Access
from conch.bus.jetstream import JetStreamBus
from conch.cli.common import embedded_server
from conch.config import Settings
from conch.home import Home
from conch_schemas import ActionTaken, RewardAssigned, decode, subject_filter

GOOD = "from conch import rule\n@rule(weight=0.1)\ndef good(action):\n    return 1.0 if len(action.raw) < 40 else 0.5\n"
BAD = "import time\nfrom conch import rule\n@rule(weight=0.1, timeout=20)\ndef blocked(action):\n    {wait}\n"
WARM, QUICK_WARM = 60, 1
"""Acts at the beginning that do not count, nor those of the first two seconds after the first score: the rules'
processes are being started, and what waited for that is scored."""
SLEEP, SPIN = "time.sleep(10)", "end = time.monotonic() + 10\n    while time.monotonic() < end: pass"


async def times(home: str, warm: int) -> tuple[list[float], list[float]]:
    """Milliseconds from each act to the good rule's score of it, and from each act to the next."""
    server = embedded_server(Home(Path(home)), Settings())
    await server.start()
    acts: dict[str, float] = {}
    scored: dict[str, float] = {}
    try:
        async with JetStreamBus(Access(server.url, token=server.token)) as bus:
            kinds = (ActionTaken, RewardAssigned)
            async for delivery in bus.read([subject_filter(kind) for kind in kinds]):
                event = decode(delivery.data)
                if isinstance(event, ActionTaken):
                    acts[event.id] = delivery.time
                elif isinstance(event, RewardAssigned) and event.scorer == "good" and event.causation_id in acts:
                    scored[event.causation_id] = delivery.time
    finally:
        await server.stop()
    begin = min(scored.values()) + 2.0 if warm == WARM else 0.0
    counted = {id: time for id, time in list(acts.items())[warm:] if time > begin}
    waits = [(scored[id] - time) * 1000 for id, time in counted.items() if id in scored]
    return waits, [(after - before) * 1000 for before, after in pairwise(counted.values())]


def measure(cycles: int, interval: float, bad: str | None, warm: int = WARM) -> tuple[list[float], list[float]]:
    """One run of so many cycles, ended then: what is blocked is not waited for."""
    with fresh_home() as place:
        home = f"{place}/home"
        script = Path(place) / "no-op.txt"
        script.write_text("DO_NOTHING: resting\n" * ((warm + cycles) * 50))
        files = {"good.py": GOOD} | ({"bad.py": bad} if bad is not None else {})
        named = []
        for name, text in files.items():
            (Path(place) / name).write_text(text)
            named += ["--rules", f"{place}/{name}"]
        command = [str(CONCH), "run", "--home", home, "--json", "--interval", str(interval), "--script", str(script)]
        environment = os.environ | {"CONCH_REWARDS__DEADLINE": "1"}  # so that rows come though one rule is blocked
        run = subprocess.Popen(
            [*command, *named], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        assert run.stdout is not None
        for _ in range(warm + cycles):
            if not run.stdout.readline():
                sys.exit(run.communicate()[1])
        run.send_signal(signal.SIGINT)
        run.communicate()
        return asyncio.run(times(home, warm))


def main() -> None:
    """Print p50 and p99 in milliseconds, without the neighbour and with it, in turns: each the median of the runs'."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--interval", type=float, default=0.05)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--spin", action="store_true")
    chosen = options(parser, cycles=10, times=1, interval=0.2)
    bad = BAD.format(wait=SPIN if chosen.spin else SLEEP)
    kinds: dict[str, str | None] = {"alone": None, "beside one that blocks for 10 s": bad}
    found: dict[str, list[tuple[list[float], list[float]]]] = {title: [] for title in kinds}
    for _ in range(chosen.times):
        for title, text in kinds.items():
            found[title].append(measure(chosen.cycles, chosen.interval, text, QUICK_WARM if chosen.quick else WARM))
    for title, runs in found.items():
        print(f"{title}: {len(runs)} runs, {sum(len(cycles) for _, cycles in runs)} cycles")
        for name, values in zip(
            ("act to a good rule's score", "from act to act"), zip(*runs, strict=True), strict=True
        ):
            middle, far = (median([percentile(run, share) for run in values]) for share in (0.5, 0.99))
            print(f"  {name}: p50 {middle:.2f} ms, p99 {far:.2f} ms")


if __name__ == "__main__":
    main()
