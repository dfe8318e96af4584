"""The trial of a candidate: what its acts and those of the incumbent come to. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from conch.bus import TrialRecord
from conch.config import TrainingSettings
from conch.training import (
    ActedUnder,
    Arm,
    CanaryAct,
    CanaryLimits,
    CanaryPlan,
    CanaryResult,
    PolicyActs,
    RollbackTrigger,
    decide_canary,
    paired_blocks,
    rise_chance,
    rollback_trigger,
)
from conch.training.gate import spent_alpha
from conch_schemas import ExperienceRecorded

LATE: Final = 1
"""Newest cycles of which rewards may still come: they wait for the next look."""
SHADOW_ALPHA: Final = 0.05
"""Error rate of the one look at invalid replies at the end of a shadow."""
BASE: Final = ""
"""Stands for the base alone, where digests of adapters are keys."""


@dataclass
class ActsByAdapter:
    """The acts of one agent since a cycle, by the adapter that decided them. A revision replaces an earlier one."""

    since: int
    acts: dict[str, ExperienceRecorded] = field(default_factory=dict)
    """By action id, in their newest revision."""

    def hear(self, experience: ExperienceRecorded) -> None:
        """Take an experience, in any order; one from before the first cycle is passed over."""
        if experience.cycle is None or experience.cycle < self.since or experience.action_id is None:
            return
        known = self.acts.get(experience.action_id)
        if known is None or known.revision < experience.revision:
            self.acts[experience.action_id] = experience

    @property
    def last(self) -> int:
        """The last cycle that was heard of; `since` - 1 before the first one."""
        return max((one.cycle or 0 for one in self.acts.values()), default=self.since - 1)

    def canary(self, candidate: str, incumbent: str | None) -> list[CanaryAct]:
        """The acts of the two, told apart by the digest under which each was decoded; those of others are left out."""
        found = []
        for one in self.acts.values():
            adapter = adapter_of(one)
            if adapter in (candidate, incumbent) and one.cycle is not None and one.action_id is not None:
                arm: Arm = "candidate" if adapter == candidate else "incumbent"
                found.append(CanaryAct(one.action_id, one.cycle, arm, one.total, one.revision))
        return found

    def policies(self) -> PolicyActs:
        """The same for the triggers of a rollback; the base is BASE."""
        found = PolicyActs()
        for one in self.acts.values():
            if one.cycle is None or one.action_id is None:
                continue
            blocked = one.outcome.status == "blocked"
            act = ActedUnder(one.cycle, one.action_id, valid=one.action.valid, blocked=blocked)
            found = found.with_act(adapter_of(one) or BASE, act)
        return found


def adapter_of(experience: ExperienceRecorded) -> str | None:
    """Digest of the adapter that decided an act; None: the base, or none is known."""
    return experience.decoding.adapter if experience.decoding is not None else None


def canary_result(
    trial: TrialRecord,
    agentuid: str,
    acts: ActsByAdapter,
    incumbent: str | None,
    settings: TrainingSettings,
    number: int,
) -> CanaryResult:
    """The outcome of a canary up to now. `number`: of this trial in its lineage, from 1 on: the error rate of
    promotions is spent over all of them."""
    plan = CanaryPlan(trial.adapter, agentuid, trial.begun, trial.block, trial.share)
    pairs = paired_blocks(plan, acts.canary(trial.adapter, incumbent), through=acts.last - LATE)
    limits = CanaryLimits(settings.gate.alpha, settings.trial.difference, settings.trial.most)
    return decide_canary(pairs.differences, limits, promote_alpha=spent_alpha(settings.gate.alpha, number))


def trigger_of(
    acts: ActsByAdapter,
    active: str,
    incumbent: str | None,
    *,
    trial: CanaryResult | None = None,
    probe_matches: bool | None = None,
) -> RollbackTrigger | None:
    """What calls for taking an adapter back, by its acts beside those of what acted before; None: nothing does."""
    return rollback_trigger(
        acts.policies(), active=active, incumbent=incumbent or BASE, trial=trial, probe_matches=probe_matches
    )


@dataclass(frozen=True)
class ShadowedAct:
    """An act, and what the candidate would have done in its place."""

    valid: bool
    """The candidate's reply is an action."""
    blocked: bool
    """The guard would block the candidate's action."""
    act_valid: bool
    act_blocked: bool


@dataclass(frozen=True)
class ShadowOutcome:
    """What a shadow has shown."""

    refused: bool
    why: str


def shadow_outcome(acts: Sequence[ShadowedAct]) -> ShadowOutcome:
    """Whether a candidate that decided beside the one that acts may act: no action of its own that the guard blocks,
    and not more invalid replies than chance gives. One that never replied may not."""
    if not acts:
        return ShadowOutcome(True, "It gave no reply beside the one that acts: the agent could not ask it.")
    blocked = sum(one.blocked and not one.act_blocked for one in acts)
    invalid, before = sum(not one.valid for one in acts), sum(not one.act_valid for one in acts)
    chance = rise_chance(invalid, len(acts), before, len(acts))
    figures = f"{len(acts) - invalid} of {len(acts)} replies are valid, {len(acts) - before} of the incumbent's"
    if blocked:
        return ShadowOutcome(True, f"The guard would have blocked {blocked} of its {len(acts)} actions; {figures}.")
    if chance <= SHADOW_ALPHA:
        return ShadowOutcome(True, f"{figures}: by chance alone in {chance:.1%} of such trials.".capitalize())
    return ShadowOutcome(False, f"It decided beside the one that acts: {figures}; the guard would block nothing.")
