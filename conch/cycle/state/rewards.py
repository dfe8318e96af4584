"""What an agent remembers of its rewards: those of its last acts, and its best and worst acts. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue

from conch.minds import ActReward, Lesson, RewardLine
from conch_schemas import Action, ExperienceRecorded

REWARDED = 16
"""Acts whose rewards are remembered at least: a score may come some cycles after the act."""
LATE = 6
"""Acts whose rewards are remembered beyond those that are remembered themselves: those may come first."""
LESSONS = 4
"""Best acts that are remembered, and as many worst ones."""
SHORT_LINES, SHORT_WHY = 3, 60
"""Lines of an earlier act's reward that are remembered, and characters of each explanation."""
WHY = 200
"""Most characters of an explanation, and of a lesson's result."""
LESSON_ARGUMENT = 300
"""Most characters of an argument of a lesson."""
MARKS = 8
"""Characters that an item of an array or an object counts beside its own, such as its comma."""
SURE = 0.5
"""Least coverage of an experience that becomes a lesson."""


def reward_of(experience: ExperienceRecorded) -> ActReward:
    """The reward with the explanations of its scores. Held-out components have no line in a breakdown: none is told."""
    why = {f"part:{score.component}": score.explanation for score in experience.scores}
    lines = tuple(
        RewardLine(line.step, line.amount, (why.get(line.step) or line.why)[:WHY]) for line in experience.breakdown
    )
    return ActReward(experience.total, lines, experience.complete, experience.revision)


def with_reward(known: Mapping[int, ActReward], experience: ExperienceRecorded, acts: int = 0) -> dict[int, ActReward]:
    """The rewards by cycle with this experience's. An earlier revision than the known one changes nothing. `acts`: how
    many acts are remembered. Of all but the last REWARDED the total stays, with its largest lines in a few words."""
    cycle = experience.cycle
    if cycle is None or (cycle in known and known[cycle].revision >= experience.revision):
        return dict(known)
    found = {**known, cycle: reward_of(experience)}
    kept = sorted(found)[-max(REWARDED, acts + LATE) :]
    return {cycle: found[cycle] for cycle in kept} | {cycle: _short(found[cycle]) for cycle in kept[:-REWARDED]}


def _short(reward: ActReward) -> ActReward:
    if len(reward.lines) <= SHORT_LINES and all(len(line.why) <= SHORT_WHY for line in reward.lines):
        return reward
    lines = sorted(reward.lines, key=lambda line: -abs(line.amount))[:SHORT_LINES]
    return replace(reward, lines=tuple(replace(line, why=line.why[:SHORT_WHY]) for line in lines))


def with_lesson(known: Sequence[Lesson], experience: ExperienceRecorded) -> tuple[Lesson, ...]:
    """The lessons, the best first: at most LESSONS acts that were paid best and LESSONS that were paid worst, one of
    each skill among either. Of two equal ones the later act stays. An experience with little coverage is none."""
    cycle = experience.cycle
    old = next((one for one in known if one.cycle == cycle), None)
    if cycle is None or (old is not None and old.reward.revision >= experience.revision):
        return tuple(known)
    others = [one for one in known if one is not old]
    if experience.coverage >= SURE:
        others.append(_lesson(cycle, experience))
    ranked = sorted(others, key=lambda one: (-one.reward.total, -one.cycle))
    best = _one_a_skill(one for one in ranked if one.reward.total > 0)
    ranked = sorted(others, key=lambda one: (one.reward.total, -one.cycle))
    worst = _one_a_skill(one for one in ranked if one.reward.total <= 0)
    return (*best, *reversed(worst))


def shortened(value: JsonValue, most: int) -> JsonValue:
    """`value` with at most about `most` characters, of the same type: texts lose their middle, arrays and objects their
    last items."""
    if isinstance(value, str):
        if len(value) <= most:
            return value
        half = max(1, most // 2)
        return f"{value[:half]}[… {len(value) - 2 * half} characters left out …]{value[-half:]}"
    if isinstance(value, list):
        return list(_fitting(value, most))
    if isinstance(value, dict):
        names = [name for name in value if len(name) <= most]
        return dict(zip(names, _fitting((value[name] for name in names), most), strict=False))
    return value


def with_short_arguments(action: Action, most: int) -> Action:
    """The action with arguments of at most about `most` characters each; a valid call stays one."""
    text = action.text if action.text is None else str(shortened(action.text, most))
    args = {name: shortened(value, most) for name, value in action.args.items()}
    if text == action.text and args == action.args:
        return action
    return action.model_copy(update={"args": args, "text": text})


def _fitting(values: Iterable[JsonValue], most: int) -> Iterator[JsonValue]:
    for value in values:
        yield (kept := shortened(value, most))
        most -= len(json.dumps(kept)) + MARKS
        if most <= 0:
            return


def _lesson(cycle: int, experience: ExperienceRecorded) -> Lesson:
    outcome = experience.outcome
    said = experience.action.reason or outcome.error or outcome.output.text
    action = with_short_arguments(experience.action, LESSON_ARGUMENT)
    return Lesson(cycle, action, outcome.status, said[:WHY], reward_of(experience))


def _one_a_skill(ranked: Iterable[Lesson]) -> list[Lesson]:
    found: dict[str, Lesson] = {}
    for one in ranked:
        found.setdefault(one.action.skill, one)
    return list(found.values())[:LESSONS]
