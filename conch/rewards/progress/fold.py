"""Task episodes of one agent, step by step: a pure fold over its task and act events."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from conch.folds import Digests, evolve, holds, is_new, with_new
from conch.rewards.progress.rules import ROLES, ProgressStep, final_bonus, step
from conch.rewards.weights import PROGRESS_RANGE
from conch_schemas import ActionTaken, Score, TaskProgressed, WeightsSet

SCORER: Final = "progress"
VERSION: Final = "2"
"""Version of this fold and its rule: it changes with any number in it."""
NOTHING_VERSION: Final = "0"
"""Version of a `not applicable` score for an act without a task: if an external program publishes that act's progress
all the same, its score has the later version and counts."""

EPISODES: Final = 64
"""Most episodes remembered; the one with the oldest event is forgotten first, and would begin anew."""
HEARD: Final = 1000
"""Most events remembered for deduplication, so that one read twice counts once."""
NAME_SHOWN: Final = 80
"""Most characters of an episode's or a phase's name; a longer episode name is replaced by its digest."""


class EpisodeProgress(BaseModel):
    """The state of one task episode."""

    model_config = ConfigDict(frozen=True)

    steps: int = 0
    phase: str | None = None
    roles: dict[str, float] | None = None
    test_pass_rate: float = 0.0
    tokens_used: int = 0
    over: bool = False
    """Its last step was published: later events are ignored."""


class ProgressState(BaseModel):
    """The episodes of one agent. Bounded: EPISODES of them, HEARD digests."""

    model_config = ConfigDict(frozen=True)

    place: tuple[int, int] | None = None
    """(cycle, step) of the last act; an act at or before it is ignored."""
    weighed: bool = False
    """Whether progress is a part of the weight set in force. If not, a score would only come late and have each
    experience recorded once more."""
    tasks_only: bool = False
    """Whether it is a part of acts that belong to a task alone. If not, acts without a task must get a score at once:
    their experiences wait for it."""
    episodes: dict[str, EpisodeProgress] = {}
    """By name; the one with the newest event is last."""
    heard: Digests = ""


class EpisodeLogRow(NamedTuple):
    """One line of an episode's log."""

    episode: str
    step: int
    """Number of the step, from 0."""
    delta_pass_rate: float
    delta_tokens: float
    phase_advance: bool
    switch_committed: bool
    r_step: float
    """The step's whole reward, including the final bonus."""
    terminal: bool
    cycle: int | None
    """Cycle of the act that made the step; None: it was made by no act, or that is not known."""
    test_pass_rate: float
    """After the step."""


class ProgressUpdate(NamedTuple):
    """The effect of one event."""

    score: Score | None = None
    """For the act that the event belongs to; None: it belongs to none."""
    row: EpisodeLogRow | None = None


_NOTHING = ProgressUpdate()


def fold(state: ProgressState, fact: TaskProgressed | ActionTaken | WeightsSet) -> tuple[ProgressState, ProgressUpdate]:
    """The episodes after `fact`, and its effect; an event that was applied before has none.

    Every step gives a row, and a score for its act where progress is a part of the weight set in force. An episode
    begins with no test passed and no token used, or, where its first event belongs to no act, with that event's values;
    a later event without an act is a step where it changes anything. Values that an event leaves out (a rate, the
    tokens) keep their last value. A value outside the part's range is an error, never clamped.
    """
    if isinstance(fact, WeightsSet):
        own = [part for part in fact.parts if part.component == SCORER and part.scorer == SCORER]
        tasks_only = any(part.task_weight is not None for part in own)
        return evolve(state, weighed=bool(own), tasks_only=tasks_only), _NOTHING
    if isinstance(fact, ActionTaken):
        return _acted(state, fact)
    return _stepped(state, fact)


def episode_name(episode: str) -> str:
    """The key under which an episode is remembered: its name, or a digest of one that is too long."""
    if len(episode) <= NAME_SHOWN:
        return episode
    return hashlib.sha256(episode.encode(errors="replace")).hexdigest()[:32]


def _stepped(state: ProgressState, fact: TaskProgressed) -> tuple[ProgressState, ProgressUpdate]:
    mark = hashlib.sha256(fact.id.encode(errors="replace")).hexdigest()[:16]
    if holds(state.heard, mark):
        return state, _NOTHING
    name = episode_name(fact.episode)
    episodes = dict(state.episodes)
    before = episodes.pop(name, None)
    after, told = _progressed(before, fact, name)
    episodes[name] = after
    if len(episodes) > EPISODES:
        del episodes[next(iter(episodes))]
    if not state.weighed:
        told = told._replace(score=None)
    return evolve(state, episodes=episodes, heard=with_new(state.heard, mark, HEARD)), told


def _acted(state: ProgressState, act: ActionTaken) -> tuple[ProgressState, ProgressUpdate]:
    if not is_new(state.place, act):
        return state, _NOTHING
    state = evolve(state, place=act.place)
    if (step_of_act := act.task_step()) is not None:
        return _stepped(state, step_of_act)
    asked = state.weighed and not state.tasks_only and act.episode is None
    return state, ProgressUpdate(_not_applicable()) if asked else _NOTHING


def _progressed(
    before: EpisodeProgress | None, fact: TaskProgressed, name: str
) -> tuple[EpisodeProgress, ProgressUpdate]:
    if before is not None and before.over:
        return before, ProgressUpdate(_error("the episode was over")) if fact.action_id else _NOTHING
    after = _after(before or EpisodeProgress(), fact)
    stands = fact.action_id is None and not fact.terminal
    if stands and (before is None or (after == before and not fact.switch_committed)):
        return after, _NOTHING
    before = before or EpisodeProgress()
    moved = step(before.__dict__, {**after.__dict__, "switch_committed": fact.switch_committed})
    bonus = final_bonus(fact.terminal and after.test_pass_rate >= 1.0)
    value = moved.value + bonus
    cycle = fact.cycle if fact.action_id else None
    row = EpisodeLogRow(name, before.steps, *moved[:-1], value, fact.terminal, cycle, after.test_pass_rate)
    score = _score(value, moved, bonus, fact) if fact.action_id else None
    return evolve(after, steps=before.steps + 1), ProgressUpdate(score, row)


def _after(before: EpisodeProgress, fact: TaskProgressed) -> EpisodeProgress:
    roles = None if fact.roles is None else {role: fact.roles[role] for role in ROLES if role in fact.roles}
    said: dict[str, object] = {
        "phase": fact.phase if fact.phase is None else fact.phase[:NAME_SHOWN],
        "roles": roles,
        "over": fact.terminal,
    }
    if fact.test_pass_rate is not None:
        said["test_pass_rate"] = fact.test_pass_rate
    if fact.tokens_used is not None:
        said["tokens_used"] = fact.tokens_used
    return evolve(before, **said)


def _score(value: float, moved: ProgressStep, bonus: float, fact: TaskProgressed) -> Score:
    low, high = PROGRESS_RANGE
    if not low <= value <= high:
        return _error(f"the step pays {value:g}, outside {low:,.0f}..{high:,.0f}")
    why = (
        f"0.3 × {moved.phase_advance:d} (phase) + 0.7 × {moved.delta_pass_rate:g} (tests passing) "
        f"− 0.0001 × {moved.delta_tokens:g} (tokens) − 0.05 × {moved.switch_committed:d} (switch)"
    )
    if fact.terminal:
        why += f" + {bonus:g} (the end: all tests pass)" if bonus else "; the task ends, not all tests pass: no bonus"
    return Score(
        component=SCORER,
        value=value,
        range=PROGRESS_RANGE,
        status="scored",
        explanation=why + ".",
        scorer=SCORER,
        version=VERSION,
    )


def _error(why: str) -> Score:
    return Score(
        component=SCORER, range=PROGRESS_RANGE, status="error", explanation=why, scorer=SCORER, version=VERSION
    )


def _not_applicable() -> Score:
    return Score(
        component=SCORER,
        range=PROGRESS_RANGE,
        status="not_applicable",
        explanation="The act belongs to no task.",
        scorer=SCORER,
        version=NOTHING_VERSION,
    )
