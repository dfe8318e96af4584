"""The events of training: a round that makes an adapter, the gate that judges it, its trial, and which one acts.

All are of a *lineage*, the adapters of one agent: `agent` names it. A *round* is one attempt to make its next
generation; the base model alone is generation 0. `adapter` is the digest of an adapter's weights and configuration.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal
from uuid import UUID, uuid5

from pydantic import Field, JsonValue

from conch_schemas.action import Action, Cost, Usage
from conch_schemas.decoding import Decoding
from conch_schemas.envelope import Event, Value

TrainingMethod = Literal["sft", "dpo", "kto", "grpo", "bandit"]
"""Supervised fine-tuning, direct preference optimisation, Kahneman-Tversky optimisation, group relative policy
optimisation in forks; `bandit`: the embedded mind's own parameters, which were frozen."""
TrainingReason = Literal["schedule", "person"]
GateVerdict = Literal["passed", "refused", "inconclusive"]
TrialStage = Literal["shadow", "canary"]
"""shadow: the candidate decides and does not act; canary: it acts in a share of the cycles."""
TrialVerdict = Literal["better", "worse", "equivalent", "inconclusive"]

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""SHA-256, hexadecimal."""
Generation = Annotated[int, Field(ge=0)]


def training_id(agentuid: UUID | str, kind: type[Event], *parts: object) -> str:
    """The id of an event of training: uuid5(agentuid, "<type>/<part>/…"). The same move said twice has one id."""
    return str(uuid5(UUID(str(agentuid)), "/".join([kind.TYPE, *map(str, parts)])))


class TrainingStarted(Event):
    """A round has begun, on a frozen data set."""

    TYPE: ClassVar = "training.started"
    type: Literal["conch.v1.training.started"] = "conch.v1.training.started"
    round: Digest
    """Over lineage, data set, base, method and settings: the same round begun again is the same one."""
    attempt: Annotated[int, Field(ge=1)]
    """1, or 2 where the first one was ended by a kill or failed for a cause that may pass."""
    method: TrainingMethod
    generation: Generation
    """The one that it would become."""
    base: str
    """Name of the base model; empty for a bandit."""
    snapshot: str
    """Digest of the data set's manifest."""
    rows: Annotated[int, Field(ge=0)]
    """Rows to train on, without replay."""
    replay_rows: Annotated[int, Field(ge=0)] = 0
    seen: Annotated[int, Field(ge=0)] = 0
    """Experiences of the lineage that the store had when the data set was made."""
    why: TrainingReason
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    """Learning rate, epochs, rank and the other settings in force."""


class TrainingProgressed(Event):
    """How far a round has come. A figure is None where the method has none."""

    TYPE: ClassVar = "training.progressed"
    type: Literal["conch.v1.training.progressed"] = "conch.v1.training.progressed"
    round: Digest
    attempt: Annotated[int, Field(ge=1)]
    step: Annotated[int, Field(ge=0)]
    steps: Annotated[int, Field(ge=0)]
    """Steps of the optimizer in all."""
    epoch: Annotated[float, Field(ge=0)]
    loss: float | None = None
    eval_loss: float | None = None
    kl: float | None = None
    """Divergence to the base, nats a token."""
    margin: float | None = None
    """Mean of rewards/margins of preference methods: chosen minus rejected."""
    grad_norm: float | None = None
    learning_rate: float | None = None
    tokens_per_second: float | None = None
    eta: float | None = None
    """Seconds that it will still take, by the steps so far."""


class TrainingFinished(Event):
    """A round has made an adapter. It does not act: the gate judges it first."""

    TYPE: ClassVar = "training.finished"
    type: Literal["conch.v1.training.finished"] = "conch.v1.training.finished"
    round: Digest
    attempt: Annotated[int, Field(ge=1)]
    adapter: Digest
    bytes: Annotated[int, Field(ge=0)]
    """Of the adapter's directory."""
    seconds: Annotated[float, Field(ge=0)]
    tokens: Annotated[int, Field(ge=0)] = 0
    """Tokens that were trained on, each epoch counted."""
    figures: dict[str, float] = Field(default_factory=dict)
    """Last values: loss, eval_loss, kl, peak_mib."""


class TrainingFailed(Event):
    """A round has ended without an adapter."""

    TYPE: ClassVar = "training.failed"
    type: Literal["conch.v1.training.failed"] = "conch.v1.training.failed"
    round: Digest
    attempt: Annotated[int, Field(ge=1)]
    why: str
    """One sentence for a person."""
    again: bool = False
    """Whether the same data set is tried once more."""


class GateCondition(Value):
    """A condition of the gate: all must hold."""

    name: str
    """For example `difference`, `format`, `safety`, `held_out_rule`, `length`, `kl`, `probe`."""
    candidate: float | None = None
    incumbent: float | None = None
    limit: float | None = None
    """What the candidate's figure is compared with."""
    holds: bool | None
    """None: it cannot be said, as figures are missing."""
    why: str
    """One sentence with the figures."""


class AdapterGated(Event):
    """The gate has compared a candidate with the incumbent on held-out states."""

    TYPE: ClassVar = "adapter.gated"
    type: Literal["conch.v1.adapter.gated"] = "conch.v1.adapter.gated"
    round: Digest
    adapter: Digest
    incumbent: Digest | None
    """None: the base alone."""
    verdict: GateVerdict
    conditions: tuple[GateCondition, ...]
    number: Annotated[int, Field(ge=1)]
    """How many gates the lineage has had with this one: the error rate is spent over them."""
    alpha: Annotated[float, Field(gt=0, lt=1)]
    """The share of the error rate that this gate spends."""
    pairs: Annotated[int, Field(ge=0)]
    """Held-out states that both were decoded on and scored."""
    difference: float | None = None
    """Mean of the paired differences of the total."""
    bound: float | None = None
    """Its lower bound at 1 - alpha."""
    evidence: str
    """SHA-256 over the samples; `conch train show` prints them."""


class AdapterTried(Event):
    """A trial of a candidate has begun, or has an outcome."""

    TYPE: ClassVar = "adapter.tried"
    type: Literal["conch.v1.adapter.tried"] = "conch.v1.adapter.tried"
    round: Digest
    adapter: Digest
    incumbent: Digest | None
    stage: TrialStage
    verdict: TrialVerdict | None
    """None: it has begun."""
    cycle_from: Annotated[int, Field(ge=0)]
    """The first cycle of the trial."""
    pairs: Annotated[int, Field(ge=0)] = 0
    """Pairs of blocks of cycles that were compared."""
    difference: float | None = None
    """Estimated difference of the mean total of a cycle."""
    low: float | None = None
    high: float | None = None
    """Its interval, valid at any time."""
    why: str = ""
    """One sentence with the figures; empty at the beginning."""


class AdapterRefused(Event):
    """A candidate is set aside: it does not act again."""

    TYPE: ClassVar = "adapter.refused"
    type: Literal["conch.v1.adapter.refused"] = "conch.v1.adapter.refused"
    round: Digest
    adapter: Digest
    at: Literal["file", "gate", "shadow", "canary", "person"]
    """Where: as its file was checked, by the gate, in one of the trials, or by a person."""
    why: str


class AdapterPromoted(Event):
    """The pointer was moved to a candidate: it acts from the next cycle on."""

    TYPE: ClassVar = "adapter.promoted"
    type: Literal["conch.v1.adapter.promoted"] = "conch.v1.adapter.promoted"
    adapter: Digest
    previous: Digest | None
    """What acted before; it stays loaded. None: the base alone."""
    generation: Generation
    move: Annotated[int, Field(ge=1)]
    """Number of this move of the lineage's pointer."""
    by: Literal["trial", "person"]
    round: Digest | None = None
    why: str
    evidence: str = ""
    """Id of the event that allowed it: `adapter.tried`, or `adapter.gated`."""


class AdapterRolledBack(Event):
    """The pointer was moved back: the adapter does not act from the next cycle on."""

    TYPE: ClassVar = "adapter.rolled_back"
    type: Literal["conch.v1.adapter.rolled_back"] = "conch.v1.adapter.rolled_back"
    adapter: Digest
    """What acted."""
    to: Digest | None
    """What acts now; None: the base alone."""
    generation: Generation
    """The generation that acts now."""
    move: Annotated[int, Field(ge=1)]
    trigger: Literal["worse", "format", "guard", "probe", "load", "person"]
    """What called for it: the test on its acts, its format, guardrails, its probe, it cannot be loaded, a person."""
    why: str


class AdapterProbed(Event):
    """An agent's process has asked an engine for the replies by which an adapter is known."""

    TYPE: ClassVar = "adapter.probed"
    type: Literal["conch.v1.adapter.probed"] = "conch.v1.adapter.probed"
    adapter: Digest
    engine: str
    """Kind of the engine."""
    served_as: str
    """The name under which it was asked."""
    proven: bool
    """Whether the replies are those of the record, and differ from the base's."""
    why: str = ""
    """Where not: one sentence."""
    ms: Annotated[float, Field(ge=0)] = 0.0
    """Milliseconds of loading and probing."""


class AdapterShadowed(Event):
    """What a candidate of a shadow trial would have done: its reply to the prompt of the cycle's act.

    `cycle` and `action_id` name that cycle, `causation_id` its `action.taken`. It is no act: nothing was run, it counts
    in no total and changes no need.
    """

    TYPE: ClassVar = "adapter.shadowed"
    type: Literal["conch.v1.adapter.shadowed"] = "conch.v1.adapter.shadowed"
    adapter: Digest
    round: Digest | None = None
    """The round that made the candidate; None: the pointer did not say it."""
    raw: str
    """The reply, shortened."""
    raw_length: int = Field(ge=0)
    raw_sha256: str
    action: Action
    constrained: bool = False
    usage: Usage = Usage()
    model: str
    finish_reason: str
    ms: float = Field(ge=0)
    decoding: Decoding
    """How the reply was decoded; `prompt_sha256` and `state_key` are those of the act's decision."""
    cost: Cost | None = None
    """Price of the tokens; None: not known."""
