"""A lineage in a line, for `conch status` and `conch watch`."""

from __future__ import annotations

from typing import Final, Literal

from conch.training import LineagePhase, LineageState
from conch.views.base import View
from conch.views.training.lineage import why_ended

SHORT: Final = 12
"""Digits of a digest in words."""
_MINUTE, _HOUR = 60.0, 3600.0


class LineageLine(View):
    """A lineage in a line."""

    phase: LineagePhase
    generation: int
    adapter: str | None
    """Digest of the one that acts; None: the base alone."""
    step: int
    """Of the newest round."""
    steps: int
    eta: float | None
    """Seconds that its training will still take; None where it does not train."""
    gate: Literal["passed", "refused", "inconclusive"] | None
    """Verdict of the last gate; None: there was none."""
    why: str
    """Why the newest round ended as it did, in a sentence; empty while it goes on."""


def lineage_line(state: LineageState) -> LineageLine | None:
    """The line of a lineage; None: nothing was trained."""
    newest = state.round
    if newest is None:
        return None
    point = newest.progress[-1] if newest.progress else None
    gates = [one.gated.verdict for one in state.rounds if one.gated is not None]
    return LineageLine(
        phase=state.phase,
        generation=state.generation,
        adapter=state.adapter,
        step=0 if point is None else point.step,
        steps=0 if point is None else point.steps,
        eta=None if point is None or state.phase != "training" else point.eta,
        gate=gates[-1] if gates else None,
        why=why_ended(newest),
    )


def lineage_words(line: LineageLine) -> str:
    """`training: step 12 of 24, 2 min left; generation 1 acts (0123456789ab), last gate refused`."""
    acts = "the base acts" if line.adapter is None else f"generation {line.generation} acts ({line.adapter[:SHORT]})"
    gate = "" if line.gate is None else f", last gate {line.gate}"
    return f"{line.phase}{_how_far(line)}; {acts}{gate}"


def _how_far(line: LineageLine) -> str:
    if line.phase != "training":
        return f": {line.why}" if line.why and line.phase in ("failed", "refused", "rolled back") else ""
    if not line.steps:
        return ": it begins"
    left = "" if line.eta is None else f", {duration_words(line.eta)} left"
    return f": step {line.step} of {line.steps}{left}"


def duration_words(seconds: float) -> str:
    """A duration for a person: `40 s`, `12 min`, `2 h 5 min`."""
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{int(seconds // _HOUR)} h {int(seconds % _HOUR // _MINUTE)} min"
