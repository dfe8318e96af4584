"""Teams: the cost of a decision, a switch, a message, a step, of a hundred teams in one run; kills; does it pay?

The hundred teams are a real run of `conch`. All else is in this process, on a bus in memory: no model, no disk, no
server. A kill is the death of the process at a publish around a switch: before the event is stored, or stored and not
acknowledged. The tasks are simulated (`conch.teams.simulate`): they compare controllers and say nothing of real teams.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

from runs import options, percentile

from conch.config import TeamSettings
from conch.teams import (
    CHOICES,
    ROLES,
    ControllerSetup,
    ControllerState,
    RoutedMessage,
    RouterState,
    Topology,
    aborted,
    committed,
    decided,
    feature_vector,
    prepared,
    sent,
    switch,
    taken,
    with_decision,
    with_reward,
)
from conch.teams.simulate import CONTROLLERS, best_fixed, compared, gain, intervals
from team import kills
from team.crew import Crew
from team.crowd import crowd

IN_FLIGHT = 150
"""Messages that wait to be delivered when a switch begins, for three roles."""


def decisions(number: int) -> dict[str, float]:
    """Milliseconds of a decision with its features, of a controller that has learnt; and of learning a reward."""
    state, setup = ControllerState(), ControllerSetup()
    asked, learnt = [], []
    for at in range(number):
        began = time.perf_counter()
        x = feature_vector("star", at % 5, ["planner", "coder", "critic"] * 20, at % 9000, 10_000)
        choice = decided(state, x, setup)
        asked.append((time.perf_counter() - began) * 1000)
        state = with_decision(state, str(at), x, choice.action)
        began = time.perf_counter()
        state = with_reward(state, str(at), (at % 7) / 7 - CHOICES.index(choice.action) / 10)
        learnt.append((time.perf_counter() - began) * 1000)
    return {
        "decision p50, ms": percentile(asked, 0.5),
        "decision p99, ms": percentile(asked, 0.99),
        "reward learnt p50, ms": percentile(learnt, 0.5),
    }


class InFlight:
    """A router with messages in flight, whose roles take them while it switches."""

    def __init__(self) -> None:
        self.router, self.moved, self.got = RouterState(), asyncio.Event(), 0
        for at in range(IN_FLIGHT):
            to = ROLES[1 + at % 3]
            queue = (*self.router.queues.get(to, ()), _message(at, to))
            self.router = self.router.model_copy(update={"queues": {**self.router.queues, to: queue}})

    async def work(self) -> None:
        """Each role takes its messages, turn by turn, until all are there."""
        while self.got < IN_FLIGHT:
            for role in ROLES[1:]:
                self.router, messages = taken(self.router, role)
                self.got += len(messages)
                self.moved.set()
                await asyncio.sleep(0)

    async def changed(self) -> None:
        await self.moved.wait()
        self.moved.clear()

    async def prepare(self, target: Topology) -> None:
        self.router = prepared(self.router, target)

    async def commit(self) -> None:
        self.router = committed(self.router)

    async def abort(self, why: str) -> None:
        self.router = aborted(self.router)


def _message(at: int, to: str, epoch: int = 0) -> RoutedMessage:
    return RoutedMessage(id=str(at), sender="planner", to=to, text="x" * 200, step=at, epoch=epoch)


async def switches(number: int) -> dict[str, float]:
    """Milliseconds of a switch with IN_FLIGHT messages on their way, all of which arrive."""
    took, lost, failed = [], 0, 0
    for _ in range(number):
        live = InFlight()
        async with asyncio.TaskGroup() as group:
            group.create_task(live.work())
            found = await switch(live, "chain", live.changed)
        took.append(found.ms)
        failed += not found.ok
        lost += IN_FLIGHT - live.got
    return {
        "switch p50, ms": percentile(took, 0.5),
        "switch p99, ms": percentile(took, 0.99),
        "switches aborted": failed,
        "messages lost in switches": lost,
    }


def messages(number: int) -> dict[str, float]:
    """Messages in a second of processor time through the router: sent, delivered and taken, one process."""
    router, began = RouterState(), time.process_time()
    for at in range(number):
        to = ROLES[1 + at % 3]
        router = sent(router, _message(at, to))
        if at % 30 == 29:
            for role in ROLES[1:]:
                router, _ = taken(router, role)
    return {"messages a second of processor time": number / (time.process_time() - began)}


async def steps(number: int, times: int) -> dict[str, float]:
    """Processor milliseconds of a team's step, and of a cycle of an agent alone, in turns; medians of the runs."""
    took: dict[str, list[float]] = {"team": [], "alone": []}
    for _ in range(times):
        for name, team in (("team", TeamSettings()), ("alone", None)):
            took[name].append(await Crew(team).run(number) * 1000 / number)
    return {
        "step of a team, processor ms": median(took["team"]),
        "cycle of an agent alone, processor ms": median(took["alone"]),
    }


def controllers(seeds: int, episodes: int, counted: int) -> dict[str, Any]:
    """Each controller on the same simulated tasks: means over the seeds with intervals of 95 %."""
    found = [compared(seed, episodes, counted) for seed in range(seeds)]
    best = best_fixed(found)
    return {
        "seeds": seeds,
        "episodes": episodes,
        "counted": counted,
        "best_fixed": best,
        "controllers": {
            name: {figure: one._asdict() for figure, one in row.items()} for name, row in intervals(found).items()
        },
        "gain_over_best_fixed": {name: gain(found, name, best)._asdict() for name in ("learned", "frozen")},
    }


def _table(found: dict[str, Any]) -> str:
    lines = [
        f"{found['seeds']} seeds, the last {found['counted']} of {found['episodes']} episodes each; 95 % intervals",
        "| controller | reward | steps | tokens | switches | done | regret |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in CONTROLLERS:
        row = found["controllers"][name]
        figures = (("reward", 3), ("steps", 1), ("tokens", 0), ("switches", 1), ("done", 2), ("regret", 3))
        cells = [
            f"{row[figure]['mean']:.{digits}f} ({row[figure]['low']:.{digits}f} to {row[figure]['high']:.{digits}f})"
            for figure, digits in figures
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    for name, one in found["gain_over_best_fixed"].items():
        lines.append(
            f"{name} over {found['best_fixed']}, the best fixed topology: {one['mean']:+.3f} reward "
            f"({one['low']:+.3f} to {one['high']:+.3f})"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the figures, and write them as JSON where that is asked for."""
    parser = argparse.ArgumentParser(prog="team", description=__doc__)
    parser.add_argument("--decisions", type=int, default=5000)
    parser.add_argument("--switches", type=int, default=300)
    parser.add_argument("--messages", type=int, default=30_000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--teams", type=int, default=100, help="teams in one run")
    parser.add_argument("--each", type=int, default=10, help="steps of each of them, on average")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--episodes", type=int, default=600)
    parser.add_argument("--counted", type=int, default=200)
    parser.add_argument("--json", type=Path, help="file for the figures")
    chosen = options(
        parser,
        decisions=300, switches=10, messages=1000, steps=10, times=1, teams=2, each=3, kills=3, seeds=2, episodes=12,
        counted=6,
    )  # fmt: skip
    costs = decisions(chosen.decisions)
    costs |= asyncio.run(switches(chosen.switches))
    costs |= messages(chosen.messages)
    costs |= asyncio.run(steps(chosen.steps, chosen.times))
    costs |= crowd(chosen.teams, chosen.each)
    dead = kills.run(chosen.kills)
    for name, value in costs.items():
        print(f"{name}: {value:,.4g}")
    print(
        f"kills: {dead.kills} ({dead.in_switches} at a prepare or an end); lost {dead.lost}, doubled {dead.doubled}, "
        f"left open {dead.open}"
    )
    pays = controllers(chosen.seeds, chosen.episodes, chosen.counted)
    print(_table(pays))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps({"costs": costs, "kills": vars(dead), "controllers": pays}, indent=2) + "\n")
    if dead.lost or dead.doubled or dead.open:
        raise SystemExit("a kill left something behind")


if __name__ == "__main__":
    main()
