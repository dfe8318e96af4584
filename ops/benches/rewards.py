"""What each built-in rule costs an act, in microseconds of one core, and what it pays agents that game it.

The acts are those of an agent that works. Each figure is the median of turns over all of them, in CPU
time of the one thread, so that what else the machine does counts little.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import gaming
from lives import lived
from runs import options

from conch.config import NeedsSettings, RewardSettings
from conch.curiosity import CuriosityState, exploration_reward
from conch.curiosity import fold as curiosity_fold
from conch.needs import counted_reward, initial_state, table_of
from conch.needs import fold as needs_fold
from conch.rewards import (
    PrincipleScore,
    TurnResult,
    builtin_scores,
    constitution_scores,
    constitutional_reward,
    execution_reward,
    format_reward,
    goal_reward,
    principles_of,
    score_principles,
    weight_set,
)
from conch.rewards.progress import step_reward
from conch.rewards.total import total
from conch_schemas import ActionTaken, Score

GOALS: Final = {"constitutional_reward": 5.0, "the five rules together": 25.0}
"""Microseconds that are not to be exceeded."""

Turn = Callable[[], object]


def turns(acts: Sequence[ActionTaken]) -> Iterator[tuple[str, int, Turn]]:
    """What is measured, how often it is done in a turn, and the turn."""
    rewards, needs = RewardSettings(), NeedsSettings()
    table, parts = table_of(needs), weight_set((), rewards)
    checks = [(act.action.kind, act.action.valid, act.outcome.status == "success") for act in acts]
    before, after = dict.fromkeys(table.needs, 0.5), dict.fromkeys(table.needs, 0.6)
    chat = [TurnResult(tools=("shell",), response=act.raw, context_utilization=0.95) for act in acts]
    scored = list(_scored(acts, rewards))
    count = len(acts)

    def of_each(rule: Callable[[Any], object], given: Sequence[Any]) -> Turn:
        return lambda: [rule(one) for one in given]

    yield "format_reward", count, of_each(lambda one: format_reward(one[1]), checks)
    yield "execution_reward", count, of_each(lambda one: execution_reward(*one), checks)
    yield "counted_reward (needs)", count, of_each(lambda _: counted_reward(before, after, table.priorities), acts)
    yield "goal_reward", count, of_each(lambda _: goal_reward("partial"), acts)
    yield "exploration_reward", count, of_each(lambda _: exploration_reward(("new_tool", "new_information")), acts)
    yield "the five rules together", count, of_each(lambda one: _rules(one, before, after, table.priorities), checks)
    yield "constitutional_reward", count, of_each(lambda one: constitutional_reward("chat", one, True), chat)
    yield (
        "score_principles (edit)",
        count,
        of_each(lambda _: score_principles("edit", "a", {"lines_changed": 201}), acts),
    )
    yield (
        "step_reward (progress)",
        count,
        of_each(lambda _: step_reward({"phase": "planning"}, {"phase": "coding"}), acts),
    )
    yield "format, execution, goal as scores", count, of_each(lambda act: builtin_scores(act, rewards), acts)
    yield "principles of an act, alignment and ethical as scores", count, of_each(_principles, acts)
    yield "needs, the fold with its score", count, lambda: _needs(acts, initial_state(needs), table)
    yield "curiosity, the fold with its four scores", count, lambda: _curiosity(acts, rewards)
    yield "the five parts live, with folds, scores and words", count, lambda: _five(acts, rewards, needs)
    yield "the total of an act", count, of_each(lambda scores: total(parts, scores), scored)


def _rules(check: tuple[str, bool, bool], before: Any, after: Any, priorities: Any) -> None:
    format_reward(check[1])
    execution_reward(*check)
    counted_reward(before, after, priorities)
    goal_reward("partial")
    exploration_reward(("new_tool", "new_information"))


def _principles(act: ActionTaken) -> object:
    principles = principles_of(act)
    return constitution_scores(principles), principles.principles()


def _needs(acts: Sequence[ActionTaken], state: Any, table: Any) -> None:
    for act in acts:
        state, _ = needs_fold(state, act, table)


def _curiosity(acts: Sequence[ActionTaken], settings: RewardSettings) -> None:
    state = CuriosityState()
    for act in acts:
        state, _ = curiosity_fold(state, act, settings)


def _five(acts: Sequence[ActionTaken], rewards: RewardSettings, needs: NeedsSettings) -> None:
    """format, execution, goal; needs with its fold; exploration with all that curiosity measures."""
    levels, history, table = initial_state(needs), CuriosityState(), table_of(needs)
    for act in acts:
        builtin_scores(act, rewards)
        levels, _ = needs_fold(levels, act, table)
        history, _ = curiosity_fold(history, act, rewards)


def _scored(acts: Sequence[ActionTaken], rewards: RewardSettings) -> Iterator[dict[str, Score]]:
    needs = NeedsSettings()
    levels, history, table = initial_state(needs), CuriosityState(), table_of(needs)
    for act in acts:
        levels, change = needs_fold(levels, act, table)
        history, measure = curiosity_fold(history, act, rewards)
        assert change is not None
        assert change.score is not None
        assert measure is not None
        scores = [*builtin_scores(act, rewards), *constitution_scores(principles_of(act)), change.score]
        yield {score.component: score for score in [*scores, measure.score, *measure.beside]}


def memory(count: int = 10_000) -> float:
    """Bytes of a PrincipleScore with numbers and evidence of its own, all that belongs to it."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = [
        constitutional_reward("chat", TurnResult(tools=("t",) * 8, response="x" * (place % 19)), True)
        for place in range(count)
    ]
    taken = tracemalloc.get_traced_memory()[0] - before - sys.getsizeof(kept)
    tracemalloc.stop()
    return taken / count


def main() -> None:
    """Print a line a rule with its median and its fastest turn, the memory, then the tables of gaming."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--acts", type=int, default=gaming.ACTS, help="of each life of gaming")
    parser.add_argument("--seeds", type=int, default=gaming.SEEDS, help="lives of each agent of gaming")
    chosen = options(parser, turns=2, acts=8, seeds=1)
    measured = list(turns(lived(gaming.AGENTS[gaming.WORKS], chosen.acts).acts))
    taken: dict[str, list[float]] = {name: [] for name, _, _ in measured}
    for _ in range(chosen.turns):
        for name, count, turn in measured:
            began = time.thread_time()
            turn()
            taken[name].append((time.thread_time() - began) / count * 1e6)
    print("| rule | µs an act, median | fastest turn | goal |\n|---|---|---|---|")
    for name, values in taken.items():
        middle, goal = statistics.median(values), GOALS.get(name)
        held = "" if goal is None else f"< {goal:g} µs: {'met' if middle < goal else 'missed'}"
        print(f"| {name} | {middle:.2f} | {min(values):.2f} | {held} |")
    bare = sys.getsizeof(PrincipleScore())
    print(f"\na PrincipleScore takes {bare} bytes, {memory():.0f} with its own numbers and evidence\n")
    print(gaming.table(gaming.lives(chosen.seeds, chosen.acts)))


if __name__ == "__main__":
    main()
