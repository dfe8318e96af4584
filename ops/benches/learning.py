"""What the embedded mind learns: real runs in the default workspace, against a blind choice among the same templates.

For each seed: the mean total of the last cycles less that of the first, and of the whole less the blind policy's.
Intervals are 95 % bootstrap intervals over the cycles' totals of all seeds.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Sequence

from runs import conch_run, fresh_home, options

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
    chosen = options(parser, seeds=1, cycles=4, first=2, last=2)
    learned, blind = [], []
    for seed in range(1, chosen.seeds + 1):
        mine = totals(seed, chosen.cycles, "default")
        other = totals(seed, chosen.cycles, "random")
        learned.append(mine)
        blind.append(other)
        first, last = statistics.fmean(mine[: chosen.first]), statistics.fmean(mine[-chosen.last :])
        print(
            f"seed {seed}: first {chosen.first} {first:+.3f}, last {chosen.last} {last:+.3f}, "
            f"gain {last - first:+.3f}; blind, last {chosen.last} {statistics.fmean(other[-chosen.last :]):+.3f}",
            flush=True,
        )
    for name, samples in (
        (f"reflex, first {chosen.first}", [run[: chosen.first] for run in learned]),
        (f"reflex, last {chosen.last}", [run[-chosen.last :] for run in learned]),
        (f"blind, last {chosen.last}", [run[-chosen.last :] for run in blind]),
    ):
        low, high = interval(samples)
        mean = statistics.fmean(statistics.fmean(sample) for sample in samples)
        print(f"{name}: {mean:+.3f} [{low:+.3f}, {high:+.3f}]")


if __name__ == "__main__":
    main()
