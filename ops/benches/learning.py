"""What the embedded mind learns: real runs in the default workspace and in two that it was not tuned in.

For each workspace: the mean total of the learner's first and last cycles, a blind choice among the same templates, the
best of a few fixed policies (lists of templates, always the first that can be filled), and the goals that each reached
by an act. Intervals are 95 % bootstrap intervals over the cycles' totals of all seeds.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from policies import POLICIES, write_policy
from runs import conch_run, fresh_home, options
from workspaces import HeldOutWorkspace
from workspaces.backlog import BACKLOG
from workspaces.pantry import PANTRY

from conch.cli.common import open_bus
from conch.config import Settings
from conch.home import Home
from conch_schemas import GoalReached, decode, subject_filter

DRAWS = 2000
HELD_OUT = {one.name: one for one in (BACKLOG, PANTRY)}


@dataclass(frozen=True)
class Lived:
    """A run: the totals in the order of the cycles, and the goals reached by an act."""

    totals: list[float]
    goals: int

    @property
    def rate(self) -> float:
        """Goals per 100 cycles."""
        return 100 * self.goals / len(self.totals)


def interval(samples: Sequence[Sequence[float]], seed: int = 0) -> tuple[float, float]:
    """95 % bootstrap interval of the mean of the samples' means."""
    draw = random.Random(seed)
    means = sorted(
        statistics.fmean(statistics.fmean(draw.choices(sample, k=len(sample))) for sample in samples)
        for _ in range(DRAWS)
    )
    return means[int(DRAWS * 0.025)], means[int(DRAWS * 0.975)]


async def reached(home: Path) -> int:
    """Goals reached by an act."""
    async with open_bus(Home(home), Settings()) as bus:
        found = [decode(one.data).cycle async for one in bus.read([subject_filter(GoalReached)])]
    return sum(cycle is not None for cycle in found)


def lived(
    workspace: HeldOutWorkspace | None, seed: int, cycles: int, *, model: str = "default", policy: str = ""
) -> Lived:
    """One run. `policy`: by a fixed one."""
    with fresh_home() as name:
        home = Path(name)
        if workspace is not None:
            workspace.furnish(home)
        if policy:
            write_policy(policy, Home(home).agent_dir("echo") / "reflex.npz")
        chosen = ("--cycles", str(cycles), "--interval", "0", "--seed", str(seed))
        env = {"CONCH_MIND__MODEL": model, "PYTHONPATH": str(Path(__file__).parent)}
        rows = conch_run(name, *chosen, env=env).rows
        totals = [row["total"] for row in sorted(rows, key=lambda row: row["cycle"])]
        return Lived(totals, asyncio.run(reached(home)))


def report(name: str, chosen: argparse.Namespace) -> None:
    """Print one workspace's lines, each as soon as its runs have ended."""
    workspace, first, last = HELD_OUT.get(name), chosen.first, chosen.last
    seeds = range(1, chosen.seeds + 1)
    learned = [lived(workspace, seed, chosen.cycles) for seed in seeds]
    _print_line(f"{name}: learner, first {first}", [run.totals[:first] for run in learned], learned)
    _print_line(f"{name}: learner, last {last}", [run.totals[-last:] for run in learned], learned)
    blind = [lived(workspace, seed, chosen.cycles, model="random") for seed in seeds]
    _print_line(f"{name}: blind choice, last {last}", [run.totals[-last:] for run in blind], blind)
    ends = {}
    for policy in POLICIES:
        fixed = [lived(workspace, seed, chosen.cycles, policy=policy) for seed in seeds[: chosen.policy_seeds]]
        samples = [run.totals[-last:] for run in fixed]
        _print_line(f"{name}: fixed: {policy}, last {last}", samples, fixed)
        ends[policy] = _mean(samples)
    best = max(ends, key=lambda policy: ends[policy])
    ahead = _mean([run.totals[-last:] for run in learned]) - ends[best]
    print(f"{name}: learner less the best fixed policy ({best}), last {last}: {ahead:+.3f}", flush=True)


def _print_line(label: str, samples: Sequence[Sequence[float]], runs: Sequence[Lived]) -> None:
    low, high = interval(samples)
    total, rate = sum(run.goals for run in runs), statistics.fmean(run.rate for run in runs)
    goals = f"goals reached {total}, {rate:.2f} per 100 cycles"
    print(f"{label}: {_mean(samples):+.3f} [{low:+.3f}, {high:+.3f}]; {goals}", flush=True)


def _mean(samples: Sequence[Sequence[float]]) -> float:
    return statistics.fmean(statistics.fmean(sample) for sample in samples)


def main() -> None:
    """Print the lines of each workspace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workspace", choices=("default", *HELD_OUT, "all"), default="all")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--policy-seeds", type=int, default=2, help="of these, so many for each fixed policy")
    parser.add_argument("--cycles", type=int, default=500)
    parser.add_argument("--first", type=int, default=50)
    parser.add_argument("--last", type=int, default=100)
    chosen = options(parser, workspace="backlog", seeds=1, policy_seeds=1, cycles=4, first=2, last=2)
    for name in ("default", *HELD_OUT) if chosen.workspace == "all" else (chosen.workspace,):
        report(name, chosen)


if __name__ == "__main__":
    main()
