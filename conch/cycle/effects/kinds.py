"""Decides the kind of an act's effect from what was measured. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from conch.config import EffectSettings
from conch.cycle.effects.sources import OutputSource
from conch.cycle.effects.state import MeterState
from conch_schemas import EffectKind


@dataclass(frozen=True)
class ActFindings:
    """What was measured of one act."""

    cycle: int
    answered: bool = False
    progressed: bool = False
    """Whether a goal was reached, or its measure rose by at least `effects.goal_rise` above its best."""
    changed: bool = False
    """Whether the workspace has a line that is new to it and to the agent, and what was written is no noise."""
    unseen: int = 0
    """Lines that the act showed and that the agent had not met."""
    finished_file: bool = False
    """Whether the last unseen lines of a file were among them."""
    source: OutputSource | None = None
    """Where the output comes from; None: the act showed nothing, or failed."""
    noise_read: bool = False


def informs(found: ActFindings, state: MeterState, settings: EffectSettings) -> bool:
    """Whether the act brings new information."""
    if found.noise_read or not (found.unseen >= settings.unseen_lines or (found.finished_file and found.unseen)):
        return False
    return found.source != "program" or not programs_exhausted(found.cycle, state, settings)


def programs_exhausted(cycle: int, state: MeterState, settings: EffectSettings) -> bool:
    """Whether other programs' output has brought information as often as it may within the last acts."""
    recent = [earlier for earlier in state.program_acts if earlier > cycle - settings.program_window]
    return len(recent) >= settings.program_acts


def decided(found: ActFindings, state: MeterState, settings: EffectSettings) -> tuple[EffectKind, MeterState]:
    """The kind of an act's effect, and the state after it.

    The first that holds, as what is rarer and worth more comes first: answer, progress, change, information, none.
    Whether a change is paid, the rules decide by `effect.work`.
    """
    brings = informs(found, state, settings)
    kind: EffectKind = "none"
    if found.answered:
        kind = "answer"
    elif found.progressed:
        kind = "progress"
    elif found.changed:
        kind = "change"
    elif brings:
        kind = "information"
    if brings and found.source == "program":
        kept = (*state.program_acts, found.cycle)[-settings.program_acts :]
        return kind, state.model_copy(update={"program_acts": kept})
    return kind, state
