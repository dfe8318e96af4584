"""Feature vectors of the reflex mind: the situation and each possible call, as numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conch.minds.protocol import Situation
from conch.minds.templates import TEMPLATES

GROUPS = ("filesystem", "shell", "git", "notes", "reply", "DO_NOTHING", "REFLECT")
NEEDS = 4
"""Needs with a feature of their own: the first ones in the order of their names."""

STARVES = 0.1
"""Satisfaction at or below which a need starves: the default of `needs.starving.level`."""

# A feature's scale is a prior on its weight: a small one is trusted less and explored less. Measured in the default
# workspace; none of them favours a template.
_CONTEXT_SCALE = 0.1
_OWN_REPEAT_SCALE = 0.5
_PROSE_SCALE = 0.5
_REPEAT_SCALE = 2.0
_RECENT_SCALE = 4.0

CONTEXT = 2 * NEEDS + 5
"""Numbers of a context."""
STAGED = 2 * NEEDS + 3
"""The place in it of whether something was staged."""
_SCALES = np.array([1.0] * NEEDS + [_CONTEXT_SCALE] * (CONTEXT - NEEDS))
"""Of the context: a need that starves takes most of what other acts earn, so its feature is trusted at once."""
_TEMPLATES = len(TEMPLATES)
_GROUP = 1
_PAIR = _GROUP + len(GROUPS)
_PLAIN = _PAIR + len(GROUPS) * CONTEXT
_OWN_REPEAT = _PLAIN + _TEMPLATES
_PROSE = _OWN_REPEAT + _TEMPLATES
_REPEAT = _PROSE + _TEMPLATES
_RECENT = _REPEAT + 1
SIZE = _RECENT + 2
"""Features of a choice: 1; its tool; the tool with each part of the context; the template, alone, with a repetition and
with prose; whether it is a repetition; how often the template succeeded and discovered lately."""


@dataclass(frozen=True)
class TemplateRecord:
    """Recent success of a template, later results weighing more; each 0..1."""

    success: float
    discovery: float
    """How often it brought one of the discoveries that *exploration* pays for."""


class CallChoice(NamedTuple):
    """One of the calls to choose from."""

    template: int
    group: str
    repeated: bool
    """Whether the same call was made before."""
    prose: bool
    """Whether the file in the template's slots is prose and not a table or a program."""


def context(situation: Situation, *, staged: bool, written: bool) -> tuple[float, ...]:
    """The features shared by all choices of this decision, each 0..1.

    Whether each need starves; the urgency of the needs; whether the last act failed, whether the last two had the same
    output, whether something was written and whether something was staged since the last commit, whether a message
    waits for an answer.
    """
    levels = [situation.needs[name] for name in sorted(situation.needs)[:NEEDS]]
    absent = [0.0] * (NEEDS - len(levels))
    last = situation.recent[-2:]
    return (
        *[float(level <= STARVES) for level in levels],
        *absent,
        *[1.0 - level for level in levels],
        *absent,
        float(bool(last) and last[-1].status not in ("success", "none")),
        float(len(last) == 2 and last[0].output == last[1].output),
        float(written),
        float(staged),
        float(situation.message is not None),
    )


def features(
    about: Sequence[float], choices: Sequence[CallChoice], lately: Mapping[int, TemplateRecord]
) -> NDArray[np.float64]:
    """A row for each choice, shape [n, SIZE]; `about`: see `context`."""
    rows = np.zeros((len(choices), SIZE))
    rows[:, 0] = 1.0
    scaled = _SCALES * np.asarray(about)
    for row, (template, kind, repeated, prose) in zip(rows, choices, strict=True):
        group = GROUPS.index(kind)
        pair = _PAIR + group * CONTEXT
        row[_GROUP + group] = 1.0
        row[pair : pair + CONTEXT] = scaled
        row[_PLAIN + template] = 1.0
        row[_OWN_REPEAT + template] = _OWN_REPEAT_SCALE * repeated
        row[_PROSE + template] = _PROSE_SCALE * prose
        row[_REPEAT] = _REPEAT_SCALE * repeated
        if went := lately.get(template):
            row[_RECENT] = _RECENT_SCALE * (went.success - 0.5)
            row[_RECENT + 1] = _RECENT_SCALE * (went.discovery - 0.5)
    return rows


def at_hand(tools: Collection[str]) -> frozenset[str]:
    """The groups that can be chosen from with these tools; resting and reflecting need none."""
    return frozenset({*tools, "DO_NOTHING", "REFLECT"}) & frozenset(GROUPS)
