"""What every row of experiences has in common: the phases of a cycle and the built-in components."""

from __future__ import annotations

from conch_schemas import BUILTIN_SCORER

PHASES = ("think", "ground", "decide", "act", "reflect")

BUILTIN_SCORERS = {
    "format": BUILTIN_SCORER,
    "execution": BUILTIN_SCORER,
    "needs": "needs",
    "goal": BUILTIN_SCORER,
    "exploration": "curiosity",
}
"""The five components that every row has, in their order, each with its scorer."""
