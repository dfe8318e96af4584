"""Settings of training: what the agent is rewarded and driven by, and how its experiences will train a model."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from conch.config.model.curiosity import DriveWeights, Share
from conch.config.model.section import WEIGHT_TOLERANCE, SettingsSection

WAITING_KEYS = (
    "training.min_experiences_for_training",
    "training.lora.r",
    "training.lora.alpha",
    "training.lora.dropout",
    "training.learning_rate",
    "training.batch_size",
    "training.gradient_accumulation",
)
"""Keys of the trainer, which does not exist yet: they are kept, shown, and have no effect."""


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
    """The low-rank adapter that is trained. It waits: there is no trainer yet."""

    r: Annotated[int, Field(ge=1, le=1024)] = 16
    """Rank of the adapter."""
    alpha: Annotated[int, Field(ge=1, le=4096)] = 32
    """Scale of the adapter: its output counts alpha ÷ r."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """Share of the adapter's inputs that are dropped in training, 0..1."""


class TrainingSettings(SettingsSection):
    """What the agent is rewarded and driven by, and how its experiences will train a model."""

    reward_weights: RewardWeightSettings = RewardWeightSettings()
    """Weights of the five built-in parts of the total."""
    intrinsic_motivation: IntrinsicMotivationSettings = IntrinsicMotivationSettings()
    """Weights of the drives in their mix."""
    experience_buffer_size: Annotated[int, Field(ge=1)] = 10_000
    """Newest experiences that `conch.open(home).sampler()` draws from."""
    min_experiences_for_training: Annotated[int, Field(ge=1)] = 50
    """Least new experiences for a training. It waits: there is no trainer yet."""
    review: Annotated[str, Field(pattern=r"^(all|none|sample:(100|[0-9]{1,2})%)$")] = "all"
    """Rows that need a person's approval before training: all, none or sample:N%. A rejected one is never used."""
    lora: LoraSettings = LoraSettings()
    """The low-rank adapter that is trained."""
    learning_rate: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    """Peak learning rate. It waits: there is no trainer yet."""
    batch_size: Annotated[int, Field(ge=1)] = 4
    """Rows of a training step on the device. It waits: there is no trainer yet."""
    gradient_accumulation: Annotated[int, Field(ge=1)] = 4
    """Batches whose gradients make one step of the optimizer. It waits: there is no trainer yet."""
