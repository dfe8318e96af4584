"""A row of the table."""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

TOKEN = "a-token-of-the-bench"


@dataclass
class Row:
    """What became of a fault that was injected again and again."""

    fault: str
    injected: int = 0
    lost: int = 0
    """Acknowledged and not there; or without what should have followed from it."""
    doubled: int = 0
    seconds: list[float] = field(default_factory=list)
    """Of each recovery: from the moment that the fault was over."""
    allowed: str = ""
    """What may be lost by promise; empty: nothing."""
    wrong: list[str] = field(default_factory=list)
    """What else does not hold."""

    @property
    def markdown(self) -> str:
        """One line of the table."""
        middle, worst = statistics.median(self.seconds), max(self.seconds)
        lost = f"{self.lost} ({self.allowed})" if self.lost and self.allowed else str(self.lost)
        return f"| {self.fault} | {self.injected} | {lost} | {self.doubled} | {middle:.2f} | {worst:.2f} |"

    @property
    def holds(self) -> bool:
        """Whether it came out as promised."""
        return not (self.doubled or self.wrong or (self.lost and not self.allowed))


Fault = Callable[[int], Awaitable[Row]]
"""Inject it so many times."""
