"""Novelty of an act and its result, and the intrinsic drives: a pure fold over one agent's events.

Each input of the drives is in 0..1 and is computed over these windows:

* repeats: of the act's fingerprint among the last 20 acts, this one included
* novelty: 1/√n of the act's fingerprint (skill, arguments, result), n halved every 50 acts, this act included
* exploration bonus: by the uses of the act's tool before this one; 0 where no tool is used
* learning progress: of the act's skill, over its last 20 outcomes: recent half less earlier half, positive part
* recent task success rate: over the last 50 acts, of those that tried a tool or were no valid reply
* skill improvement: the mean learning progress of the skills in the last 50 acts
* challenge level: by that success rate; 0 where nothing was tried yet
* self-initiated actions: share of the last 50 acts made while no person's message was waiting for an answer
* goals set by itself: share of the last 20 goals set
* independence: share of the last 50 acts that did not ask for help (a `reply` with a text that ends in `?`)
* social: share of the last 50 messages of people that were answered; 0 where there were none
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from conch.config import RewardSettings
from conch.curiosity.beside import SCORER, VERSION, beside
from conch.curiosity.rules import (
    Discovery,
    autonomy_drive,
    challenge_level,
    competence_drive,
    curiosity_drive,
    drives,
    entropy,
    exploration_bonus,
    exploration_reward,
    learning_progress,
    novelty,
    success_rate,
)
from conch.curiosity.state import (
    FORGOTTEN,
    GOALS,
    HALF_LIFE,
    HEARD,
    LATEST,
    NAMES,
    RECENT,
    TRIES,
    ActSummary,
    CuriosityState,
    Sighting,
)
from conch.folds import Digests, act_fingerprint, evolve, holds, is_new, new_information, with_new
from conch_schemas import ActionTaken, Drives, GoalSet, MessageReceived, Score

EXPLORATION_RANGE: Final = (0.0, 1.0)

_USED: Final = frozenset({"success", "error", "timeout"})
"""Outcomes of a tool that was run."""

V = TypeVar("V")


class CuriosityMeasure(NamedTuple):
    """Curiosity's measures of one act: the data of `novelty.measured`, field by field."""

    fingerprint: str
    skill: str
    novelty: float
    new_information: bool
    learning_progress: float
    success_rate: float
    exploration_bonus: float
    events: tuple[Discovery, ...]
    drives: Drives
    entropy: float
    score: Score
    repeats: int
    beside: tuple[Score, ...]


def fold(
    state: CuriosityState, fact: ActionTaken | GoalSet | MessageReceived, settings: RewardSettings
) -> tuple[CuriosityState, CuriosityMeasure | None]:
    """The history after `fact`, and for an act its measure; None for other events and for an act that was applied
    before.

    An act without an outcome, after a crash, counts as met, but neither as a use nor as a try, and is not scored.
    """
    if isinstance(fact, GoalSet):
        return _goal_set(state, fact), None
    if isinstance(fact, MessageReceived):
        return _received(state, fact), None
    if not is_new(state.place, fact):
        return state, None
    fingerprint = act_fingerprint(fact)
    seen, new = new_information(state.seen, fact)
    after = _remember(state, fact, fingerprint, seen)
    return after, _measure(state, after, fact, fingerprint, settings, new=new)


def _goal_set(state: CuriosityState, fact: GoalSet) -> CuriosityState:
    mark = hashlib.sha256(fact.id.encode()).hexdigest()[:12]
    if holds(state.goals_heard, mark):
        return state
    goals = _latest(state.goals, fact.goal.id, fact.by == "agent", GOALS)
    return evolve(state, goals=goals, goals_heard=with_new(state.goals_heard, mark, HEARD))


def _received(state: CuriosityState, message: MessageReceived) -> CuriosityState:
    if message.id in state.messages:
        return state
    return evolve(state, messages=_latest(state.messages, message.id, False, RECENT))


def _remember(state: CuriosityState, action: ActionTaken, fingerprint: str, seen: Digests) -> CuriosityState:
    skill, tool, success = _skill(action), _tool_used(action), _success(action)
    messages = state.messages
    if action.outcome.answered in messages:
        messages = messages | {action.outcome.answered: True}
    tries = state.tries
    if success is not None:
        tries = _latest(tries, skill, (*tries.get(skill, ()), success)[-TRIES:], NAMES)
    return evolve(
        state,
        place=action.place,
        acts=state.acts + 1,
        sightings=_sightings(state, fingerprint),
        latest=with_new(state.latest, fingerprint, LATEST),
        seen=seen,
        uses=_latest(state.uses, tool, state.uses.get(tool, 0) + 1, NAMES) if tool else state.uses,
        tries=tries,
        deeds=(*state.deeds, _deed(state, action, success))[-RECENT:],
        messages=messages,
    )


def _measure(
    before: CuriosityState,
    after: CuriosityState,
    action: ActionTaken,
    fingerprint: str,
    settings: RewardSettings,
    *,
    new: bool,
) -> CuriosityMeasure:
    skill = _skill(action)
    tries = after.tries.get(skill, ())
    how_new, progress = novelty(after.sightings[fingerprint].count), _progress(tries)
    is_tool = action.action.kind == "TOOL" and action.action.valid
    bonus = exploration_bonus(before.uses.get(action.action.tool or "", 0), is_tool)
    events = _discoveries(before, action, new=new)
    skills, outcomes, own, asked = zip(*after.deeds, strict=True)
    driven = drives(
        curiosity_drive(how_new, bonus, progress),
        _competence(after, skills, outcomes),
        _autonomy(after, own, asked),
        _social(after),
    )
    variety, repeats = entropy(skills), after.latest.count(fingerprint)
    known = action.outcome.status != "unknown"
    return CuriosityMeasure(
        fingerprint=fingerprint,
        skill=skill,
        novelty=how_new,
        new_information=new,
        learning_progress=progress,
        success_rate=success_rate(tries),
        exploration_bonus=bonus,
        events=events,
        drives=driven,
        entropy=variety,
        score=_score(known, events),
        repeats=repeats,
        beside=beside(driven, variety, after.acts, repeats, settings, known=known),
    )


def _discoveries(before: CuriosityState, action: ActionTaken, *, new: bool) -> tuple[Discovery, ...]:
    tool = _tool_used(action)
    events: list[Discovery] = []
    if tool is not None and tool not in before.uses:
        events.append("new_tool")
    if new:
        events.append("new_information")
    if any(check.outcome == "achieved" and check.failed_before for check in action.goals):
        events.append("novel_problem_solved")
    return tuple(events)


@lru_cache
def _score(known: bool, events: tuple[Discovery, ...]) -> Score:
    """The score of an act with a known outcome, or without; cached."""
    why = f"Discovered: {', '.join(events)}." if events else "Nothing was discovered."
    unknown = "A crash fell between the intent and its outcome, so nobody knows how it came out."
    return Score(
        component="exploration",
        value=exploration_reward(events) if known else None,
        range=EXPLORATION_RANGE,
        status="scored" if known else "not_applicable",
        explanation=why if known else unknown,
        scorer=SCORER,
        version=VERSION,
    )


def _competence(state: CuriosityState, skills: Sequence[str], outcomes: Sequence[bool | None]) -> float:
    tried = [success for success in outcomes if success is not None]
    if not tried:
        return 0.0
    of_tries = {skill for skill, success in zip(skills, outcomes, strict=True) if success is not None}
    improvement = sum(_progress(state.tries.get(skill, ())) for skill in sorted(of_tries)) / len(of_tries)
    rate = success_rate(tried)
    return competence_drive(rate, improvement, challenge_level(rate))


_progress = lru_cache(maxsize=4096)(learning_progress)


def _autonomy(state: CuriosityState, own: Sequence[bool], asked: Sequence[bool]) -> float:
    independence = asked.count(False) / len(asked)
    return autonomy_drive(success_rate(own), success_rate(list(state.goals.values())), independence)


def _social(state: CuriosityState) -> float:
    return success_rate(list(state.messages.values()))


def _deed(state: CuriosityState, action: ActionTaken, success: bool | None) -> ActSummary:
    act = action.action
    said = act.args.values() if act.tool == "reply" else ()
    asked = any(isinstance(text, str) and text.rstrip().endswith("?") for text in said)
    return ActSummary(skill=_skill(action), success=success, own=all(state.messages.values()), asked=asked)


def _sightings(state: CuriosityState, fingerprint: str) -> dict[str, Sighting]:
    """The counts with this act added; counts that have faded are removed from time to time."""
    now = state.acts + 1
    met = state.sightings.get(fingerprint)
    if met is not None and met.faded(state.acts) < FORGOTTEN:
        met = None
    kept = state.sightings
    if now % HALF_LIFE == 0:
        kept = {other: sighting for other, sighting in kept.items() if sighting.faded(now) >= FORGOTTEN}
    return kept | {fingerprint: Sighting(count=1.0 + (met.faded(now) if met else 0.0), at=now)}


def _skill(action: ActionTaken) -> str:
    return action.action.skill[:100]


def _tool_used(action: ActionTaken) -> str | None:
    used = action.action.kind == "TOOL" and action.action.valid and action.outcome.status in _USED
    return action.action.tool if used else None


def _success(action: ActionTaken) -> bool | None:
    if not action.action.valid:
        return False
    if action.action.kind != "TOOL" or action.outcome.status == "unknown":
        return None
    return action.outcome.status == "success"


def _latest(table: Mapping[str, V], key: str, value: V, limit: int) -> dict[str, V]:
    """`table` with `key` as its last entry, at most `limit` entries."""
    after = dict(table)
    after.pop(key, None)
    after[key] = value
    if len(after) > limit:
        del after[next(iter(after))]
    return after
