"""Carries the newest round of a lineage on, from wherever it stands: each step is told by its events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

from conch.config import Settings
from conch.errors import AdapterError, CheckError, ServingError
from conch.experience import store_location
from conch.home import Home
from conch.log import get_logger
from conch.rounds.judging.gate_run import run_gate
from conch.rounds.judging.samples import ActingEngine
from conch.rounds.judging.trial import ActsByAdapter, trigger_of
from conch.rounds.log import LineageLog
from conch.rounds.making.plan import RoundPlan
from conch.rounds.making.training import attempt_round
from conch.rounds.moves import roll_back, say_missing
from conch.rounds.trying import Advance, CandidateTrials, read_acts, refuse
from conch.rules import RuleInfo
from conch.training import TrainingRound
from conch_schemas import AdapterGated, ExperienceRecorded

log = get_logger(__name__)

MOST_GATES: Final = 3
"""Gates of one round that may be inconclusive; then its adapter is set aside."""

Engine = Callable[[Settings, Home], AbstractAsyncContextManager[ActingEngine]]
"""The engine by which the agent of these settings acts."""


@dataclass
class LineageTrainer:
    """The rounds of one agent's lineage. One at a time, under the lineage's lease."""

    record: LineageLog
    settings: Settings
    """With the agent's name."""
    home: Home
    engine: Engine
    command: Sequence[str] | None = None
    """The training child's command line; None: Conch's own."""
    rules: Sequence[RuleInfo] | None = None
    """Those that the gate scores by; None: those of the run in progress."""
    acting: ActsByAdapter | None = None
    """The acts since the adapter that acts was promoted, and of what acted before."""

    def __post_init__(self) -> None:
        self.trial = CandidateTrials(self.record, self.settings, self.home)

    async def advance(self) -> Advance:
        """Do the next step of the newest round: an attempt, its gate, a look at its trial, a move.

        Cancelled in the middle of one, the next call does it again. Raises what the step raises: ModelError where the
        engine does not reply, BusError, StoreError.
        """
        await say_missing(self.record)
        round = self.record.state.round
        if round is None or not is_open_round(round):
            return "waits"
        if round.finished is None:
            plan = RoundPlan.read(self.home, round.started.round)
            await attempt_round(self.record, plan, self.settings, self.home, command=self.command)
            return "done"
        if round.gated is None or round.gated.verdict == "inconclusive":
            return await self._gate(round)
        if round.gated.verdict == "refused":
            await refuse(self.record, round, "gate", _refusal(round.gated))
            return "done"
        return await self.trial.advance(round)

    async def attempt(self, plan: RoundPlan) -> None:
        """Train by a plan that was prepared."""
        await attempt_round(self.record, plan, self.settings, self.home, command=self.command)

    async def _gate(self, round: TrainingRound) -> Advance:
        try:
            async with self.engine(self.settings, self.home) as engine:
                gated = await run_gate(self.record, engine, self.settings, self.home, round, self.rules)
        except CheckError as error:
            await refuse(self.record, round, "file", str(error))
            return "done"
        except (AdapterError, ServingError) as error:
            if isinstance(error, ServingError) and error.passing:
                raise
            await refuse(self.record, round, "gate", f"the engine does not serve it: {error}")
            return "done"
        if gated.verdict == "inconclusive":
            said = [one for one in gated.conditions if one.holds is None]
            why = said[0].why if said else "a figure is missing"
            if self._gates(round) >= MOST_GATES:
                await refuse(self.record, round, "gate", f"after {MOST_GATES} gates without a verdict: {why}")
                return "done"
            log.warning("gate.inconclusive", agent_id=self.record.agent, round=round.started.round[:12], why=why)
            return "waits"
        return "done"

    def _gates(self, round: TrainingRound) -> int:
        """Gates of this round: those of the lineage behind the ones that earlier rounds had."""
        before = [
            one.gated.number
            for one in self.record.state.rounds
            if one.gated is not None and one.started.round != round.started.round
        ]
        return self.record.state.gates - max(before, default=0)

    async def watch(self) -> bool:
        """Take the adapter that acts back where its acts call for it; whether it was. Raises BusError, StoreError."""
        state = self.record.state
        if state.adapter is None or not state.moves or state.moves[-1].adapter != state.adapter:
            return False
        probe = state.probed.get(state.adapter)
        if probe is not None and not probe.proven and probe.time >= state.moves[-1].time:
            await roll_back(self.record, state.adapter, trigger="probe", why=probe.why or "its probe does not hold")
            return True
        if self.acting is None:
            self.acting = await read_acts(self.settings, self.home, self._first_acts())
        trigger = trigger_of(self.acting, state.adapter, state.previous)
        if trigger is None or trigger.trigger == "person":
            return False
        await roll_back(self.record, state.adapter, trigger=trigger.trigger, why=trigger.why)
        self.acting = None
        return True

    def forget_acts(self) -> None:
        """The pointer was moved: the acts that are compared are read anew."""
        self.trial.acts, self.acting = None, None

    def _first_acts(self) -> int:
        """The first cycle of those that the adapter that acts is held against: 1,000 before its promotion."""
        with store_location(self.settings.store.url, self.home.path).reader() as reader:
            return max(0, (reader.cycles.last_cycle(self.record.agent) or 0) - 1000)

    def hear(self, experience: ExperienceRecorded) -> None:
        """Take an experience of the agent that was recorded, or scored anew, while the trial goes on."""
        if experience.agent == self.record.agent:
            self.trial.hear(experience)
            if self.acting is not None:
                self.acting.hear(experience)


def is_open_round(round: TrainingRound) -> bool:
    """Whether there is a next step for a trainer: it has neither been refused, promoted nor given up. The rounds of an
    embedded mind are its own agent's."""
    if round.started.method == "bandit":
        return False
    if round.refused is not None or round.promoted is not None or round.rolled_back is not None:
        return False
    return round.failed is None or round.failed.again or round.finished is not None


def _refusal(gated: AdapterGated) -> str:
    failed = [one.why for one in gated.conditions if one.holds is False]
    return failed[0] if failed else "the gate refused it"
