"""What the embedded mind learns: real runs in the default workspace, against a blind choice among the same templates.

For each seed: the mean total of the last cycles less that of the first, and of the whole less the blind policy's.
Intervals are 95 % bootstrap intervals over the cycles' totals of all seeds.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Sequence

from runs import conch_run, fresh_home

DRAWS = 2000


def interval(samples: Sequence[Sequence[float]], seed: int = 0) -> tuple[float, float]:
    """95 % bootstrap interval of the mean of the samples' means."""
    draw = random.Random(seed)
    means = sorted(
        statistics.fmean(statistics.fmean(draw.choices(sample, k=len(sample))) for sample in samples)
        for _ in range(DRAWS)
    )
    return means[int(DRAWS * 0.025)], means[int(DRAWS * 0.975)]


def totals(seed: int, cycles: int, model: str) -> list[float]:
    """The totals of one run, in the order of the cycles."""
    with fresh_home() as home:
        options = ("--cycles", str(cycles), "--interval", "0", "--seed", str(seed))
        rows = conch_run(home, *options, env={"CONCH_MIND__MODEL": model}).rows
    return [row["total"] for row in sorted(rows, key=lambda row: row["cycle"])]


def main() -> None:
    """Print a line a seed, then the means with their intervals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cycles", type=int, default=300)
    parser.add_argument("--first", type=int, default=50)
    parser.add_argument("--last", type=int, default=100)
    options = parser.parse_args()
    learned, blind = [], []
    for seed in range(1, options.seeds + 1):
        mine = totals(seed, options.cycles, "default")
        other = totals(seed, options.cycles, "random")
        learned.append(mine)
        blind.append(other)
        first, last = statistics.fmean(mine[: options.first]), statistics.fmean(mine[-options.last :])
        print(
            f"seed {seed}: first {options.first} {first:+.3f}, last {options.last} {last:+.3f}, "
            f"gain {last - first:+.3f}; blind, last {options.last} {statistics.fmean(other[-options.last :]):+.3f}",
            flush=True,
        )
    for name, samples in (
        (f"reflex, first {options.first}", [run[: options.first] for run in learned]),
        (f"reflex, last {options.last}", [run[-options.last :] for run in learned]),
        (f"blind, last {options.last}", [run[-options.last :] for run in blind]),
    ):
        low, high = interval(samples)
        mean = statistics.fmean(statistics.fmean(sample) for sample in samples)
        print(f"{name}: {mean:+.3f} [{low:+.3f}, {high:+.3f}]")


if __name__ == "__main__":
    main()
