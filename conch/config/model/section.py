"""The base class of all sections of the settings."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

WEIGHT_TOLERANCE = 1e-6
"""Largest deviation from 1 of weights that sum to 1: the rounding of decimals in binary."""


class SettingsSection(BaseModel):
    """A frozen section of the settings; unknown keys are refused, and so is a text with a NUL.

    No path, address or key can contain a NUL.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _has_no_nul(cls, value: Any) -> Any:
        if isinstance(value, str) and "\0" in value:
            raise ValueError("a NUL character cannot be in it")
        return value
