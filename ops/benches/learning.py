"""What the embedded mind learns: how many acts it takes for a goal, at first and at last.

Lives in the samples tidepool and backlog and in an orchard that nothing was tuned in: real workspaces, tools and
checks, scored by the consumers' own folds before the next act, without processes and a store, so that a life depends on
its seed alone. Beside the learner stand a blind choice among the same templates, the learner without the features per
template, and the learner without credit over the steps of a task (a contextual bandit).

Acts for a goal are counted from its arrival to its being reached; a goal that was dropped, or is open at the end of the
window, counts at its age. Every goal that was open at some time in the window counts.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import statistics
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from unittest.mock import patch

from embedded import Lived, MakeMind, live
from runs import options
from workspaces import BenchWorkspace, SampleWorkspace
from workspaces.orchard import ORCHARD

from conch.cli.common import open_bus
from conch.config import Settings
from conch.home import Home
from conch.minds import ReflexMind
from conch.minds.embedded import features
from conch.workspace import BACKLOG, PANTRY, TIDEPOOL
from conch_schemas import ActionTaken, Event, Goal, GoalDropped, GoalReached, GoalSet, decode, subject_filter

WORKSPACES: Final[Mapping[str, BenchWorkspace]] = {
    one.name: one for one in (SampleWorkspace(TIDEPOOL), SampleWorkspace(BACKLOG), ORCHARD, SampleWorkspace(PANTRY))
}
MEASURED: Final = ("tidepool", "backlog", "orchard")
HELD_OUT: Final = {name: workspace for name, workspace in WORKSPACES.items() if name != "tidepool"}
"""All but the default one."""
EPSILON: Final = Settings().mind.reflex.epsilon
DRAWS: Final = 2000


@dataclass(frozen=True)
class GoalSpan:
    """When a goal was open, in acts from the beginning of a life."""

    came: int
    over: int | None
    """None: it is open."""
    reached: bool = False
    """By an act."""


def goal_spans(events: Iterable[Event]) -> list[GoalSpan]:
    """The goals of a life from its events, in the order in which they were over; open ones last. Pure."""
    acts, opened, spans = 0, dict[str, int](), list[GoalSpan]()
    for event in events:
        match event:
            case ActionTaken():
                acts += 1
            case GoalSet():
                opened.setdefault(event.goal.id, acts)
            case GoalReached() | GoalDropped() if event.goal in opened:
                reached = isinstance(event, GoalReached) and event.cycle is not None
                spans.append(GoalSpan(opened.pop(event.goal), acts, reached))
    return [*spans, *(GoalSpan(came, None) for came in opened.values())]


def acts_for_a_goal(spans: Iterable[GoalSpan], first: int, last: int) -> list[int]:
    """For each goal that was open at some time among the acts `first` to `last` (exclusive): the acts from its arrival
    to its being reached, or to its being dropped, or to `last` where it was still open then. Pure."""
    ages = []
    for span in spans:
        over = last if span.over is None else min(span.over, last)
        if span.came < last and over > first:
            ages.append(over - span.came)
    return ages


def is_for_a_goal(act: ActionTaken, goals: Mapping[str, Goal]) -> bool:
    """Whether the act raised a goal's measure, or staged a file that an open goal names. Pure."""
    if any(check.outcome in ("partial", "achieved") for check in act.goals):
        return True
    if act.action.skill != "git.add" or act.outcome.status != "success":
        return False
    staged = {*shlex.split(str(act.action.args.get("args", "")))}
    open_goals = [goals[check.goal].statement for check in act.goals if check.goal in goals]
    return bool(open_goals) and ("--all" in staged or any(file in goal for file in staged for goal in open_goals))


@dataclass(frozen=True)
class LifeFigures:
    """The figures of one life."""

    early: float
    late: float
    """Mean acts for a goal, of the first and the last acts."""
    rate: float
    late_rate: float
    """Goals reached per 100 acts: of all acts, of the last ones."""
    idle: float
    """Share of the last acts that are neither for a goal nor a rest, 0..1."""
    rested: float
    """Share of the last acts that are rests, 0..1."""
    total: float
    """Mean total of the last acts."""


def figures(life: Lived, window: int) -> LifeFigures:
    """The figures of a life; `window`: how many acts the first and the last ones are. Pure."""
    spans = goal_spans(life.events)
    acts = [event for event in life.events if isinstance(event, ActionTaken)]
    goals = {event.goal.id: event.goal for event in life.events if isinstance(event, GoalSet)}
    number, late = len(acts), acts[-window:]
    reached = [span.over for span in spans if span.reached and span.over is not None]
    rests = sum(act.action.kind == "DO_NOTHING" for act in late)
    return LifeFigures(
        early=_mean(acts_for_a_goal(spans, 0, window)),
        late=_mean(acts_for_a_goal(spans, number - window, number)),
        rate=100 * len(reached) / number,
        late_rate=100 * sum(over > number - window for over in reached) / window,
        idle=(len(late) - rests - sum(is_for_a_goal(act, goals) for act in late)) / len(late),
        rested=rests / len(late),
        total=statistics.fmean(life.totals[-window:]),
    )


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else 0.0


def interval(samples: Sequence[Sequence[float]], seed: int = 0) -> tuple[float, float]:
    """95 % bootstrap interval of the mean of the samples' means."""
    draw = random.Random(seed)
    means = sorted(
        statistics.fmean(statistics.fmean(draw.choices(sample, k=len(sample))) for sample in samples)
        for _ in range(DRAWS)
    )
    return means[int(DRAWS * 0.025)], means[int(DRAWS * 0.975)]


async def reached(home: Path) -> int:
    """Goals reached by an act in the run of a home."""
    async with open_bus(Home(home), Settings()) as bus:
        found = [decode(one.data).cycle async for one in bus.read([subject_filter(GoalReached)])]
    return sum(cycle is not None for cycle in found)


def _mind(memory: Path, seed: int, **parts) -> ReflexMind:
    return ReflexMind(memory, seed=seed, epsilon=EPSILON, **parts)


VARIANT_MINDS: Final[Mapping[str, MakeMind]] = {
    "learner": _mind,
    "blind choice": partial(_mind, explore="random"),
    "without features": _mind,
    "without credit": partial(_mind, discount=0.0),
}
"""What makes the mind of each variant; the features are left out by `lived`."""


def lived(workspace: str, variant: str, seed: int, cycles: int, window: int) -> LifeFigures:
    """The figures of one life of a variant."""
    make = VARIANT_MINDS[variant]
    if variant != "without features":
        return figures(live(WORKSPACES[workspace], cycles, seed, make), window)

    def without(*given):
        rows = features.features(*given)
        rows[:, features.AIMS :] = 0.0
        return rows

    with patch("conch.minds.reflex.features", without):
        return figures(live(WORKSPACES[workspace], cycles, seed, make), window)


def report(chosen: argparse.Namespace) -> None:
    """Print each workspace's lines as soon as its lives have ended."""
    names = MEASURED if chosen.workspace == "all" else (chosen.workspace,)
    seeds = range(1, chosen.seeds + 1)
    print(f"{chosen.seeds} seeds × {chosen.cycles} cycles; first and last: {chosen.window} acts")
    with ProcessPoolExecutor(max_workers=chosen.processes) as pool:
        for name in names:
            lives = {
                variant: [pool.submit(lived, name, variant, seed, chosen.cycles, chosen.window) for seed in seeds]
                for variant in VARIANT_MINDS
            }
            found = {variant: [one.result() for one in its] for variant, its in lives.items()}
            for variant, its in found.items():
                _print_line(f"{name}: {variant}", its)
            learner, blind = (_mean([one.rate for one in found[variant]]) for variant in ("learner", "blind choice"))
            times = f"{learner / blind:.1f}" if blind else "no goal"
            print(f"{name}: goals of the learner for each of blind choice: {times}", flush=True)


def _print_line(label: str, lives: Sequence[LifeFigures]) -> None:
    early, late, rate, late_rate, idle, rested, total = (
        [getattr(one, name) for one in lives]
        for name in ("early", "late", "rate", "late_rate", "idle", "rested", "total")
    )
    low, high = interval([late])
    print(
        f"{label}: acts for a goal {_mean(early):.1f} -> {_mean(late):.1f} [{low:.1f}, {high:.1f}], "
        f"{_mean(early) / _mean(late) if any(late) else 0.0:.1f} times fewer; goals per 100 acts {_mean(rate):.1f} "
        f"({', '.join(f'{one:.1f}' for one in rate)}), last {_mean(late_rate):.1f}; of the last acts for nothing "
        f"{_mean(idle):.0%}, rests {_mean(rested):.0%}, mean total {_mean(total):+.2f}",
        flush=True,
    )


def main() -> None:
    """Print the lines of each workspace."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workspace", choices=(*WORKSPACES, "all"), default="all")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--window", type=int, default=200, help="acts that count as the first and the last ones")
    parser.add_argument("--processes", type=int, default=2, help="lives at once")
    chosen = options(parser, workspace="orchard", seeds=1, cycles=20, window=10, processes=2)
    report(chosen)


if __name__ == "__main__":
    main()
