"""The state of a lineage, folded from its events: what is trained, what is tried, which adapter acts, why. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from conch_schemas import (
    AdapterGated,
    AdapterProbed,
    AdapterPromoted,
    AdapterRefused,
    AdapterRolledBack,
    AdapterTried,
    Event,
    Generation,
    TrainingFailed,
    TrainingFinished,
    TrainingProgressed,
    TrainingStarted,
)

MOST_ROUNDS: Final = 200
"""Rounds that are kept, the newest ones. The store has all of them."""
MOST_PROGRESS: Final = 500
"""Points of a round's curve that are kept: of more, each second one is dropped."""
_POINT: Final = ("loss", "eval_loss", "kl", "margin", "grad_norm", "learning_rate", "tokens_per_second", "eta")
"""Figures of a step."""
LineagePhase = Literal[
    "collecting", "training", "gating", "shadow", "canary", "active", "refused", "rolled back", "failed"
]
"""What the lineage is at. `collecting`: no round has ended yet; the last four say how the newest round ended."""


class _LineagePart(BaseModel):
    model_config = ConfigDict(frozen=True)


class TrainingRound(_LineagePart):
    """One attempt to make the next generation."""

    started: TrainingStarted
    """Of the newest attempt."""
    progress: tuple[TrainingProgressed, ...] = ()
    """Of the newest attempt."""
    finished: TrainingFinished | None = None
    failed: TrainingFailed | None = None
    gated: AdapterGated | None = None
    tried: tuple[AdapterTried, ...] = ()
    refused: AdapterRefused | None = None
    promoted: AdapterPromoted | None = None
    rolled_back: AdapterRolledBack | None = None

    @property
    def adapter(self) -> str | None:
        """Digest of the adapter that it made; None: none yet."""
        return None if self.finished is None else self.finished.adapter

    @property
    def phase(self) -> LineagePhase:
        """What it is at, or how it ended."""
        if self.rolled_back is not None:
            return "rolled back"
        if self.promoted is not None:
            return "active"
        if self.refused is not None:
            return "refused"
        if self.tried and self.tried[-1].verdict is None:
            return self.tried[-1].stage
        if self.finished is not None:
            return "gating"
        return "failed" if self.failed is not None and not self.failed.again else "training"

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.phase in ("training", "gating", "shadow", "canary")


class LineageState(_LineagePart):
    """The adapters of one agent."""

    adapter: str | None = None
    """Digest of the one that acts; None: the base alone."""
    generation: Generation = 0
    previous: str | None = None
    move: int = 0
    """Number of the last move of the pointer."""
    rounds: tuple[TrainingRound, ...] = ()
    """The oldest first, at most MOST_ROUNDS."""
    gates: int = 0
    """Gates that the lineage has had: the error rate is spent over them."""
    ended: datetime | None = None
    """When the newest round ended."""
    moves: tuple[AdapterPromoted | AdapterRolledBack, ...] = ()
    """The moves of the pointer, the oldest first."""
    probed: dict[str, AdapterProbed] = {}
    """The last probe of each adapter."""

    @property
    def round(self) -> TrainingRound | None:
        """The newest round."""
        return self.rounds[-1] if self.rounds else None

    @property
    def phase(self) -> LineagePhase:
        """What the newest round is at."""
        return "collecting" if self.round is None else self.round.phase

    @property
    def refusals(self) -> int:
        """Rounds in a row, up to the newest one, whose adapter was refused."""
        return _in_a_row(self.rounds, "refused")

    @property
    def failures(self) -> int:
        """Rounds in a row, up to the newest one, that failed."""
        return _in_a_row(self.rounds, "failed")

    def of(self, round: str) -> TrainingRound | None:
        """The round of this digest; None: there was none, or it is no longer kept."""
        return next((one for one in reversed(self.rounds) if one.started.round == round), None)

    def made(self, adapter: str) -> TrainingRound | None:
        """The round that made this adapter."""
        return next((one for one in reversed(self.rounds) if one.adapter == adapter), None)


def lineage_of(events: Iterable[Event]) -> LineageState:
    """The state after these events, in the order of the stream."""
    state = LineageState()
    for event in events:
        state = after(state, event)
    return state


def after(state: LineageState, event: Event) -> LineageState:
    """The state after one more event. The same event again changes nothing; one of another kind neither."""
    match event:
        case TrainingStarted():
            known = state.of(event.round)
            if known is not None and known.started.attempt >= event.attempt:
                return state
            others = tuple(one for one in state.rounds if one.started.round != event.round)
            return state.model_copy(update={"rounds": (*others, TrainingRound(started=event))[-MOST_ROUNDS:]})
        case TrainingProgressed():
            return _with(state, event.round, progress=_curve(state.of(event.round), event))
        case TrainingFinished():
            return _with(state, event.round, finished=event, failed=None)
        case TrainingFailed():
            before = state.of(event.round)
            if before is None or before.started.attempt != event.attempt:
                return state
            return _ended(_with(state, event.round, failed=event), event)
        case AdapterGated():
            found = _with(state, event.round, gated=event)
            return found.model_copy(update={"gates": max(state.gates, event.number)})
        case AdapterTried():
            before = state.of(event.round)
            if before is None or any(one.id == event.id for one in before.tried):
                return state
            return _with(state, event.round, tried=(*before.tried, event))
        case AdapterRefused():
            return _ended(_with(state, event.round, refused=event), event)
        case AdapterPromoted() | AdapterRolledBack():
            return _moved(state, event)
        case AdapterProbed():
            return state.model_copy(update={"probed": state.probed | {event.adapter: event}})
        case _:
            return state


def _moved(state: LineageState, event: AdapterPromoted | AdapterRolledBack) -> LineageState:
    if event.move <= state.move:
        return state
    acts = event.adapter if isinstance(event, AdapterPromoted) else event.to
    previous = event.previous if isinstance(event, AdapterPromoted) else None
    made = state.made(event.adapter)
    if made is not None:
        field = "promoted" if isinstance(event, AdapterPromoted) else "rolled_back"
        more = {"rolled_back": None} if field == "promoted" else {}
        state = _with(state, made.started.round, **more, **{field: event})
    moved = {"adapter": acts, "generation": event.generation, "previous": previous, "move": event.move}
    return _ended(state.model_copy(update=moved | {"moves": (*state.moves, event)}), event)


def _ended(state: LineageState, event: Event) -> LineageState:
    return state.model_copy(update={"ended": max(state.ended or event.time, event.time)})


def _with(state: LineageState, round: str, **changes: object) -> LineageState:
    rounds = tuple(one.model_copy(update=changes) if one.started.round == round else one for one in state.rounds)
    return state.model_copy(update={"rounds": rounds})


def _curve(known: TrainingRound | None, event: TrainingProgressed) -> tuple[TrainingProgressed, ...]:
    if known is None or known.started.attempt != event.attempt:
        return known.progress if known is not None else ()
    points = {one.step: one for one in known.progress}
    points[event.step] = _merged(points.get(event.step), event)
    curve = [points[step] for step in sorted(points)]
    return tuple(curve if len(curve) <= MOST_PROGRESS else [*curve[:-1:2], curve[-1]])


def _merged(known: TrainingProgressed | None, event: TrainingProgressed) -> TrainingProgressed:
    """A step's own report and its evaluation as one point, in whichever order they come."""
    if known is None or known.id == event.id:
        return known or event
    first, second = sorted((known, event), key=lambda one: (one.time, one.id))
    found = {name: getattr(second, name) for name in _POINT if getattr(second, name) is not None}
    return first.model_copy(update=found)


def _in_a_row(rounds: tuple[TrainingRound, ...], phase: LineagePhase) -> int:
    count = 0
    for one in reversed(rounds):
        if one.phase != phase:
            break
        count += 1
    return count
