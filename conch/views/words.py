"""The role and the weight of a part of the weight set, in words."""

from __future__ import annotations

from conch_schemas import Part

_LARGE, _ASTRONOMIC = 1e4, 1e12
"""Between these a limit of a range is written out, in groups of three digits."""


def role_words(part: Part) -> str:
    """The effect of a part's score on the total, in a word: paid, watched, held out, boost, factor, penalty, gate.

    `0.1 in tasks`: its weight in acts that belong to a task; of other acts it is no part.
    """
    if part.task_weight is not None:
        return f"{part.task_weight:g} in tasks"
    if part.role == "paid":
        return "paid" if part.weight else "watched"
    return part.role.replace("_", " ")


def share_words(weight: float | None, role: str) -> str:
    """Its weight where it has one, else its role."""
    return f"{weight:.3f}" if weight else role


def range_words(least: float, greatest: float) -> str:
    """`-1..0.5`; `±1,000,000` where it is as wide to both sides and so large that `:g` would write powers of ten."""
    if least == -greatest and greatest >= _LARGE:
        return f"±{_number(greatest)}"
    return f"{_number(least)}..{_number(greatest)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if _LARGE <= abs(value) < _ASTRONOMIC else f"{value:g}"
