"""Which method a round trains by: what the data allow, and what the mind lacks. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from conch_schemas import ExperienceRecorded

LEARNT: Final = 0.9
"""Share of free replies that are valid from which the format counts as learnt (TRAINING, section 4)."""
LEAST_PAIRS: Final = 20
"""Pairs from which DPO is preferred to KTO: with fewer the labels of single replies say more."""
WINDOW: Final = 200
"""Newest experiences whose replies are counted."""

LanguageMethod = Literal["sft", "dpo", "kto", "grpo"]


@dataclass(frozen=True)
class FormatFigures:
    """How often the mind replies in the format by itself."""

    free: int
    """Replies that were decoded without a constraint."""
    valid: int
    """Those of them that are valid."""
    generation: int
    """The generation that acts; 0: the base alone."""

    @property
    def is_learnt(self) -> bool:
        """Whether the format need not be taught first. Without a free reply: once a generation acts."""
        return self.valid >= LEARNT * self.free if self.free else self.generation > 0


@dataclass(frozen=True)
class MethodChoice:
    """A method, and a sentence on why."""

    method: LanguageMethod
    why: str


def format_figures(newest: Iterable[ExperienceRecorded], generation: int) -> FormatFigures:
    """The figures of these experiences; one whose decoding is not recorded does not count."""
    free = [one for one in newest if one.decoding is not None and one.decoding.constraint == "free"]
    return FormatFigures(len(free), sum(one.action.valid for one in free), generation)


def choose_method(wanted: Literal["auto"] | LanguageMethod, figures: FormatFigures, pairs: int) -> MethodChoice:
    """The method of the next round. `wanted`: `training.method`; `pairs`: rows of DPO that could be trained on."""
    if wanted != "auto":
        return MethodChoice(wanted, f"training.method is {wanted}.")
    said = (
        f"{figures.valid} of {figures.free} free replies are valid" if figures.free else "no reply was decoded freely"
    )
    if not figures.is_learnt:
        return MethodChoice("sft", f"{said[0].upper()}{said[1:]}, fewer than {LEARNT:.0%}: the format comes first.")
    if pairs >= LEAST_PAIRS:
        return MethodChoice("dpo", f"The format is learnt ({said}), and there are {pairs} pairs.")
    return MethodChoice("kto", f"The format is learnt ({said}), and there are {pairs} pairs, fewer than {LEAST_PAIRS}.")
