"""What each section of the settings is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

WEIGHT_TOLERANCE = 1e-6
"""How far weights that sum to 1 may be from it: what decimals lose in binary."""


class Section(BaseModel):
    """A frozen part of the settings; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)
