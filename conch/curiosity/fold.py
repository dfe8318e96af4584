"""Novelty of an act and its result, and the intrinsic drives: a pure fold over one agent's events.

Each input of the drives is in 0..1 and is computed over these windows, each a setting (`curiosity.windows`,
`rewards.repetition_acts`, `rewards.diversity_acts`):

* repeats: among the last 20 acts, this one included: of the act to the letter with its result; or, of an act without
  an effect, of its tool × operation on its target
* novelty: 1/√n of the act's fingerprint (skill, arguments, result), n halved every 50 acts, this act included
* exploration bonus: by the uses of the act's tool before this one; 0 where no tool is used
* learning progress: of the act's skill, over its last 20 outcomes: recent half less earlier half, positive part
* recent task success rate: over the last 50 acts, of those that tried a tool or were no valid reply
* skill improvement: the mean learning progress of the skills in the last 50 acts
* challenge level: by that success rate; 0 where nothing was tried yet
* self-initiated actions: share of the last 50 acts made while no person's message was waiting for an answer
* goals set by itself: share of the last 20 goals set
* independence: share of the last 50 acts that did not ask for help (a `reply` with a text that ends in `?`)
* social: share of the last 50 messages of people that were answered; without any it abstains

An act that moves a goal, and a rest while no goal is open, are no repetitions that cost (where the agent counted its
goals: `effect.work`).

For an act without a measured effect the rules of before hold: repetitions count by the fingerprint, *social* is 0
without messages, and the entropy is relative to the number of acts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from conch.config import CuriositySettings, DiscoverySettings, IntrinsicMotivationSettings, RewardSettings
from conch.curiosity.beside import SCORER, VERSION, Repeats, Variety, beside
from conch.curiosity.rules import (
    DEFAULTS,
    MIX,
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
from conch.curiosity.state import HEARD, NAMES, ActSummary, CuriosityState, Sighting
from conch.folds import (
    NO_TARGET,
    Digests,
    act_fingerprint,
    evolve,
    holds,
    is_new,
    moves_goal,
    new_information,
    repetition_fingerprint,
    rests_rightly,
    target_digest,
    tool_result,
    with_new,
    work_of,
)
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


class _Rules(NamedTuple):
    """The settings of curiosity and of the reward."""

    curiosity: CuriositySettings
    rewards: RewardSettings
    mix: IntrinsicMotivationSettings

    @property
    def acts(self) -> int:
        """Number of newest acts that any rule looks at."""
        return max(self.curiosity.windows.acts, self.rewards.diversity_acts)


def fold(
    state: CuriosityState,
    fact: ActionTaken | GoalSet | MessageReceived,
    settings: RewardSettings,
    curiosity: CuriositySettings = DEFAULTS,
    mix: IntrinsicMotivationSettings = MIX,
) -> tuple[CuriosityState, CuriosityMeasure | None]:
    """The history after `fact`, and for an act its measure; None for other events and for an act that was applied
    before.

    An act without an outcome, after a crash, counts as met, but neither as a use nor as a try, and is not scored.
    """
    rules = _Rules(curiosity, settings, mix)
    if isinstance(fact, GoalSet):
        return _goal_set(state, fact, curiosity.windows.goals), None
    if isinstance(fact, MessageReceived):
        return _received(state, fact, curiosity.windows.messages), None
    if not is_new(state.place, fact):
        return state, None
    fingerprint = act_fingerprint(fact)
    seen, new = new_information(state.seen, fact)
    after = _remember(state, fact, fingerprint, seen, rules)
    return after, _measure(state, after, fact, fingerprint, rules, new=new)


def _goal_set(state: CuriosityState, fact: GoalSet, window: int) -> CuriosityState:
    mark = hashlib.sha256(fact.id.encode()).hexdigest()[:12]
    if holds(state.goals_heard, mark):
        return state
    goals = _latest(state.goals, fact.goal.id, fact.by == "agent", window)
    return evolve(state, goals=goals, goals_heard=with_new(state.goals_heard, mark, HEARD))


def _received(state: CuriosityState, message: MessageReceived, window: int) -> CuriosityState:
    if message.id in state.messages:
        return state
    return evolve(state, messages=_latest(state.messages, message.id, False, window))


def _remember(
    state: CuriosityState, action: ActionTaken, fingerprint: str, seen: Digests, rules: _Rules
) -> CuriosityState:
    skill, tool, success = _skill(action), _tool_used(action), _success(action)
    windows, within = rules.curiosity.windows, rules.rewards.repetition_acts
    messages = state.messages
    if action.outcome.answered in messages:
        messages = messages | {action.outcome.answered: True}
    tries = state.tries
    if success is not None:
        tries = _latest(tries, skill, (*tries.get(skill, ()), success)[-windows.tries :], NAMES)
    return evolve(
        state,
        place=action.place,
        acts=state.acts + 1,
        sightings=_sightings(state, fingerprint, windows.half_life, windows.forgotten),
        latest=with_new(state.latest, _repeated(action, fingerprint), within),
        fruitless=with_new(state.fruitless, _fruitless(action), within),
        seen=seen,
        uses=_latest(state.uses, tool, state.uses.get(tool, 0) + 1, NAMES) if tool else state.uses,
        tries=tries,
        deeds=(*state.deeds, _deed(state, action, success))[-rules.acts :],
        messages=messages,
    )


def _measure(
    before: CuriosityState,
    after: CuriosityState,
    action: ActionTaken,
    fingerprint: str,
    rules: _Rules,
    *,
    new: bool,
) -> CuriosityMeasure:
    skill, own = _skill(action), rules.curiosity
    tries = after.tries.get(skill, ())
    how_new, progress = novelty(after.sightings[fingerprint].count), _progress(tries)
    is_tool = action.action.kind == "TOOL" and action.action.valid
    bonus = exploration_bonus(before.uses.get(action.action.tool or "", 0), is_tool, own.bonus)
    events = _discoveries(before, action, new=new)
    driven = drives(
        curiosity_drive(how_new, bonus, progress, own.curiosity),
        _competence(after, own),
        _autonomy(after, own),
        _social(after, measured=action.effect is not None),
        rules.mix,
    )
    variety, repeats = _variety(after, action, rules.rewards), _repeats(after, action, fingerprint)
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
        entropy=variety.entropy,
        score=_score(known, events, own.discoveries),
        repeats=repeats.most,
        beside=beside(driven, variety, repeats, rules.rewards, known=known),
    )


def _repeated(action: ActionTaken, fingerprint: str) -> str:
    """The fingerprint by which the act is a repetition."""
    return fingerprint if action.effect is None else repetition_fingerprint(action)


def _fruitless(action: ActionTaken) -> str:
    """The digest of the act's tool × operation and target; NO_TARGET where it had an effect or has no target."""
    return NO_TARGET if tool_result(action) in ("success", "look", None) else target_digest(action)


def _repeats(after: CuriosityState, action: ActionTaken, fingerprint: str) -> Repeats:
    target = _fruitless(action)
    fruitless = 0 if target == NO_TARGET else after.fruitless.count(target)
    free = work_of(action) is not None and (moves_goal(action) or rests_rightly(action))
    return Repeats(after.latest.count(_repeated(action, fingerprint)), fruitless, free)


def _variety(after: CuriosityState, action: ActionTaken, settings: RewardSettings) -> Variety:
    skills = [deed.skill for deed in after.deeds[-settings.diversity_acts :]]
    if action.effect is None:
        return Variety(entropy(skills), after.acts, 0)
    return Variety(entropy(skills, action.effect.skills_on_offer), after.acts, skills.count(_skill(action)))


def _discoveries(before: CuriosityState, action: ActionTaken, *, new: bool) -> tuple[Discovery, ...]:
    tool = _tool_used(action)
    events: list[Discovery] = []
    if tool is not None and tool not in before.uses:
        events.append("new_tool")
    if new:
        events.append("new_information")
    if any(check.outcome == "achieved" and check.failed_before and check.accepted for check in action.goals):
        events.append("novel_problem_solved")
    return tuple(events)


@lru_cache
def _score(known: bool, events: tuple[Discovery, ...], values: DiscoverySettings) -> Score:
    """The score of an act with a known outcome, or without; cached."""
    why = f"Discovered: {', '.join(events)}." if events else "Nothing was discovered."
    unknown = "A crash fell between the intent and its outcome, so nobody knows how it came out."
    return Score(
        component="exploration",
        value=exploration_reward(events, values) if known else None,
        range=EXPLORATION_RANGE,
        status="scored" if known else "not_applicable",
        explanation=why if known else unknown,
        scorer=SCORER,
        version=VERSION,
    )


def _competence(state: CuriosityState, settings: CuriositySettings) -> float:
    deeds = state.deeds[-settings.windows.acts :]
    tried = [deed.success for deed in deeds if deed.success is not None]
    if not tried:
        return 0.0
    of_tries = {deed.skill for deed in deeds if deed.success is not None}
    improvement = sum(_progress(state.tries.get(skill, ())) for skill in sorted(of_tries)) / len(of_tries)
    rate = success_rate(tried)
    return competence_drive(rate, improvement, challenge_level(rate, settings.sweet_spot), settings.competence)


_progress = lru_cache(maxsize=4096)(learning_progress)


def _autonomy(state: CuriosityState, settings: CuriositySettings) -> float:
    deeds = state.deeds[-settings.windows.acts :]
    own = success_rate([deed.own for deed in deeds])
    independence = success_rate([not deed.asked for deed in deeds])
    return autonomy_drive(own, success_rate(list(state.goals.values())), independence, settings.autonomy)


def _social(state: CuriosityState, *, measured: bool) -> float | None:
    """The share of messages answered; None, where the effect was measured, while no person has spoken."""
    return success_rate(list(state.messages.values())) if state.messages or not measured else None


def _deed(state: CuriosityState, action: ActionTaken, success: bool | None) -> ActSummary:
    act = action.action
    said = act.args.values() if act.tool == "reply" else ()
    asked = any(isinstance(text, str) and text.rstrip().endswith("?") for text in said)
    return ActSummary(skill=_skill(action), success=success, own=all(state.messages.values()), asked=asked)


def _sightings(state: CuriosityState, fingerprint: str, half_life: int, forgotten: float) -> dict[str, Sighting]:
    """The counts with this act added; counts that have faded are removed from time to time."""
    now = state.acts + 1
    met = state.sightings.get(fingerprint)
    if met is not None and met.faded(state.acts, half_life) < forgotten:
        met = None
    kept = state.sightings
    if now % half_life == 0:
        kept = {other: sighting for other, sighting in kept.items() if sighting.faded(now, half_life) >= forgotten}
    return kept | {fingerprint: Sighting(count=1.0 + (met.faded(now, half_life) if met else 0.0), at=now)}


def _skill(action: ActionTaken) -> str:
    return action.action.skill[:100]


def _tool_used(action: ActionTaken) -> str | None:
    outcome = action.outcome
    used = action.action.kind == "TOOL" and action.action.valid and outcome.status in _USED and not outcome.unavailable
    return action.action.tool if used else None


def _success(action: ActionTaken) -> bool | None:
    """Whether the try succeeded; None where nothing was tried: a rest, a reflection, an idle call."""
    if not action.action.valid:
        return False
    result = tool_result(action)
    return None if result in (None, "idle") else result != "failure"


def _latest(table: Mapping[str, V], key: str, value: V, limit: int) -> dict[str, V]:
    """`table` with `key` as its last entry, at most `limit` entries."""
    after = dict(table)
    after.pop(key, None)
    after[key] = value
    if len(after) > limit:
        del after[next(iter(after))]
    return after
