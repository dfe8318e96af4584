"""What a trainer and its child process say to each other: one JSON object a line, told apart by its `kind`.

The trainer writes a `TrainingJob` to the child's stdin, and for GRPO `ScoresGiven`. The child writes reports to its
stdout; the last one is a `TrainingResult`, a `TrainingForecast` or a `TrainingFailure`. Both ends are of one version.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, RootModel

from conch.processes import LocalPath, PipeMessage, decode_line
from conch.training.adapter import ProbeLine
from conch_schemas import TrainingMethod

LEARNING_RATES: Final[dict[TrainingMethod, float]] = {"sft": 2e-4, "dpo": 5e-6, "kto": 5e-6, "grpo": 1e-5}
"""Learning rates for LoRA that the authors of the methods and of TRL recommend."""
KL_CAPS: Final[dict[TrainingMethod, float]] = {"sft": 8.0, "dpo": 8.0, "kto": 8.0, "grpo": 8.0}
"""Most KL divergence from the base, in nats a token. A format that the base does not know costs 2 to 6 by itself."""
_Share = Annotated[float, Field(ge=0.0, le=0.5)]
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ReplaySource(PipeMessage):
    """A snapshot of an earlier round, of which some rows are trained on again."""

    snapshot: LocalPath
    share: _Share
    """Rows that are taken, as a share of the rows of the new snapshot."""


class LoraShape(PipeMessage):
    """Low-rank matrices beside the weights of the base: plain LoRA, without biases."""

    r: Annotated[int, Field(ge=1, le=256)] = 16
    alpha: Annotated[int, Field(ge=1, le=1024)] = 32
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] | None = None
    """None: 0.05 for SFT, else 0."""
    targets: tuple[str, ...] = ()
    """Names of the linear layers; none: all but the output layer."""


class TrainingJob(PipeMessage):
    """What is to be trained, on what, and within which limits."""

    kind: Literal["train"] = "train"
    round: str
    """Id of the attempt to make the next adapter."""
    method: TrainingMethod
    snapshot: LocalPath
    """Directory of a data set in the format of the method."""
    replay: tuple[ReplaySource, ...] = ()
    """Snapshots of the same format."""
    format_snapshot: LocalPath | None = None
    """A snapshot of SFT rows, on which SFT is done first: DPO, KTO and GRPO need a model that knows the format."""
    base: LocalPath
    """A directory that transformers loads, or a GGUF file."""
    base_digest: _Digest | None = None
    """What the base must be, with its tokenizer and its chat template; None: any."""
    tokenizer_digest: _Digest | None = None
    template_digest: _Digest | None = None
    out: LocalPath
    """The adapter's directory: made by the child, and there only when it is whole."""
    lora: LoraShape = LoraShape()
    learning_rate: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """None: the method's, LEARNING_RATES."""
    format_learning_rate: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """Of the SFT on `format_snapshot`; None: that of SFT."""
    epochs: Annotated[float, Field(gt=0.0, le=100.0)] = 2.0
    """How often each row is seen, at most."""
    batch: Annotated[int, Field(ge=1, le=256)] = 4
    accumulation: Annotated[int, Field(ge=1, le=256)] = 1
    """Batches a step."""
    max_tokens: Annotated[int, Field(ge=16)] = 2048
    """Longest row, prompt and reply. A longer one is left out and counted."""
    warm_up: _Share = 0.05
    """Share of the steps in which the learning rate rises; then it falls by a cosine."""
    beta: Annotated[float, Field(gt=0.0, le=10.0)] = 0.1
    """How much DPO and KTO hold the model to where they began."""
    generations: Annotated[int, Field(ge=2, le=64)] = 4
    """Replies a prompt, of GRPO."""
    reply_tokens: Annotated[int, Field(ge=1, le=4096)] = 48
    """Longest reply that is decoded: for GRPO, and of the base."""
    base_replies: _Share = 0.05
    """Replies of the base to general questions that SFT is trained on too, as a share of the new rows."""
    kl_cap: Annotated[float, Field(gt=0.0)] | None = None
    """Largest KL divergence from the base on the rows of eval, in nats a token; None: the method's, KL_CAPS."""
    patience: Annotated[int, Field(ge=1)] = 2
    """Evaluations without a better loss on eval after which training ends."""
    evaluations: Annotated[int, Field(ge=1, le=1000)] = 8
    """How often it is evaluated and saved."""
    eval_rows: Annotated[int, Field(ge=1)] = 64
    """Most rows of eval that an evaluation reads."""
    probes: Annotated[int, Field(ge=0, le=64)] = 8
    """Prompts whose replies are recorded as proof of the adapter."""
    probe_tokens: Annotated[int, Field(ge=1, le=256)] = 24
    """Longest of these replies."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    threads: Annotated[int, Field(ge=1, le=256)] | None = None
    """None: one fewer than the processors that the process may use."""
    memory_mib: Annotated[int, Field(ge=256)] | None = None
    """Most memory; None: no limit of its own."""
    dry_run: bool = False
    """Only say what it would be, how long it would take and how much memory it would need."""

    @property
    def rate(self) -> float:
        """The learning rate."""
        return LEARNING_RATES[self.method] if self.learning_rate is None else self.learning_rate

    @property
    def most_kl(self) -> float:
        """The cap of the KL divergence."""
        return KL_CAPS[self.method] if self.kl_cap is None else self.kl_cap


class RowCounts(PipeMessage):
    """What is trained on."""

    rows: int
    """Rows of train, with the replayed ones."""
    new_rows: int
    replayed: int = 0
    """Rows of earlier snapshots."""
    base_replies: int = 0
    """Replies of the base."""
    format_rows: int = 0
    """Rows of the SFT that is done first."""
    eval_rows: int = 0
    too_long: int = 0
    """Rows that were left out as they have more than `max_tokens` tokens."""
    held_back: int = 0
    """Replayed rows that were left out as the new snapshot has their state, or the row itself."""
    tokens: int = 0
    """Of the rows of train."""
    longest: int = 0
    """Tokens of the longest row that is trained on."""


class TrainingStep(PipeMessage):
    """How far training is."""

    kind: Literal["progressed"] = "progressed"
    stage: TrainingMethod
    step: int
    steps: int
    loss: float | None = None
    eval_loss: float | None = None
    kl: float | None = None
    """To the base, on rows of eval, in nats a token."""
    reward: float | None = None
    """Mean reward of GRPO; of DPO and KTO that of the chosen replies, as the methods define it."""
    margin: float | None = None
    """Mean difference of chosen and rejected, of DPO and KTO."""
    grad_norm: float | None = None
    learning_rate: float | None = None
    tokens_per_second: float | None = None
    seconds_left: float | None = None


class BaseDigests(PipeMessage):
    """What an adapter was trained for: SHA-256, hexadecimal."""

    base: str
    """Of a GGUF file; of a directory over the names and digests of its configuration and its weights."""
    tokenizer: str
    template: str
    """Of the chat template's text."""


class TrainingResult(PipeMessage):
    """The adapter is in `TrainingJob.out`."""

    kind: Literal["finished"] = "finished"
    round: str
    method: TrainingMethod
    digests: BaseDigests
    snapshot_digest: str
    weights_sha256: str
    """Of the file `adapter_model.safetensors`."""
    config_sha256: str
    """Of the file `adapter_config.json`."""
    lora: LoraShape
    """As it was trained: with its dropout and the names of its layers."""
    counts: RowCounts
    figures: dict[str, float]
    """`steps`, `best_step`, `loss`, `eval_loss_before`, `eval_loss`, `kl`, `margin`, `reward`, as far as there are."""
    stopped: Literal["", "eval loss", "KL"] = ""
    """What ended it before its last step."""
    resumed: bool = False
    """Whether it went on from a checkpoint."""
    probes: tuple[ProbeLine, ...]
    """Prompts on which the greedy replies of base and adapter differ, of at most `TrainingJob.probe_tokens` tokens, in
    32 bits; fewer than asked for where no more do."""
    seconds: float
    peak_mib: float


class TrainingForecast(PipeMessage):
    """What a dry run found."""

    kind: Literal["dry_run"] = "dry_run"
    round: str
    method: TrainingMethod
    digests: BaseDigests
    counts: RowCounts
    steps: int
    minutes: float
    mib: float
    """Peak memory."""
    how: str
    """What was measured for it, in one sentence."""


class TrainingFailure(PipeMessage):
    """There is no adapter."""

    kind: Literal["failed"] = "failed"
    round: str
    reason: str
    """One sentence: what is wrong, where, and what to do."""
    can_retry: bool
    """Whether the same job may succeed at another time."""


class ScoresAsked(PipeMessage):
    """Replies that are to be scored; the child waits for `ScoresGiven` with the same number."""

    kind: Literal["score"] = "score"
    number: int
    row_ids: tuple[str, ...]
    """Of the prompt of each reply."""
    replies: tuple[str, ...]


class ScoresGiven(PipeMessage):
    """The scores of replies, in their order; None where there is none."""

    kind: Literal["scored"] = "scored"
    number: int
    scores: tuple[float | None, ...]


TrainingReport = Annotated[
    TrainingStep | TrainingResult | TrainingForecast | TrainingFailure | ScoresAsked, Field(discriminator="kind")
]


class _ReportLine(RootModel[TrainingReport]):
    pass


def decode_training_report(line: bytes) -> TrainingReport:
    """The report on a line of the child. Raises ContractError, in one sentence, for any other line."""
    return decode_line(_ReportLine, line, "a report of the training child").root
