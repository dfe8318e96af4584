"""The proof of which adapter decided a cycle and why it was allowed to: events against the files of the home."""

from __future__ import annotations

from dataclasses import dataclass, field

from conch.errors import CheckError
from conch.home import Home
from conch.minds import FrozenShelf
from conch.rounds.judging.gate_run import verdict_again
from conch.training import AdapterShelf, LineageState, TrainingRound
from conch_schemas import ActionTaken, AdapterProbed, AdapterPromoted, AdapterTried, Event


@dataclass(frozen=True)
class ProofStep:
    """One link of the proof."""

    name: str
    holds: bool | None
    """None: it cannot be said any more, as files were removed."""
    why: str
    """One sentence with what was compared."""


@dataclass
class PolicyProof:
    """Which weights decided a cycle."""

    adapter: str | None
    """Digest; None: the base alone."""
    generation: int
    steps: list[ProofStep] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether no link is broken."""
        return all(one.holds is not False for one in self.steps)


def prove_act(act: ActionTaken, events: list[Event], state: LineageState, home: Home, agentuid: str) -> PolicyProof:
    """The proof for an act. `events`: all of the lineage, in the order of the stream; `state`: after them."""
    adapter = act.decoding.adapter if act.decoding is not None else None
    if adapter is None:
        proof = PolicyProof(None, 0)
        engine = act.decoding.engine if act.decoding is not None else "no engine that said how"
        proof.steps.append(ProofStep("act", True, f"The reply was decoded without an adapter, by {engine}."))
        return proof
    round = state.made(adapter)
    proof = PolicyProof(adapter, 0 if round is None else round.started.generation)
    said = f"The act names the adapter {adapter[:12]}"
    proof.steps.append(ProofStep("act", True, f"{said}, and its policy digest covers it: {act.policy or 'none'}."))
    is_frozen = round is not None and round.started.method == "bandit"
    shelved = _frozen(adapter, home, act.agent) if is_frozen else _file(adapter, home, agentuid)
    proof.steps += [shelved, _trained(round, adapter)]
    if round is not None:
        proof.steps.append(_gate(round, home))
    proof.steps.append(_allowed(act, adapter, events, agentuid))
    if not is_frozen:  # an engine has to prove what it applies, the embedded mind read the file itself
        proof.steps.append(_probe(act, adapter, events))
    return proof


def _file(adapter: str, home: Home, agentuid: str) -> ProofStep:
    if not (home.adapters / adapter).is_dir():
        return ProofStep("file", None, f"The adapter is no longer in {home.adapters} (training.keep).")
    try:
        found = AdapterShelf(home.adapters).get(adapter)
    except CheckError as error:
        return ProofStep("file", False, f"{error}.")
    if found.identity.agentuid != agentuid:
        return ProofStep("file", False, f"The adapter was trained for another agent, {found.identity.agentuid}.")
    base = f"{found.identity.base}, {found.identity.base_digest[:12]}"
    return ProofStep("file", True, f"Weights, configuration and record have this digest; they are of the base {base}.")


def _frozen(digest: str, home: Home, agent: str) -> ProofStep:
    shelf = FrozenShelf(home.generations(agent))
    if not shelf.has(digest):
        return ProofStep("file", None, f"The frozen parameters are no longer in {shelf.folder} (training.keep).")
    try:
        shelf.get(digest)
    except CheckError as error:
        return ProofStep("file", False, f"{error}.")
    return ProofStep("file", True, "The file of the frozen parameters has this digest.")


def _trained(round: TrainingRound | None, adapter: str) -> ProofStep:
    if round is None:
        return ProofStep("training", False, f"No round of this lineage made the adapter {adapter[:12]}.")
    started = round.started
    if started.method == "bandit":
        return ProofStep("training", True, f"Round {started.round[:12]} froze the parameters of the embedded mind.")
    why = (
        f"Round {started.round[:12]} made it by {started.method} on {started.rows} rows, data {started.snapshot[:12]}."
    )
    return ProofStep("training", True, why)


def _gate(round: TrainingRound, home: Home) -> ProofStep:
    gated = round.gated
    if gated is None:
        return ProofStep("gate", False, "It was never judged by a gate.")
    figures = f"gate {gated.number} {gated.verdict} it over {gated.pairs} held-out states"
    if gated.verdict != "passed":
        return ProofStep("gate", False, f"The {figures}.")
    try:
        again = verdict_again(home, round.started.round)
    except CheckError as error:
        return ProofStep("gate", None, f"The {figures}; it cannot be computed again: {error}.")
    same = again.evidence == gated.evidence and again.verdict == gated.verdict
    what = "gives the same verdict and digest" if same else "gives another verdict or digest"
    return ProofStep("gate", same, f"The {figures}; its evidence, computed again, {what}: {again.evidence[:12]}.")


def _allowed(act: ActionTaken, adapter: str, events: list[Event], agentuid: str) -> ProofStep:
    """A promotion before the act that no rollback had undone, or a canary that gave it this cycle."""
    assert act.cycle is not None
    moves = [one for one in events if isinstance(one, AdapterPromoted) and one.adapter == adapter]
    before = [one for one in moves if one.time <= act.time]
    if before:
        last = before[-1]
        by = "a person" if last.by == "person" else f"its trial, {last.evidence}"
        return ProofStep("allowed", True, f"Move {last.move} of the pointer promoted it before the act, by {by}.")
    for tried in events:
        if not isinstance(tried, AdapterTried) or (tried.adapter, tried.stage) != (adapter, "canary"):
            continue
        if tried.verdict is None and tried.cycle_from <= act.cycle:
            return ProofStep("allowed", True, f"Its canary had begun with cycle {tried.cycle_from}.")
    return ProofStep("allowed", False, "No promotion and no canary before this cycle let it act.")


def _probe(act: ActionTaken, adapter: str, events: list[Event]) -> ProofStep:
    probes = [one for one in events if isinstance(one, AdapterProbed) and one.adapter == adapter]
    before = [one for one in probes if one.time <= act.time]
    if not before:
        return ProofStep("probe", False, "No probe before the act proved that the engine applies it.")
    last = before[-1]
    if not last.proven:
        return ProofStep("probe", False, f"The last probe before the act failed: {last.why}.")
    return ProofStep("probe", True, f"{last.engine} gave the recorded replies under {last.served_as}.")
