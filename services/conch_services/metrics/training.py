"""The metrics of training: what each lineage is at, how its rounds, gates and moves came out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, get_args

from conch.training import LineagePhase, LineageState, after
from conch_schemas import (
    AdapterGated,
    AdapterPromoted,
    AdapterRefused,
    AdapterRolledBack,
    Event,
    GateVerdict,
    TrainingFailed,
    TrainingProgressed,
)
from conch_services.metrics.instruments import Instruments

KEPT_ROUNDS: Final = 20
"""Rounds of a lineage that are remembered: no alert looks further back."""
PHASES: Final[tuple[LineagePhase, ...]] = get_args(LineagePhase)
OUTCOMES: Final = ("promoted", "refused", "failed")
"""How a round ends; a rollback comes later and is counted apart."""
TRIGGERS: Final[tuple[str, ...]] = get_args(AdapterRolledBack.model_fields["trigger"].annotation)


class TrainingFigures:
    """The metrics of lineages. Those of an agent are there from its first event of training on, its counters at 0."""

    def __init__(self, instruments: Instruments, label: Callable[[str], str]) -> None:
        """`label`: the label of an agent."""
        self._to, self._label = instruments, label
        self._lineages: dict[str, LineageState] = {}
        """By the agent's label."""

    def remember(self, event: Event) -> None:
        """Take an event of before this process: what is now follows from it, and no counter grows."""
        self._lineage(event)

    def count(self, event: Event) -> None:
        """Take an event of training."""
        agent, before = self._label(event.agent), self._lineages.get(self._label(event.agent), LineageState())
        state = self._lineage(event)
        match event:
            case TrainingFailed() if not event.again and state.failures > before.failures:
                self._to.training_rounds(agent, "failed").inc()
            case AdapterRefused():
                self._to.training_rounds(agent, "refused").inc()
            case AdapterGated():
                self._to.training_gates(agent, event.verdict).inc()
            case AdapterPromoted() if state.move > before.move:
                self._to.training_rounds(agent, "promoted").inc()
            case AdapterRolledBack() if state.move > before.move:
                self._to.training_rollbacks(agent, event.trigger).inc()
            case _:
                pass

    def _lineage(self, event: Event) -> LineageState:
        """The state after the event; the gauges show it."""
        agent = self._label(event.agent)
        if agent not in self._lineages:
            self._meet(agent)
        before = self._lineages.get(agent, LineageState())
        if isinstance(event, TrainingProgressed):
            if event.loss is not None:
                self._to.training_loss.set(event.loss, agent)
            return before
        state = after(before, event)
        state = state.model_copy(update={"rounds": state.rounds[-KEPT_ROUNDS:], "moves": state.moves[-1:]})
        self._lineages[agent] = state
        self._show(agent, state)
        return state

    def _meet(self, agent: str) -> None:
        for outcome in OUTCOMES:
            self._to.training_rounds(agent, outcome)
        for verdict in get_args(GateVerdict):
            self._to.training_gates(agent, verdict)
        for trigger in TRIGGERS:
            self._to.training_rollbacks(agent, trigger)

    def _show(self, agent: str, state: LineageState) -> None:
        for phase in PHASES:
            self._to.training_phase.set(float(phase == state.phase), agent, phase.replace(" ", "_"))
        self._to.training_generation.set(state.generation, agent)
        self._to.training_refusals.set(state.refusals, agent)
        if state.round is not None:
            self._to.training_last_round.set(state.round.started.time.timestamp(), agent)
        if state.moves:
            self._to.training_last_move.set(state.moves[-1].time.timestamp(), agent)
        if state.phase != "training":
            self._to.training_loss.remove(agent)
