"""Settings of curiosity: its windows, the exploration bonus, the discoveries, and the weights of the drives."""

from __future__ import annotations

import math
from typing import Annotated, Self

from pydantic import Field, model_validator

from conch.config.model.section import WEIGHT_TOLERANCE, SettingsSection

Share = Annotated[float, Field(ge=0, le=1)]
Acts = Annotated[int, Field(ge=2, le=500)]


class CuriosityWindows(SettingsSection):
    """How far back curiosity looks."""

    acts: Acts = 50
    """Newest acts over which the success rate, the skill improvement and *autonomy* are computed."""
    tries: Acts = 20
    """Newest outcomes of a skill over which its success rate and its learning progress are computed."""
    goals: Acts = 20
    """Newest goals set, over which the share of goals that the agent set itself is computed."""
    messages: Acts = 50
    """Newest messages of people over which *social* is computed."""
    half_life: Acts = 50
    """Acts after which a sighting of a fingerprint counts half: the fade of novelty."""
    forgotten: Annotated[float, Field(ge=0.01, lt=1)] = 0.05
    """Faded count of a fingerprint below which it is forgotten, 0.01..1."""


class ExplorationBonusSettings(SettingsSection):
    """The exploration bonus of a tool by its n uses before."""

    first: Share = 0.5
    """Bonus of a tool that was never used, 0..1."""
    few: Share = 0.3
    """Bonus of a tool used fewer than `few_uses` times, before it fades: few × e^(−n/few_fade), 0..1."""
    few_uses: Annotated[int, Field(ge=1)] = 5
    """Uses from which on a tool counts as used often."""
    few_fade: Annotated[float, Field(gt=0)] = 5.0
    """Uses over which the bonus of a tool used a few times falls to 1/e."""
    many: Share = 0.1
    """Bonus of a tool used often, before it fades: many × e^(−n/many_fade), 0..1."""
    many_fade: Annotated[float, Field(gt=0)] = 20.0
    """Uses over which the bonus of a tool used often falls to 1/e."""


class DiscoverySettings(SettingsSection):
    """The value of *exploration* by what an act discovered; of several the largest counts."""

    new_tool: Share = 0.3
    """First use of a tool, 0..1."""
    new_information: Share = 0.5
    """New information, 0..1."""
    novel_problem_solved: Share = 1.0
    """A goal achieved that had failed before, 0..1."""


class DriveWeights(SettingsSection):
    """Weights that sum to 1, so that a drive of inputs in 0..1 lies in 0..1."""

    @model_validator(mode="after")
    def _weights_sum_to_one(self) -> Self:
        total = math.fsum(getattr(self, name) for name in type(self).model_fields)
        if abs(total - 1.0) > WEIGHT_TOLERANCE:
            raise ValueError(f"the weights sum to {total:.9g}, they must sum to 1")
        return self


class CuriosityDriveWeights(DriveWeights):
    """The drive *curiosity*."""

    novelty: Share = 0.5
    """Weight of the act's novelty, 0..1."""
    exploration_bonus: Share = 0.3
    """Weight of the exploration bonus, 0..1."""
    learning_progress: Share = 0.2
    """Weight of the skill's learning progress, 0..1."""


class CompetenceDriveWeights(DriveWeights):
    """The drive *competence*."""

    success_rate: Share = 0.4
    """Weight of the recent task success rate, 0..1."""
    improvement: Share = 0.3
    """Weight of the skills' mean improvement, 0..1."""
    challenge: Share = 0.3
    """Weight of the challenge level, 0..1."""


class AutonomyDriveWeights(DriveWeights):
    """The drive *autonomy*."""

    self_initiated: Share = 0.4
    """Weight of the share of acts made while no person's message waited, 0..1."""
    goals_set: Share = 0.3
    """Weight of the share of goals that the agent set itself, 0..1."""
    independence: Share = 0.3
    """Weight of the share of acts that did not ask for help, 0..1."""


class CuriositySettings(SettingsSection):
    """Novelty, the drives, and the part *exploration*."""

    windows: CuriosityWindows = CuriosityWindows()
    """How far back curiosity looks."""
    bonus: ExplorationBonusSettings = ExplorationBonusSettings()
    """The exploration bonus of a tool, by its uses."""
    discoveries: DiscoverySettings = DiscoverySettings()
    """The value of each discovery for *exploration*."""
    curiosity: CuriosityDriveWeights = CuriosityDriveWeights()
    """Weights of the drive *curiosity*."""
    competence: CompetenceDriveWeights = CompetenceDriveWeights()
    """Weights of the drive *competence*."""
    sweet_spot: Annotated[float, Field(gt=0, lt=1)] = 0.7
    """Success rate at which a challenge is greatest, 0..1."""
    autonomy: AutonomyDriveWeights = AutonomyDriveWeights()
    """Weights of the drive *autonomy*."""
