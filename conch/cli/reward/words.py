"""How a part of the weight set is told."""

from __future__ import annotations

from conch_schemas import Part


def role_words(part: Part) -> str:
    """What a part's score does to the total, in a word: paid, watched, held out, boost, penalty, gate."""
    if part.role == "paid":
        return "paid" if part.weight else "watched"
    return part.role.replace("_", " ")


def share_words(weight: float | None, role: str) -> str:
    """Its weight where it has one, else its role."""
    return f"{weight:.3f}" if weight else role


def range_words(least: float, greatest: float) -> str:
    """`-1..0.5`."""
    return f"{least:g}..{greatest:g}"
