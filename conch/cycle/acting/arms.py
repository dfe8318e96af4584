"""Which adapter the pointer names for a cycle, and what stands in for it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from conch.bus import PolicyRecord, TrialRecord


@dataclass(frozen=True)
class PointedAdapter:
    """An adapter that the pointer names."""

    digest: str
    generation: int
    evidence: str = ""
    """Id of the event that allowed it; empty: not known."""


@dataclass(frozen=True)
class PolicyAdapter:
    """What the policy says of the adapter that decides."""

    digest: str
    base: str
    """Name of the model below it; empty: it is the frozen parameters of a reflex mind."""
    covers: tuple[str, ...]
    """Digests of what else decides with it: base, tokenizer, chat template."""
    generation: int
    evidence: str


def arms_of(pointer: PolicyRecord, agentuid: str, cycle: int) -> tuple[PointedAdapter, ...]:
    """The adapters that may decide in this cycle, the first one first; behind the last one the base does.

    The candidate of a canary in its blocks, then the one that acts, then the one that acted before it. The same
    pointer, agent and cycle give the same, so a cycle that a crash interrupted goes on under the same adapter.
    """
    found: list[PointedAdapter] = []
    trial = pointer.trial
    if trial is not None and trial.stage == "canary" and _is_the_candidates(trial, agentuid, cycle):
        found.append(PointedAdapter(trial.adapter, trial.generation, trial.evidence))
    if pointer.adapter is None:
        return tuple(found)
    found.append(PointedAdapter(pointer.adapter, pointer.generation, pointer.evidence))
    if pointer.previous is not None:
        found.append(PointedAdapter(pointer.previous, pointer.previous_generation))
    return tuple(found)


def shadowed(pointer: PolicyRecord, cycle: int) -> TrialRecord | None:
    """The trial whose candidate decides beside this cycle's act; None: there is none."""
    trial = pointer.trial
    return trial if trial is not None and trial.stage == "shadow" and cycle >= trial.begun else None


def named_by(pointer: PolicyRecord) -> frozenset[str]:
    """All adapters that the pointer names: they stay loaded."""
    trial = pointer.trial.adapter if pointer.trial is not None else None
    return frozenset(digest for digest in (pointer.adapter, pointer.previous, trial) if digest is not None)


def _is_the_candidates(trial: TrialRecord, agentuid: str, cycle: int) -> bool:
    if cycle < trial.begun or not 0.0 < trial.share < 1.0:
        return cycle >= trial.begun and trial.share >= 1.0
    from conch.training import arm_of  # imports numpy: only where there is a canary

    return arm_of(trial.adapter, agentuid, cycle, block=trial.block, share=trial.share) == "candidate"
