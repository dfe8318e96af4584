"""How high the water stands."""

from __future__ import annotations

TWELFTHS = (1, 2, 3, 3, 2, 1)
"""The rule of twelfths: the share of the water that each of the six hours from low to high carries."""


def risen(hours: int) -> float:
    """The share of the rise that has come in after so many whole hours, 0 to 1."""
    return sum(TWELFTHS[:hours]) / 12


def minutes(clock: str) -> int:
    """Minutes since midnight of a time like 09:21."""
    hour, minute = clock.split(":")
    return int(hour) * 60 + int(minute)


def slack(high: str) -> tuple[str, str]:
    """When to count: from ten minutes before the turn to ten minutes after it, as times like 09:21."""
    raise NotImplementedError
