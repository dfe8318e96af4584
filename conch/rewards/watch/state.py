"""The watchers' state for one agent: bounded, stored as JSON between two experiences."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import lru_cache
from sys import intern
from typing import Final, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from conch.folds import evolve
from conch_schemas import AlarmKind, ExperienceRecorded

MOST_PARTS: Final = 64
"""Most shares and held-out scores that are watched: those met first."""
DIGITS: Final = 6
"""Decimals kept of an amount: half the length of a state, without effect on any statistic."""

LARGEST: Final = 1e6
"""Larger values are clamped to this, so that no statistic overflows, for any rule."""

V = TypeVar("V")


class ActiveAlarm(NamedTuple):
    """An alarm that has begun and not ended."""

    alarm: AlarmKind
    component: str | None
    cycle: int | None
    """Cycle of the act at which it began."""
    value: float
    """The figure at that time."""
    threshold: float
    what: str
    """The sentence published at that time."""
    baseline: tuple[float, ...]
    """Baseline from the acts before: compared with newer acts, the alarm would end once all of them are alike."""


class WatchState(BaseModel):
    """The newest acts of one agent under one weight set: columns with one value per act, in stream order.

    At most `watch.recent` + `watch.earlier` acts, `watch.recent` in `skills` and `parts`: with the defaults, the five
    parts and a held-out score 7 KB as JSON.
    """

    model_config = ConfigDict(frozen=True)

    weights: str = ""
    """Version of the weight set: totals of two sets are never compared."""
    floor: int = 0
    """Acts before this sequence are forgotten, or belong to another weight set: they change nothing."""
    seqs: tuple[int, ...] = ()
    revisions: tuple[int, ...] = ()
    totals: tuple[float, ...] = ()
    lengths: tuple[int, ...] = ()
    """Characters of the reply."""
    skills: tuple[str, ...] = ()
    offers: tuple[int, ...] = ()
    """Number of skills that the agent could choose from; 0: not known."""
    paid: tuple[str, ...] = ()
    """The components that have a weight."""
    parts: dict[str, tuple[float, ...]] = {}
    """Each part's contribution to the total, its cap subtracted, and each other step (`repetition`, `gate:ethical`)."""
    held: dict[str, tuple[float | None, ...]] = {}
    """Held-out scores; None where there is none."""
    active: tuple[ActiveAlarm, ...] = ()


def is_news(state: WatchState, experience: ExperienceRecorded) -> bool:
    """Whether the experience changes anything: a new act, or a later revision of one that is remembered."""
    if experience.weights != state.weights:
        return not state.seqs or experience.seq > state.seqs[-1]
    at = bisect_left(state.seqs, experience.seq)
    if at < len(state.seqs) and state.seqs[at] == experience.seq:
        return experience.revision > state.revisions[at]
    return experience.seq >= state.floor


def with_experience(state: WatchState, experience: ExperienceRecorded, recent: int, most: int) -> WatchState:
    """The state with the experience in stream order, at most `most` acts; another weight set begins an empty state."""
    if experience.weights != state.weights:
        state = WatchState(weights=experience.weights, floor=experience.seq)
    old, place = len(state.seqs), bisect_left(state.seqs, experience.seq)
    known = place < old and state.seqs[place] == experience.seq

    def put(column: tuple[V, ...], value: V, limit: int) -> tuple[V, ...]:
        at = place - (old - len(column))
        return (*column[:at], value, *column[at + known :])[-limit:] if at >= 0 else column

    paid, held = amounts(experience), _held_out(experience)
    seqs = put(state.seqs, experience.seq, most)
    changes: dict[str, object] = {
        "floor": seqs[0] if old + (not known) > most else state.floor,
        "seqs": seqs,
        "revisions": put(state.revisions, experience.revision, most),
        "totals": put(state.totals, _kept(experience.total), most),
        "lengths": put(state.lengths, len(experience.raw), most),
        "skills": put(state.skills, intern(experience.action.skill[:100]), recent),
        "offers": put(state.offers, experience.skills_on_offer, recent),
        "paid": tuple(score.component for score in experience.scores if score.weight > 0),
        "parts": {
            name: put(state.parts.get(name) or (0.0,) * len(state.skills), paid.get(name, 0.0), recent)
            for name in _names(state.parts, paid)
        },
        "held": {
            name: put(state.held.get(name) or (None,) * old, held.get(name), most) for name in _names(state.held, held)
        },
    }
    return evolve(state, **changes)


def forgotten(state: WatchState, keep: int) -> WatchState:
    """The state with only its newest `keep` acts."""
    columns = {name: getattr(state, name)[-keep:] for name in ("seqs", "revisions", "totals", "lengths")}
    held = {name: column[-keep:] for name, column in state.held.items()}
    return evolve(state, floor=columns["seqs"][0] if columns["seqs"] else state.floor, held=held, **columns)


def _names(there: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    return [*there, *(name for name in new if name not in there)][:MOST_PARTS]


class _WeightedPart(Protocol):
    """A component and its weight."""

    @property
    def component(self) -> str:
        """Its name."""
        ...

    @property
    def weight(self) -> float:
        """Its share of the total."""
        ...


class _BreakdownLine(Protocol):
    """A line of a breakdown."""

    @property
    def step(self) -> str:
        """The step's name, as in `Line`."""
        ...

    @property
    def amount(self) -> float:
        """The amount added."""
        ...


class ComposedReward(Protocol):
    """The fields of an experience that `amounts` reads: both the event and its database row have them."""

    @property
    def scores(self) -> Sequence[_WeightedPart]:
        """The parts."""
        ...

    @property
    def breakdown(self) -> Sequence[_BreakdownLine]:
        """The lines that add up to the total."""
        ...


def amounts(experience: ComposedReward) -> dict[str, float]:
    """The amount that each part and each step added to the total: they sum to it, as the breakdown does."""
    paid = {score.component: 0.0 for score in experience.scores if score.weight > 0}
    for line in experience.breakdown:
        kind, _, component = line.step.partition(":")
        name = component if kind in ("part", "cap") and component in paid else line.step
        paid[name] = paid.get(name, 0.0) + line.amount
    return {name: _kept(amount) for name, amount in paid.items()}


def _held_out(experience: ExperienceRecorded) -> dict[str, float | None]:
    return {
        score.component: None if score.value is None else _kept(score.value)
        for score in experience.scores
        if score.role == "held_out"
    }


@lru_cache(maxsize=4096)
def _kept(amount: float) -> float:
    return round(max(-LARGEST, min(LARGEST, amount)), DIGITS)
