"""The gate of a round: decodes the held-out decisions under incumbent and candidate, and lets the statistics decide."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from conch.config import Settings
from conch.errors import CheckError
from conch.home import Home, write_whole
from conch.rounds.judging.samples import ActingEngine, SampleRun, by_cycle, gate_pairs, read_samples
from conch.rounds.judging.scoring import candidate_scorer
from conch.rounds.log import LineageLog
from conch.rounds.making.held_out import held_out_cycles
from conch.rounds.making.plan import RoundPlan, round_folder
from conch.rounds.making.prepare import HELD_OUT
from conch.rounds.making.provenance import refuse_foreign, refuse_leaked
from conch.rules import RuleInfo
from conch.training import KL_CAPS, AdapterShelf, ShelvedAdapter, TrainingRound
from conch.training.gate import GateFigures, GateLimits, GateSample, GateVerdict, decide_gate
from conch.values import in_force
from conch_schemas import AdapterGated, TrainingMethod

SAMPLES: Final = "gate.jsonl"
"""The evidence of the gate, in the round's directory."""
BASIS: Final = "gate.json"
"""What the verdict rests on beside the samples: limits, number, figures."""
SEED: Final = 1


async def run_gate(
    log: LineageLog,
    engine: ActingEngine,
    settings: Settings,
    home: Home,
    round: TrainingRound,
    rules: Sequence[RuleInfo] | None = None,
) -> AdapterGated:
    """Judge the adapter of a round, and publish the verdict with the evidence's digest. A run that was ended goes on
    with the replies that there are; replies that a judge did not score are made again. `rules` as `candidate_scorer`.

    Raises CheckError where adapter, plan, data set or held-out decisions are gone, where the adapter is of another
    round, and where a held-out state was trained on; ModelError where the engine does not reply;
    AdapterError where it does not serve the adapter; OSError, BusError.
    """
    assert round.adapter is not None
    plan, shelf = RoundPlan.read(home, round.started.round), AdapterShelf(home.adapters)
    candidate = shelf.get(round.adapter)
    incumbent = None if log.state.adapter is None else shelf.get(log.state.adapter)
    folder = round_folder(home, plan.round)
    cycles = held_out_cycles(plan.agent, folder / HELD_OUT)
    refuse_foreign(plan, candidate.identity)
    refuse_leaked(home, plan, cycles)
    own = settings.model_copy(update={"agent": plan.agent})
    async with candidate_scorer(own, home, rules) as scorer:
        run = SampleRun(engine, own, in_force(own.values), scorer, folder / SAMPLES)
        samples = await run.compare(cycles, incumbent, candidate, SEED)
    number = log.state.gates + 1
    limits, figures = gate_limits(settings, plan.method), _figures(round, candidate, engine)
    basis = {"limits": asdict(limits), "number": number, "figures": asdict(figures)}
    write_whole(folder / BASIS, json.dumps(basis) + "\n")
    verdict = decide_gate(samples, limits, number=number, figures=figures)
    return await log.publish(
        AdapterGated,
        plan.round,
        number,
        round=plan.round,
        adapter=candidate.digest,
        incumbent=None if incumbent is None else incumbent.digest,
        **_fields(verdict),
    )


def gate_limits(settings: Settings, method: TrainingMethod) -> GateLimits:
    """The limits of `training.gate` for an adapter that was trained by this method."""
    gate = settings.training.gate
    kl = KL_CAPS.get(method, GateLimits.kl) if gate.kl is None else gate.kl
    return GateLimits(margin=gate.margin, alpha=gate.alpha, pairs=gate_pairs(gate.states), kl=kl)


def verdict_again(home: Home, round: str) -> GateVerdict:
    """The verdict of a round's gate, computed anew from the evidence in its files. Raises CheckError where these are
    gone or damaged."""
    folder = round_folder(home, round)
    try:
        basis = json.loads((folder / BASIS).read_bytes())
        pairs = by_cycle(list(read_samples(folder / SAMPLES))).values()
        samples = [
            GateSample(pair["incumbent"].state, SEED, pair["incumbent"].for_gate(), pair["candidate"].for_gate())
            for pair in pairs
            if len(pair) == 2
        ]
        limits, figures = GateLimits(**basis["limits"]), GateFigures(**basis["figures"])
        return decide_gate(samples, limits, number=basis["number"], figures=figures)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckError(f"the evidence of the gate in {folder} cannot be read: {error}") from error


def _figures(round: TrainingRound, candidate: ShelvedAdapter, engine: ActingEngine) -> GateFigures:
    """`servable`: the engine has loaded it, and its probe held; the samples could not be there otherwise."""
    lines = candidate.probe(engine.kind)
    differs = any(line.adapter != line.base for line in lines) if lines else None
    finished = round.finished
    return GateFigures(None if finished is None else finished.figures.get("kl"), differs, True)


def _fields(verdict: GateVerdict) -> dict[str, object]:
    return {
        "verdict": verdict.verdict,
        "conditions": [asdict(one) for one in verdict.conditions],
        "number": verdict.number,
        "alpha": verdict.alpha,
        "pairs": verdict.pairs,
        "difference": verdict.difference,
        "bound": verdict.bound,
        "evidence": verdict.evidence,
    }
