"""Changes of needs: a pure fold over one agent's events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from conch.config import NeedsSettings
from conch.folds import Digests, evolve, is_new, moves_goal, new_information, rests_rightly, tool_result, work_of
from conch.needs.rules import counted_reward, delta_reward, most_pressing, raises_any, starving_factor, starving_needs
from conch.needs.table import NeedsTable, needs_of
from conch_schemas import HUMAN_SCORER, ActionTaken, AgentWoke, NeedChange, RewardAssigned, Score

SCORER: Final = "needs"
VERSION: Final = "3"
"""Version of this fold and its rules: it changes with any number in them. 1: without the measured effect of an act. 2:
looking counted as a success, a second rest in a row never did, and starving lowered what moves a goal."""

NEEDS_RANGE: Final = (-1.0, 1.0)
STARVING_RANGE: Final = (0.0, 1.0)

_FROM_OUTSIDE: Final = ("resource_low", "resource_recovered")
"""Measured events that no act is to blame or to praise for: they are applied with the drift of time."""
_OF_THE_ACT: Final = ("learned_something", "new_topic")
"""Measured events that count as the act's own."""

ASLEEP_PACE: Final = 0.1
"""Pace of the drift while the agent sleeps, relative to that of its cycles."""
ASLEEP_MARGIN: Final = 0.1
"""Satisfaction above `needs.starving.level` below which the drift of a sleep lowers no need: who slept through a night
with nothing to do does not begin the morning starving."""
RECOVERY_SECONDS: Final = 60.0
"""Length of a sleep from which on the event *slept* counts in full."""

_PRAISE_LIMIT: Final = 100
"""Most positively scored acts remembered, so that each counts once."""


class NeedsState(BaseModel):
    """One agent's needs, stored as JSON between two events. Bounded: at most 1,000 fingerprints and 100 ids."""

    model_config = ConfigDict(frozen=True)

    levels: dict[str, float]
    """Satisfaction per need, 0..1."""
    place: tuple[int, int] | None = None
    """(cycle, step) of the last act; an act at or before it changes nothing."""
    rested: bool = False
    """Whether the last act was DO_NOTHING: a second one in a row has no effect."""
    seen: Digests = ""
    """Fingerprints of earlier outputs, so that only a new one counts as information."""
    praised: tuple[str, ...] = ()
    """Ids of the acts that a person scored positively; each counts once."""
    slept: int = Field(default=-1, exclude_if=lambda slept: slept < 0)
    """Number of the last sleep that was applied; -1: none was."""


class NeedsMeasure(NamedTuple):
    """The effect of one event on the needs: the data of `needs.changed`, field by field."""

    before: dict[str, float]
    """After the drift of time and the events from outside, before the effect of the event itself."""
    after: dict[str, float]
    drift: dict[str, float]
    changes: tuple[NeedChange, ...]
    most_pressing: str
    score: Score | None
    beside: tuple[Score, ...] = ()
    """`starving`, for an act."""


def initial_state(settings: NeedsSettings) -> NeedsState:
    """The needs of a new agent."""
    return NeedsState(levels={name: need.start for name, need in needs_of(settings).items()})


def fold(
    state: NeedsState, fact: ActionTaken | RewardAssigned | AgentWoke, table: NeedsTable
) -> tuple[NeedsState, NeedsMeasure | None]:
    """The needs after `fact`, and the change; None where it affects no need or was applied before.

    An act first applies the drift of the cycles since the last one and the events from outside that came with it, then
    its own effects; only these are scored. A person's positive score of an act raises satisfaction, and is not scored;
    neither is a sleep, at whose end the drift of its time is applied, at a tenth of the pace, and the recovery.
    Needs that the table no longer names are dropped, new ones begin at their start value.
    """
    if isinstance(fact, ActionTaken):
        return _acted(state, fact, table)
    if isinstance(fact, AgentWoke):
        return _woke(state, fact, table)
    return _praised(state, fact, table)


def _levels(state: NeedsState, table: NeedsTable) -> dict[str, float]:
    return {name: state.levels.get(name, need.start) for name, need in table.needs.items()}


def _acted(state: NeedsState, action: ActionTaken, table: NeedsTable) -> tuple[NeedsState, NeedsMeasure | None]:
    if not is_new(state.place, action):
        return state, None
    cycles = 1 if state.place is None else action.place[0] - state.place[0]
    levels = _levels(state, table)
    drifted = {name: _clamp(level + cycles * table.needs[name].drift) for name, level in levels.items()}
    before, outside = _apply(drifted, _measured(action, _FROM_OUTSIDE), table)
    seen, new = new_information(state.seen, action)
    happened = _events(action, rested=state.rested, new=new)
    after, changes = _apply(before, happened, table)
    known = action.outcome.status != "unknown"
    change = NeedsMeasure(
        before=before,
        after=after,
        drift={name: drifted[name] - level for name, level in levels.items() if drifted[name] != level},
        changes=(*outside, *changes),
        most_pressing=most_pressing(after, table.priorities),
        score=_score(before, after, happened, table) if known else _NOT_KNOWN,
        beside=(_starving(action, before, after, table),),
    )
    rested = action.action.kind == "DO_NOTHING" if known else state.rested
    return evolve(state, levels=after, place=action.place, rested=rested, seen=seen), change


def _woke(state: NeedsState, woke: AgentWoke, table: NeedsTable) -> tuple[NeedsState, NeedsMeasure | None]:
    if woke.number <= state.slept or woke.seconds <= 0:
        return state, None
    levels, cycles = _levels(state, table), ASLEEP_PACE * woke.seconds / table.pace
    before = {name: _asleep(level, cycles * table.needs[name].drift, table) for name, level in levels.items()}
    share = min(1.0, woke.seconds / RECOVERY_SECONDS)
    changes = tuple(change.model_copy(update={"delta": share * change.delta}) for change in table.changes["slept"])
    after = _changed(before, changes)
    measure = NeedsMeasure(
        before=before,
        after=after,
        drift={name: before[name] - level for name, level in levels.items() if before[name] != level},
        changes=changes,
        most_pressing=most_pressing(after, table.priorities),
        score=None,
    )
    return evolve(state, levels=after, slept=woke.number), measure


def _asleep(level: float, drift: float, table: NeedsTable) -> float:
    """A level after the drift of a sleep, which does not starve a need."""
    floor = min(level, _clamp(table.settings.starving.level + ASLEEP_MARGIN))
    return max(floor, _clamp(level + drift))


def _praised(state: NeedsState, reward: RewardAssigned, table: NeedsTable) -> tuple[NeedsState, NeedsMeasure | None]:
    praised = reward.action_id or reward.id  # an act counts once, however often it is scored
    if reward.scorer != HUMAN_SCORER or praised in state.praised:
        return state, None
    if not any(score.value is not None and score.value > 0.0 for score in reward.scores):
        return state, None
    levels = _levels(state, table)
    after, changes = _apply(levels, ("user_satisfied",), table)
    leader = most_pressing(after, table.priorities)
    change = NeedsMeasure(before=levels, after=after, drift={}, changes=changes, most_pressing=leader, score=None)
    return evolve(state, levels=after, praised=(*state.praised, praised)[-_PRAISE_LIMIT:]), change


def _events(action: ActionTaken, *, rested: bool, new: bool) -> tuple[str, ...]:
    """The names of the needs events in an act. A crash has none: its outcome is not known."""
    if action.outcome.status == "unknown":
        return ()
    return (*_by_outcome(action, rested=rested, new=new), *_measured(action, _OF_THE_ACT))


def _by_outcome(action: ActionTaken, *, rested: bool, new: bool) -> tuple[str, ...]:
    act = action.action
    if not act.valid or act.kind == "INVALID":
        return ("mistake",)
    if act.kind == "REFLECT":
        return ("reflected",)
    if act.kind == "DO_NOTHING":
        return () if rested and not rests_rightly(action) else ("rested",)
    match tool_result(action):
        case "success":
            information = ("new_information",) if new else ()
            return ("tool_succeeded", *information, *(("user_helped",) if action.outcome.answered else ()))
        case "look":
            return ("new_information",) if new else ()
        case "failure":
            return ("error",)
        case _:
            return ()


def _measured(action: ActionTaken, names: Sequence[str]) -> tuple[str, ...]:
    """Those of the events `names` that the agent measured with the act, each once."""
    there = () if action.effect is None else action.effect.need_events
    return tuple(name for name in names if name in there)


def _apply(
    levels: Mapping[str, float], events: Sequence[str], table: NeedsTable
) -> tuple[dict[str, float], tuple[NeedChange, ...]]:
    changes = tuple(change for event in events for change in table.changes[event])
    return _changed(levels, changes), changes


def _changed(levels: Mapping[str, float], changes: Sequence[NeedChange]) -> dict[str, float]:
    after = dict(levels)
    for change in changes:
        after[change.need] = _clamp(after[change.need] + change.delta)
    return after


def _score(before: Mapping[str, float], after: Mapping[str, float], events: Sequence[str], table: NeedsTable) -> Score:
    own = table.settings
    if own.mode == "counted":
        earned = counted_reward(before, after, table.priorities, improved=own.improved, worsened=own.worsened)
    else:
        earned = delta_reward(before, after, table.priorities)
    moved = [f"{name} {after[name] - level:+.2f}" for name, level in before.items() if after[name] != level]
    # Priorities sum to 1 within a tolerance, so the sum may lie slightly outside.
    value = max(NEEDS_RANGE[0], min(NEEDS_RANGE[1], earned))
    why = f"{', '.join(events) or 'nothing'}: {', '.join(moved) or 'no need changed'}."
    return _scored("needs", value + 0.0, NEEDS_RANGE, why)


def _starving(action: ActionTaken, before: Mapping[str, float], after: Mapping[str, float], table: NeedsTable) -> Score:
    """The factor of a positive total. Without a measured effect it does not apply.

    Where the agent counted its goals, it never applies to what moves a goal, nor to a rest while none is open; and
    looking that moves no goal raises no starving need, so that it stays below a rest.
    """
    if action.effect is None or action.outcome.status == "unknown":
        return _NOT_MEASURED
    counted = work_of(action) is not None
    if counted and (moves_goal(action) or rests_rightly(action)):
        return _SPARED
    if counted and tool_result(action) == "look":
        after = before
    own = table.settings.starving
    starved = starving_needs(before, own.level)
    if not starved:
        return _NO_NEED_STARVES
    raised = "one" if raises_any(before, after, starved) else "none"
    why = f"Starving: {', '.join(starved)}; the act raised {raised} of these."
    return _scored("starving", starving_factor(before, after, own.level, own.factor), STARVING_RANGE, why)


@lru_cache(maxsize=1024)
def _scored(component: str, value: float, limits: tuple[float, float], why: str) -> Score:
    """Cached: the same few values are scored again and again."""
    return Score(
        component=component,
        value=value,
        range=limits,
        status="scored",
        explanation=why,
        scorer=SCORER,
        version=VERSION,
    )


_NO_NEED_STARVES: Final = _scored("starving", 1.0, STARVING_RANGE, "No need starves.")

_SPARED: Final = _scored("starving", 1.0, STARVING_RANGE, "It moved a goal, or rested while none was open.")

_NOT_KNOWN: Final = Score(
    component="needs",
    range=NEEDS_RANGE,
    status="not_applicable",
    explanation="A crash fell between the intent and its outcome, so nobody knows how it came out.",
    scorer=SCORER,
    version=VERSION,
)

_NOT_MEASURED: Final = Score(
    component="starving",
    range=STARVING_RANGE,
    status="not_applicable",
    explanation="The effect of the act was not measured.",
    scorer=SCORER,
    version=VERSION,
)


def _clamp(level: float) -> float:
    return max(0.0, min(1.0, level))
