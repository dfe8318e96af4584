"""Settings of training: what the agent is rewarded and driven by, and how its experiences will train a model."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from conch.config.model.curiosity import DriveWeights, Share
from conch.config.model.section import WEIGHT_TOLERANCE, SettingsSection


class ForkSettings(SettingsSection):
    """Forks: other decisions for a recorded prompt, each tried in a copy of the workspace as it was."""

    snapshots: Literal["auto", "always", "never"] = "auto"
    """Decisions with their workspace are kept; auto: where the mind reads prompts, and of at most 100 agents."""
    keep: Annotated[int, Field(gt=0, le=100_000)] = 200
    """Newest decisions of an agent that are kept."""
    mib: Annotated[float, Field(ge=1)] = 256.0
    """MiB that they take for an agent; a workspace of more than a quarter of it is not kept, its decision is."""
    per_hour: Annotated[int, Field(gt=0)] | None = None
    """Candidates that are made in an hour, of cycles worth it, while the agent is idle; none: none are."""
    candidates: Annotated[int, Field(ge=1, le=64)] = 4
    """Candidates of each of these forks."""
    idle: Annotated[float, Field(ge=0)] = 10.0
    """Seconds without an event of an agent after which it is idle."""
    advantage: Annotated[float, Field(gt=0)] = 0.3
    """Distance of a total from the agent's mean from which a cycle is worth a fork; an invalid reply always is."""


class RewardWeightSettings(SettingsSection):
    """Weights of the five built-in parts of the total; they sum to 1.

    Added parts take their share and these shrink to the rest. `rewards.weights`, where it is given, sets all weights.
    """

    format_compliance: Share = 0.30
    """Weight of the part *format*, 0..1."""
    execution_success: Share = 0.25
    """Weight of the part *execution*, 0..1."""
    needs_satisfaction: Share = 0.20
    """Weight of the part *needs*, 0..1."""
    goal_progress: Share = 0.15
    """Weight of the part *goal*, 0..1."""
    exploration: Share = 0.10
    """Weight of the part *exploration*, 0..1."""

    @property
    def by_component(self) -> dict[str, float]:
        """Weight by the component's name."""
        return {
            "format": self.format_compliance,
            "execution": self.execution_success,
            "needs": self.needs_satisfaction,
            "goal": self.goal_progress,
            "exploration": self.exploration,
        }

    @model_validator(mode="after")
    def _sum_to_one(self) -> Self:
        if abs((total := sum(self.by_component.values())) - 1.0) > WEIGHT_TOLERANCE:
            raise ValueError(f"the weights sum to {total:.9g}, they must sum to 1")
        return self


class IntrinsicMotivationSettings(DriveWeights):
    """Weights of the four drives in their mix *intrinsic*; they sum to 1."""

    curiosity_weight: Share = 0.3
    """Weight of the drive *curiosity*, 0..1."""
    competence_weight: Share = 0.3
    """Weight of the drive *competence*, 0..1."""
    autonomy_weight: Share = 0.2
    """Weight of the drive *autonomy*, 0..1."""
    social_weight: Share = 0.2
    """Weight of the drive *social*, 0..1; while no person has spoken, the mix is the mean of the other three."""


class LoraSettings(SettingsSection):
    """The low-rank adapter that is trained."""

    r: Annotated[int, Field(ge=1, le=256)] = 16
    """Rank of the adapter."""
    alpha: Annotated[int, Field(ge=1, le=4096)] = 32
    """Scale of the adapter: its output counts alpha ÷ r."""
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Share of the adapter's inputs that are dropped in training, 0..1; none: 0.05 for SFT, 0 for other methods."""
    targets: Literal["all-linear", "attention"] = "all-linear"
    """Layers that are adapted: all linear ones but the last, or those of the attention (q, k, v, o)."""


class GateSettings(SettingsSection):
    """When a trained adapter may be tried: it is compared with the one that acts on held-out states."""

    states: Annotated[int, Field(ge=8, le=10_000)] = 100
    """Held-out states of one gate at most: 100 show a difference of 0.10 of the total, 400 one of 0.05."""
    margin: Annotated[float, Field(ge=0, lt=1)] = 0.02
    """The lower bound of the paired difference of the total must be above this."""
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """Chance of a promotion without a difference, over all gates of a lineage."""
    kl: Annotated[float, Field(gt=0)] | None = None
    """Largest divergence to the base, nats a token; none: 8. A format that the base does not know costs 2 to 6."""


class TrialSettings(SettingsSection):
    """How an adapter that passed the gate is tried before it is promoted."""

    shadow: Annotated[int, Field(ge=0)] = 10
    """Cycles in which it decides beside the one that acts, and does not act; 0: none."""
    block: Annotated[int, Field(ge=1, le=1000)] = 5
    """Cycles in a row that one of the two gets."""
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Of the blocks, that the candidate acts in."""
    most: Annotated[int, Field(ge=10)] = 300
    """Pairs of blocks after which a trial without a clear outcome ends: the candidate is set aside."""
    difference: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Differences of the mean total below this count as none."""


class TrainingSettings(SettingsSection):
    """What the agent is rewarded and driven by, and how its experiences train a model."""

    reward_weights: RewardWeightSettings = RewardWeightSettings()
    """Weights of the five built-in parts of the total."""
    intrinsic_motivation: IntrinsicMotivationSettings = IntrinsicMotivationSettings()
    """Weights of the drives in their mix."""
    experience_buffer_size: Annotated[int, Field(ge=1)] = 10_000
    """Newest experiences that `conch.open(home).sampler()` draws from."""
    enabled: bool = False
    """The agent's mind is trained while it runs: rounds begin by themselves, and adapters that pass act."""
    every: Annotated[int, Field(ge=1)] = 200
    """Cycles of an agent between two looks whether there is enough to train on."""
    min_experiences_for_training: Annotated[int, Field(ge=1)] = 50
    """Least experiences since the last round for another one."""
    cooldown: Annotated[float, Field(ge=0)] = 600.0
    """Seconds between the end of a round and the beginning of the next one."""
    idle: Annotated[float, Field(ge=0)] = 0.0
    """Seconds without a waiting message, and without a deadline of a goal near, before a round begins."""
    load: Annotated[float, Field(gt=0)] = 1.0
    """Load of the machine for each processor (1 minute) above which no round begins."""
    method: Literal["auto", "sft", "dpo", "kto", "grpo"] = "auto"
    """auto: SFT while fewer than 9 of 10 free replies are valid, then DPO where there are pairs, else KTO."""
    base: str | None = None
    """Model that is trained: a directory of transformers or a GGUF file; none: the one that the mind serves."""
    review: Annotated[str, Field(pattern=r"^(all|none|sample:(100|[0-9]{1,2})%)$")] = "all"
    """Rows that need a person's approval before training: all, none or sample:N%. A rejected one is never used."""
    lora: LoraSettings = LoraSettings()
    """The low-rank adapter that is trained."""
    learning_rate: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Peak learning rate; none: that of the method, 2e-4 for SFT, 5e-6 for DPO and KTO, 1e-5 for GRPO."""
    epochs: Annotated[int, Field(ge=1, le=10)] = 2
    """Times that each row is seen at most; an early stop sees it less often."""
    batch_size: Annotated[int, Field(ge=1)] = 4
    """Rows of a training step on the device."""
    gradient_accumulation: Annotated[int, Field(ge=1)] = 4
    """Batches whose gradients make one step of the optimizer."""
    replay: Annotated[float, Field(ge=0, le=0.5)] = 0.15
    """Share of the rows that are of earlier rounds and of the base's own answers."""
    memory_mib: Annotated[int, Field(ge=256)] | None = None
    """Most memory of the training's process, MiB; none: three quarters of what is free when it begins."""
    gate: GateSettings = GateSettings()
    """When a trained adapter may be tried."""
    trial: TrialSettings = TrialSettings()
    """How it is tried before it is promoted."""
    keep: Annotated[int, Field(ge=0, le=100)] = 3
    """Adapters that are kept beside the one that acts and the one before it: those with the best gates."""
