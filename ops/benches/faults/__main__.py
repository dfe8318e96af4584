"""Faults, injected and counted: ops/bench faults [--times N] [--quick].

Prints one row a fault, as Markdown: how often it was injected, how much of what had been acknowledged was lost, how
much is there twice, and the seconds from the end of the fault to all being as before. Ends with 1 where a promise was
broken. With --quick the first fault of each family, once.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import sys
import time

import structlog
from runs import options

from faults import clock, full, killed, loaded, power, single
from faults.row import Row

HEAD = "| fault | injected | lost | doubled | seconds to recover, median | worst |\n|---|---|---|---|---|---|"


async def _all(times: int, most: int | None) -> list[Row]:
    """The rows; of each family of faults the first `most`."""
    rows = []
    families = (loaded.FAULTS, killed.FAULTS, single.FAULTS, full.FAULTS, clock.FAULTS, power.FAULTS)
    for share, fault in [fault for family in families for fault in family[:most]]:
        began = time.perf_counter()
        row = await fault(max(1, math.ceil(times * share)))
        if not row.injected:
            print(f"{row.fault}: not possible here (root, and leave to mount)", file=sys.stderr)
            continue
        print(f"{row.fault}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
        rows.append(row)
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="ops/bench faults", description=__doc__)
    parser.add_argument("--times", type=int, default=40, help="injections of a fault; fewer of those that take long")
    chosen = options(parser, times=1)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    rows = asyncio.run(_all(chosen.times, 1 if chosen.quick else None))
    print(HEAD)
    for row in rows:
        print(row.markdown)
    counts = [sum(getattr(row, name) for row in rows if not row.allowed) for name in ("injected", "lost", "doubled")]
    print(f"| all, without what may be lost by promise | {counts[0]} | {counts[1]} | {counts[2]} | | |")
    for sentence in [sentence for row in rows for sentence in row.wrong]:
        print(f"WRONG: {sentence}")
    sys.exit(not all(row.holds for row in rows))


if __name__ == "__main__":
    main()
