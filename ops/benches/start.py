"""From the command to the first recorded experience, and a whole run of one cycle, each on a fresh home."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

from runs import conch_run, fresh_home, options


def main() -> None:
    """Print medians in seconds, and as multiples of starting Python with the two heaviest libraries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=9)
    times = options(parser, times=1).times
    first, whole, bare = [], [], []
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import pydantic, nats, cyclopts"], check=True)
        bare.append(time.perf_counter() - began)
        with fresh_home() as home:
            timed = conch_run(home, "--cycles", "1")
        first.append(timed.first)
        whole.append(timed.whole)
    unit = statistics.median(bare)
    print(f"python -c 'import pydantic, nats, cyclopts': {unit:.2f} s")
    for name, values in (("command to first recorded experience", first), ("conch run --cycles 1, whole", whole)):
        middle = statistics.median(values)
        print(f"{name}: median {middle:.2f} s ({middle / unit:.1f} x), worst of {times} {max(values):.2f} s")


if __name__ == "__main__":
    main()
