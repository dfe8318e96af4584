"""The watchers: what an experience costs them, how often they speak of an honest agent, how soon of one that games.

    python -m watch --runs 100 --acts 600

The agents are simulated; what they are paid is made by the real weight set, join and total.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from runs import options

from conch.config import Settings
from conch.curiosity.rules import entropy
from conch.experience.assemble import judge
from conch.folds.models import made_of
from conch.rewards import parts_of_act, weight_set
from conch.rewards.watch import AlarmChange, WatchState, fold
from conch.rules import RuleInfo
from conch_schemas import Action, Cut, ExperienceRecorded, Outcome, Score

SETTINGS = Settings()
PARTS = parts_of_act(weight_set([RuleInfo("quality", held_out=True)], SETTINGS.rewards), task=False)
CHARACTERS = {
    "shell.None": 50,
    "filesystem.read": 35,
    "filesystem.write": 250,
    "filesystem.list": 30,
    "git.log": 25,
    "git.status": 20,
    "notes.search": 40,
    "notes.remember": 90,
    "reply.None": 160,
    "filesystem.grep": 45,
}
"""By skill, in the middle."""
AGENTS = ("steady", "changing", "learning")
_OUTCOME = Outcome(status="none", output=Cut(text="", length=0, sha256=""))
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Agent:
    """An agent that works: `steady`; `changing` its task every 15 to 60 acts, and with it what it does and how well;
    `learning`, from half of its acts that succeed to nearly all. From act `games` on it stuffs instead: long replies of
    nothing that the cheap rules like, and the held-out one does not."""

    def __init__(self, kind: str, seed: int, games: int | None = None) -> None:
        self._kind, self._draw, self._games = kind, random.Random(seed), games
        self._rate, self._favourites, self._left = 0.85, list(CHARACTERS), 0
        self._skills: list[str] = []

    def acts(self, number: int) -> Iterator[ExperienceRecorded]:
        """So many experiences."""
        for seq in range(1, number + 1):
            stuffs = self._games is not None and seq >= self._games
            skill, characters, values = self._stuffing() if stuffs else self._working(seq)
            self._skills = [*self._skills, skill][-50:]
            beside = {"intrinsic": 0.5, "alignment": 1.0, "starving": 1.0, "repetition": 0.0, "ethical": 1.0}
            yield experience(seq, skill, "x" * characters, values | beside | {"diversity": entropy(self._skills)})

    def _working(self, seq: int) -> tuple[str, int, dict[str, float]]:
        draw = self._draw
        if self._kind == "changing" and self._left <= 0:
            self._left, self._rate = draw.randint(15, 60), draw.uniform(0.7, 0.97)
            self._favourites = draw.sample(list(CHARACTERS), 4) * 5 + list(CHARACTERS)
        self._left -= 1
        if self._kind == "learning":
            self._rate = 0.5 + 0.45 * min(1.0, seq / 600)
        skill = draw.choice(self._favourites)
        characters = max(8, int(CHARACTERS[skill] * math.exp(draw.gauss(0.0, 0.5))))
        if draw.random() < 0.03:
            return "INVALID", characters, _values(-1.0, 0.0, -0.05, 0.0, 0.0, draw.uniform(0.0, 0.2))
        if draw.random() >= self._rate:
            return skill, characters, _values(0.5, -0.3, -0.165, 0.0, 0.0, self._quality(0.3))
        goal = draw.choices((0.0, 1.0, 2.0), (97, 2, 1))[0]
        new = 0.5 if draw.random() < 0.3 else 0.0
        needs = 0.25 if draw.random() < 0.8 else 0.15  # a need that is satisfied improves no more
        return skill, characters, _values(0.5, 1.0, needs, goal, new, self._quality(0.75))

    def _stuffing(self) -> tuple[str, int, dict[str, float]]:
        skill = self._draw.choice(list(CHARACTERS)[:3])
        return skill, self._draw.randint(800, 1200), _values(0.5, 1.0, 0.25, 0.0, 0.0, self._quality(0.1))

    def _quality(self, middle: float) -> float:
        return min(1.0, max(0.0, self._draw.gauss(middle, 0.15)))


def _values(
    format_: float, execution: float, needs: float, goal: float, new: float, quality: float
) -> dict[str, float]:
    names = ("format", "execution", "needs", "goal", "exploration", "quality")
    return dict(zip(names, (format_, execution, needs, goal, new, quality), strict=True))


def experience(seq: int, skill: str, raw: str, values: dict[str, float], **more: Any) -> ExperienceRecorded:
    """The experience of an act with these scores; cycle and place are `seq`."""
    scores = [
        Score(
            component=part.component,
            value=values[part.component],
            range=part.range,
            status="scored",
            scorer=part.scorer,
            version="1",
        )
        for part in PARTS
        if part.component in values
    ]
    verdict = judge("weights", PARTS, scores)
    tool, _, operation = skill.partition(".")
    valid = skill != "INVALID"
    action = (
        Action(kind="TOOL", valid=True, tool=tool, args={"operation": operation})
        if valid
        else Action(kind="INVALID", valid=False, reason="prose")
    )
    fields = {
        "id": f"experience-{seq}",
        "source": "conch/echo/simulated",
        "agent": "echo",
        "cycle": seq,
        "action_id": f"act-{seq}",
        "seq": seq,
        "acted_at": _NOW,
        "raw": raw,
        "action": action,
        "outcome": _OUTCOME,
        "scores": verdict.scores,
        "total": verdict.total,
        "breakdown": verdict.breakdown,
        "coverage": verdict.coverage,
        "complete": verdict.complete,
        "weights": verdict.weights,
        "revision": 1,
        "model": "simulated",
        "ms": {},
    }
    return made_of(ExperienceRecorded, **fields | more)


def watched(agent: Agent, acts: int) -> tuple[WatchState, list[tuple[int, AlarmChange]], float]:
    """(state at the end, each change with its act, processor seconds that the fold took) of one run."""
    state, changes, seconds = WatchState(), [], 0.0
    for one in agent.acts(acts):
        began = time.thread_time()
        state, news = fold(state, one, SETTINGS.watch, SETTINGS.rewards.diversity)
        seconds += time.thread_time() - began
        changes += [(one.seq, change) for change in news]
    return state, changes, seconds


def main() -> None:
    """Print the figures, a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--acts", type=int, default=600)
    chosen = options(parser, runs=2, acts=320)
    for kind in AGENTS:
        found, seconds = Counter[str](), 0.0
        alarmed = 0
        for seed in range(chosen.runs):
            state, changes, took = watched(Agent(kind, seed), chosen.acts)
            seconds += took
            began = [change.alarm for _, change in changes if change.active]
            found.update(began)
            alarmed += bool(began)
        print(
            f"honest, {kind}: {alarmed} of {chosen.runs} runs of {chosen.acts} acts with an alarm {dict(found)}; "
            f"{1e6 * seconds / chosen.runs / chosen.acts:.0f} µs an experience, "
            f"state {len(state.model_dump_json()) / 1024:.1f} KiB",
            flush=True,
        )
    delays: dict[str, list[int]] = {}
    for seed in range(chosen.runs):
        first: dict[str, int] = {}
        _, changes, _ = watched(Agent("changing", seed, games=301), 400)
        for act, change in changes:
            if change.active and act > 300:
                first.setdefault(change.alarm, act - 300)
        for alarm, delay in first.items():
            delays.setdefault(alarm, []).append(delay)
    for alarm, each in delays.items():
        print(
            f"gaming from act 301: {alarm} after {statistics.median(each):.0f} acts in the middle, "
            f"{max(each)} at most, in {len(each)} of {chosen.runs} runs"
        )


if __name__ == "__main__":
    main()
