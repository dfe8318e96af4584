"""Which acts and pairs become rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

from conch.errors import UsageError
from conch.rules import POSITIVE


@dataclass(frozen=True)
class Selection:
    """Bounds of a data set. Every act outside of a bound is counted with its reason.

    Raises UsageError for a number outside of its range, and for one that is not finite.
    """

    agent: str | None = None
    """None: all agents."""
    policy: str | None = None
    """Digest of the policy that acted, or its beginning; None: all policies."""
    since: datetime | None = None
    """The first moment of an act; None: no bound."""
    until: datetime | None = None
    """The moment from which acts are left out; None: no bound."""
    coverage: float = 0.5
    """Least coverage of an experience, 0 to 1."""
    positive: float = POSITIVE
    """Least reward of a reply for SFT: the total over the share of the weight that was scored."""
    margin: float = 0.25
    """Least difference of the totals of a pair, above 0."""
    eval_share: float = 0.1
    """Share of the states in eval by their key, and share of the newest acts whose new states are in eval; 0 to 0.5."""
    per_state: int = 64
    """Most pairs of one state."""
    near: float = 0.9
    """Similarity, 0 to 1, from which two texts count as the same."""
    role: str | None = None
    """The role of a team whose acts are taken; None: all acts."""

    def __post_init__(self) -> None:
        for name in ("coverage", "positive", "margin", "eval_share", "near"):
            if not math.isfinite(value := getattr(self, name)):
                raise UsageError(f"{name} {value:g} is no finite number")
        for name, least, most in (("coverage", 0.0, 1.0), ("eval_share", 0.0, 0.5), ("near", 0.0, 1.0)):
            if not least <= (value := getattr(self, name)) <= most:
                raise UsageError(f"{name} {value:g} is outside of {least:g} to {most:g}")
        if not 0.0 < self.margin <= 2.0:
            raise UsageError(f"margin {self.margin:g} is outside of 0 to 2; 0 is no margin")
        if self.per_state < 1:
            raise UsageError(f"{self.per_state} pairs of a state: at least 1")
