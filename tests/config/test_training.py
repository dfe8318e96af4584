"""The settings of training: what pays, drives and trains."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from conch.config import Settings
from conch.curiosity import intrinsic_motivation


def test_the_drives_are_mixed_by_their_weights() -> None:
    """Each under the name that the description of the project gave it."""
    mix = {"curiosity_weight": 0.7, "competence_weight": 0.1, "autonomy_weight": 0.1, "social_weight": 0.1}
    settings = Settings.model_validate({"training": {"intrinsic_motivation": mix}})

    assert intrinsic_motivation(1.0, 0.0, 0.0, 0.0, settings.training.intrinsic_motivation) == pytest.approx(0.7)


@pytest.mark.parametrize(
    "section",
    [
        {"reward_weights": {"format_compliance": 0.5}},
        {"intrinsic_motivation": {"social_weight": 0.9}},
    ],
)
def test_weights_that_do_not_sum_to_1_are_refused(section: dict[str, object]) -> None:
    """With their sum."""
    with pytest.raises(ValidationError, match="they must sum to 1"):
        Settings.model_validate({"training": section})


def test_the_names_of_the_original_description_are_settings() -> None:
    """Each value stands as it was given."""
    given = {"lora": {"r": 8, "alpha": 16, "dropout": 0.1}, "learning_rate": 2e-4, "batch_size": 2}
    training = Settings.model_validate({"training": given}).training

    assert (training.lora.r, training.lora.alpha, training.learning_rate, training.batch_size) == (8, 16, 2e-4, 2)
