"""The trial of a candidate: first in the shadow of the one that acts, then in a share of the cycles."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, Literal

from conch.bus import TrialRecord
from conch.config import Settings
from conch.experience import ScoredSince, store_location
from conch.home import Home
from conch.rounds.judging.trial import ActsByAdapter, ShadowedAct, canary_result, shadow_outcome, trigger_of
from conch.rounds.log import LineageLog
from conch.rounds.moves import begin_trial, end_trial, promote
from conch.training import AdapterShelf, CanaryResult, TrainingRound, read_pointer, send_adapter
from conch.values import in_force
from conch_schemas import AdapterRefused, AdapterShadowed, AdapterTried, ExperienceRecorded, TrialStage

SHADOW_PATIENCE: Final = 5
"""Cycles that a shadow may take, as a multiple of `training.trial.shadow`: the agent asks the candidate when idle."""
AHEAD: Final = 2
"""Cycles until a trial begins: by then the agent has read the pointer."""

Advance = Literal["done", "waits"]
"""Whether something was done, and more may be to do; or cycles, data or an engine are waited for."""


@dataclass
class CandidateTrials:
    """The trials of one lineage, one at a time."""

    record: LineageLog
    settings: Settings
    """With the agent's name."""
    home: Home
    acts: ActsByAdapter | None = None
    """Those since the trial in progress began; None: none is, or they are not read yet."""

    def hear(self, experience: ExperienceRecorded) -> None:
        """Take an experience of the agent that was recorded, or scored anew, while the trial goes on."""
        if self.acts is not None:
            self.acts.hear(experience)

    async def advance(self, round: TrainingRound) -> Advance:
        """Do the next step of the trial of a candidate that the gate let pass: begin a stage, look at it, end it."""
        assert round.adapter is not None
        begun = {one.stage for one in round.tried if one.verdict is None}
        ended = {one.stage: one for one in round.tried if one.verdict is not None}
        stages: list[TrialStage] = ["shadow", "canary"] if self.settings.training.trial.shadow else ["canary"]
        for stage in stages:
            outcome = ended.get(stage)
            if outcome is None:
                return await (self._look(round, stage) if stage in begun else self._begin(round, stage))
            if stage == "shadow" and outcome.verdict != "worse":
                continue
            if outcome.verdict != "better":
                await end_trial(self.record, round.adapter)
                await refuse(self.record, round, stage, outcome.why)
                return "done"
        evidence = ended["canary"]
        await promote(self.record, self.home, round.adapter, by="trial", why=evidence.why, evidence=evidence.id)
        self.acts = None
        return "done"

    async def _begin(self, round: TrainingRound, stage: TrialStage) -> Advance:
        assert round.adapter is not None
        cycle = await self._next_cycle()
        settings = self.settings.training.trial
        trial = TrialRecord(
            adapter=round.adapter,
            generation=round.started.generation,
            round=round.started.round,
            stage=stage,
            begun=cycle + AHEAD,
            block=settings.block,
            share=settings.share,
            evidence=round.gated.id if round.gated is not None else "",
        )
        await send_adapter(self.record.bus, AdapterShelf(self.home.adapters), trial.adapter)
        await begin_trial(self.record, trial)
        await self._tried(round, trial, None)
        self.acts = None
        return "done"

    async def _look(self, round: TrainingRound, stage: TrialStage) -> Advance:
        pointer, _ = await read_pointer(self.record.bus, self.record.agent)
        trial = pointer.trial
        if trial is None or trial.adapter != round.adapter or trial.stage != stage:
            if pointer.adapter == round.adapter:
                return "waits"  # a person promoted it meanwhile
            await refuse(self.record, round, "person", "Its trial was ended by a move of the pointer.")
            return "done"
        acts = await self._acts(trial)
        return await (self._shadow(round, trial, acts) if stage == "shadow" else self._canary(round, trial, acts))

    async def _shadow(self, round: TrainingRound, trial: TrialRecord, acts: ActsByAdapter) -> Advance:
        """Compare what the candidate would have done with what was done, once there are enough acts."""
        wanted, passed = self.settings.training.trial.shadow, acts.last - trial.begun + 1
        beside = await self._shadowed(round, acts)
        if len(beside) < wanted and passed < wanted * SHADOW_PATIENCE:
            return "waits"
        outcome = shadow_outcome(beside)
        verdict: Literal["worse", "inconclusive"] = "worse" if outcome.refused else "inconclusive"
        await self._tried(round, trial, verdict, pairs=len(beside), why=outcome.why)
        return "done"

    async def _shadowed(self, round: TrainingRound, acts: ActsByAdapter) -> list[ShadowedAct]:
        def read() -> list[AdapterShadowed]:
            with store_location(self.settings.store.url, self.home.path).reader() as reader:
                events = reader.training.of_round(round.started.round)
            return [one for one in events if isinstance(one, AdapterShadowed) and one.adapter == round.adapter]

        values = in_force(self.settings.values)
        found = []
        for shadow in await asyncio.to_thread(read):
            act = acts.acts.get(shadow.action_id or "")
            if act is not None:
                blocked = shadow.action.valid and values.guard(shadow.action) is not None
                was_blocked = act.outcome.status == "blocked"
                found.append(ShadowedAct(shadow.action.valid, blocked, act.action.valid, was_blocked))
        return found

    async def _canary(self, round: TrainingRound, trial: TrialRecord, acts: ActsByAdapter) -> Advance:
        state, uid = self.record.state, self.record.agentuid
        number = sum(any(one.stage == "canary" for one in each.tried) for each in state.rounds)
        result = canary_result(trial, uid, acts, state.adapter, self.settings.training, max(1, number))
        probe = state.probed.get(trial.adapter)
        if probe is not None and not probe.proven:
            await self._tried(round, trial, "worse", result, why=f"The engine does not serve it: {probe.why}")
            return "done"
        trigger = trigger_of(acts, trial.adapter, state.adapter, trial=result)
        if trigger is not None and trigger.trigger != "worse":
            await self._tried(round, trial, "worse", result, why=trigger.why)
            return "done"
        if not result.over:
            return "waits"
        await self._tried(round, trial, result.verdict, result, why=result.why)
        return "done"

    async def _tried(
        self,
        round: TrainingRound,
        trial: TrialRecord,
        verdict: Literal["better", "worse", "equivalent", "inconclusive"] | None,
        result: CanaryResult | None = None,
        *,
        pairs: int = 0,
        why: str = "",
    ) -> None:
        await self.record.publish(
            AdapterTried,
            round.started.round,
            trial.stage,
            "begun" if verdict is None else "ended",
            round=round.started.round,
            adapter=trial.adapter,
            incumbent=self.record.state.adapter,
            stage=trial.stage,
            verdict=verdict,
            cycle_from=trial.begun,
            pairs=pairs if result is None else result.pairs,
            difference=None if result is None else result.difference,
            low=None if result is None else result.low,
            high=None if result is None else result.high,
            why=why,
        )

    async def _next_cycle(self) -> int:
        with store_location(self.settings.store.url, self.home.path).reader() as reader:
            last = reader.cycles.last_cycle(self.record.agent)
        return 0 if last is None else last + 1

    async def _acts(self, trial: TrialRecord) -> ActsByAdapter:
        if self.acts is None or self.acts.since != trial.begun:
            self.acts = await read_acts(self.settings, self.home, trial.begun)
        return self.acts


async def refuse(
    record: LineageLog,
    round: TrainingRound,
    at: Literal["file", "gate", "shadow", "canary", "person"],
    why: str,
) -> None:
    """Set the adapter of a round aside."""
    digest = round.started.round
    await record.publish(AdapterRefused, digest, round.adapter, round=digest, adapter=round.adapter, at=at, why=why)


async def read_acts(settings: Settings, home: Home, since: int) -> ActsByAdapter:
    """The recorded acts of the agent from a cycle on. Raises StoreError."""

    def read() -> ActsByAdapter:
        acts = ActsByAdapter(since)
        with store_location(settings.store.url, home.path).reader() as reader:
            for experience in reader.cycles.walk(settings.agent, ScoredSince(cycle=since)):
                acts.hear(experience)
        return acts

    return await asyncio.to_thread(read)
